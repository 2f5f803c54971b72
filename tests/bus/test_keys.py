"""Keys of agents: files that only their user can read, outside of every bus."""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from ackbus import Bus
from ackbus.bus.signing import Keyring, SigningKey
from ackbus.errors import BusUnusable, InvalidInput
from ackbus.schema.directory.layout import keys_directory
from ackbus.schema.errors import NotFound, Refused

from ..programs import run_program

NAMES = [
    "alice",
    "../../etc/passwd",
    "..",
    "a/b",
    "worker 1",
    "Ünï",
    "%41",
    "a\\b",
    ".hidden",
    "c:d",
]


@pytest.mark.parametrize("name", NAMES)
def test_key_file_is_in_the_directory_whatever_the_agent_is_called(
    name: str, keyring: Keyring
) -> None:
    """Names can't leave the directory."""
    keyring.create(name)
    (path,) = (path for path in Path(keyring.directory).iterdir() if path.suffix == ".key")
    assert Path(keyring.path(name)) == path
    assert path.is_file()
    assert keyring.agents() == [name]
    assert len(keyring.of(name)) == 1


def test_name_too_long_for_a_file_has_no_key(keyring: Keyring, bus: Bus) -> None:
    keyring.create("alice")
    with pytest.raises(InvalidInput, match="too long"):
        keyring.create("é" * 100)
    bus.publish("t", from_agent="é" * 100)
    assert "signature" not in next(bus.read()).headers


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_key_is_for_its_user_alone_whatever_the_umask(umask: int, keyring: Keyring) -> None:
    before = os.umask(umask)
    try:
        keyring.create("alice")
        keyring.create("alice", rotate=True)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in _all_in(keyring.directory)}
    assert modes == {"keys": 0o700, "alice.key": 0o600, ".lock": 0o600}


def _all_in(directory: str) -> Iterator[Path]:
    yield Path(directory)
    yield from Path(directory).iterdir()


def test_key_that_others_can_read_signs_and_verifies_nothing(
    bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    Path(keyring.path("alice")).chmod(0o640)
    with pytest.raises(BusUnusable, match=r"others can read the key file .*alice\.key"):
        bus.publish("t", from_agent="alice")
    assert bus.log.newest_seq() == 0
    bus.publish("t", from_agent="bob")
    with pytest.raises(BusUnusable, match="others can read"):
        keyring.of("alice")


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "[" * 100_000, '{"agent":"alice","keys":[{"secret":"00"}]}'],
    ids=["empty", "object", "array", "nested deep", "short secret"],
)
def test_damaged_key_file_is_said_and_nothing_is_published_unsigned(
    content: str, bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    Path(keyring.path("alice")).write_text(content)
    with pytest.raises(BusUnusable, match=r"alice\.key is not a key file"):
        bus.publish("t", from_agent="alice")
    assert bus.log.newest_seq() == 0


def test_key_of_another_agent_in_the_file_signs_nothing(
    bus: Bus, keyring: Keyring, alice: SigningKey
) -> None:
    """As on a filesystem that takes Alice and alice for one."""
    os.rename(keyring.path("alice"), keyring.path("bob"))
    bus.publish("t", from_agent="bob")
    assert next(bus.read()).headers == {}


def test_second_key_is_made_only_when_asked_for(keyring: Keyring, alice: SigningKey) -> None:
    with pytest.raises(Refused, match=f"has a key already, {alice.id}"):
        keyring.create("alice")
    newer = keyring.create("alice", rotate=True)
    assert [key.id for key in keyring.of("alice")] == [alice.id, newer.id]
    with pytest.raises(NotFound):
        keyring.remove("bob")


def test_secret_is_in_no_text_of_a_key(alice: SigningKey) -> None:
    assert alice.secret.hex() not in f"{alice} {alice!r} {[alice]}"


def test_keys_are_in_the_user_s_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Outside of every bus: where platformdirs says, which publishers have no time to load."""
    monkeypatch.delenv("BUS_KEYS_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for config in (None, str(tmp_path / "xdg"), ""):
        if config is None:
            monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        else:
            monkeypatch.setenv("XDG_CONFIG_HOME", config)
        expected = Path(platformdirs.user_config_dir(), "ackbus", "keys")
        assert Path(keys_directory()) == expected, (config, sys.platform)


def test_keys_made_at_once_for_one_agent_are_all_kept(keyring: Keyring) -> None:
    """By several processes: each key may have signed something already."""
    made = run_program(
        """
        import subprocess, sys
        one = "from ackbus.bus.signing import Keyring; keys = Keyring(sys.argv[1])"
        one += "; keys.create('alice', rotate=True)"
        command = [sys.executable, "-c", f"import sys; {one}", sys.argv[1]]
        all = [subprocess.Popen(command) for _ in range(4)]
        print([each.wait() for each in all])
        """,
        keyring.directory,
    )
    assert made == "[0, 0, 0, 0]\n"
    assert len(keyring.of("alice")) == 4


def test_key_that_could_not_be_written_leaves_no_secret_behind(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BusUnusable, match="No space left"):
            keyring.create("alice")
    assert os.listdir(keyring.directory) == [".lock"]
    Path(keyring.directory, "alice.key.new").touch()  # of a process that was killed
    assert keyring.create("alice") == keyring.newest("alice")
    assert sorted(os.listdir(keyring.directory)) == [".lock", "alice.key"]
