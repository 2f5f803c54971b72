"""Whose files count: a table over owners, modes, folders and names, looked at by another user."""

import grp
import json
import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ackbus.schema.directory.trust import (
    Distrusted,
    Owners,
    add_safe_directory,
    check,
    fault_of_list,
    open_checked,
    safe_directories,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")


def _of_one_user() -> Iterator[pwd.struct_passwd]:
    """Yield the users of this system, but root, that have a group of their own."""
    users = pwd.getpwall()
    for user in users:
        in_group = [each for each in users if each.pw_gid == user.pw_gid]
        try:
            members = grp.getgrgid(user.pw_gid).gr_mem
        except KeyError:
            continue
        if user.pw_uid and in_group == [user] and not members:
            yield user


USERS = list(_of_one_user())[:3]
#: A group that nobody knows.
SHARED = 61999


def as_user(user: pwd.struct_passwd, act: Callable[[], Any]) -> Any:
    """Return what a function returns, as JSON has it, in a process of another user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            os.write(writer, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder of root's that every user may enter; not below one that only root may."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


OWNERS = ("self", "root", "other", "trusted")
FILES = {"0600": 0o600, "0644": 0o644, "0664 own": 0o664, "0664 shared": 0o664, "0666": 0o666}
FOLDERS = (0o755, 0o775, 0o777, 0o1777)


def _ids(owner: str) -> pwd.struct_passwd:
    return dict(zip(OWNERS, (USERS[0], pwd.getpwuid(0), USERS[1], USERS[2]), strict=True))[owner]


def _expected(owner: str, mode: str, folder: int, is_named: bool) -> bool:
    may_own = owner != "other" or is_named
    return may_own and mode in ("0600", "0644", "0664 own") and folder in (0o755, 0o1777)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_table_of_owners_and_modes(ground: Path, is_named: bool) -> None:
    cases = list(product(OWNERS, FILES, FOLDERS))
    for number, (owner, mode, folder) in enumerate(cases):
        place = ground / str(number)
        place.mkdir()
        (place / "file").write_text("x")
        group = SHARED if mode.endswith("shared") else _ids(owner).pw_gid
        os.chown(place / "file", _ids(owner).pw_uid, group)
        os.chmod(place / "file", FILES[mode])
        os.chown(place, USERS[0].pw_uid, SHARED)
        os.chmod(place, folder)

    def look() -> list[bool]:
        trusted = Owners([USERS[2].pw_uid])
        found = []
        for number in range(len(cases)):
            path = ground / str(number) / "file"
            owners = trusted.of(path) if is_named else trusted
            try:
                os.close(open_checked(path, owners))
            except Distrusted:
                found.append(False)
            except PermissionError:  # the mode keeps this user out: it was looked at before
                found.append(True)
            else:
                found.append(True)
        return found

    verdicts = dict(zip(cases, as_user(USERS[0], look), strict=True))
    # The group of another user's file is that user's own: nobody but its owner can write.
    wrong = {
        case: verdict for case, verdict in verdicts.items() if verdict != _expected(*case, is_named)
    }
    assert not wrong


def _verdict(path: Path, *, reads_names: bool = False) -> str:
    try:
        check(path, reads_names=reads_names)
    except Distrusted as error:
        return str(error)
    return ""


def test_a_folder_that_is_listed_may_not_be_sticky(ground: Path) -> None:
    os.chmod(ground, 0o1777)
    assert "everybody can write into" in _verdict(ground, reads_names=True)
    assert _verdict(ground) == ""


def test_the_owner_of_each_link_and_folder_on_the_way_counts(ground: Path) -> None:
    stranger = USERS[1].pw_uid
    (ground / "in" / "deep").mkdir(parents=True)
    (ground / "in" / "deep" / "file").write_text("x")
    (ground / "link").symlink_to("in/deep")
    (ground / "far").symlink_to(ground / "link" / "file")
    assert _verdict(ground / "far") == ""
    for path in (ground / "in", ground / "in/deep", ground / "link", ground / "far"):
        os.chown(path, stranger, stranger, follow_symlinks=False)
        assert f"{path} belongs to" in _verdict(ground / "far"), path
        os.chown(path, 0, 0, follow_symlinks=False)
    (ground / "round").symlink_to("round")
    assert "too many links" in _verdict(ground / "round")
    os.chmod(ground / "in", 0o777)
    assert f"everybody can write into {ground}/in;" in _verdict(ground / "far")


def test_in_a_sticky_folder_a_file_counts_by_its_own_owner(ground: Path) -> None:
    os.chmod(ground, 0o1777)
    (ground / "mine").write_text("x")
    (ground / "theirs").write_text("x")
    os.chown(ground / "theirs", USERS[1].pw_uid, 0)
    assert _verdict(ground / "mine") == ""
    assert "belongs to" in _verdict(ground / "theirs")


def test_a_list_that_others_may_write_counts_as_empty(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(ground))
    monkeypatch.delenv("BUS_SAFE_DIRECTORIES", raising=False)
    (ground / "any").mkdir()
    assert add_safe_directory(str(ground / "any"))
    assert safe_directories() == [str(ground / "any")]
    assert fault_of_list() is None
    path = ground / "ackbus" / "safe-directories"
    for spoil, mend in (
        (lambda: os.chmod(path, 0o666), lambda: os.chmod(path, 0o600)),
        (lambda: os.chmod(ground / "ackbus", 0o777), lambda: os.chmod(ground / "ackbus", 0o700)),
        (lambda: os.chown(path, USERS[1].pw_uid, 0), lambda: os.chown(path, 0, 0)),
    ):
        spoil()
        assert safe_directories() == []
        assert "counts as empty" in str(fault_of_list())
        mend()
        assert safe_directories()


def test_a_trusted_folder_trusts_whoever_owns_what_is_in_it(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackbus.schema.directory.trust import trusted_owners

    (ground / "theirs" / "in").mkdir(parents=True)
    (ground / "theirs" / "in" / "file").write_text("x")
    for path in (ground / "theirs", ground / "theirs/in", ground / "theirs/in/file"):
        os.chown(path, USERS[1].pw_uid, USERS[1].pw_gid)
    with pytest.raises(Distrusted):
        check(ground / "theirs/in/file", trusted_owners())
    monkeypatch.setenv("BUS_SAFE_DIRECTORIES", f"/elsewhere:{ground}/theirs")
    check(ground / "theirs/in/file", trusted_owners())
    os.chmod(ground / "theirs/in/file", 0o666)
    with pytest.raises(Distrusted, match="everybody can write"):
        check(ground / "theirs/in/file", trusted_owners())
