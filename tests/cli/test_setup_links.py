"""bus setup in a clone whose links a stranger made: nothing outside is read, written or removed.

A table over the programs, what is done to each, every file and folder on the way to what it
writes, and the kinds of links that can be there.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ackbus.schema.directory.enclosure import Enclosure, LinkRefused
from ackbus.schema.errors import AckbusError, Refused
from ackbus.setup.installation import Installation
from ackbus.setup.programs import PROGRAMS

from ..conftest import RunBus
from ..sizes import sampled

#: What a file outside holds before, by the end of its name: it could be merged into.
TEXTS = {".json": "{}\n", ".toml": "a = 1\n", ".md": "# Mine\n", ".js": ""}

#: The kinds of links that lead out of the project, each made for a path and a place outside.
LEADING_OUT: dict[str, Callable[[Path, Path], None]] = {
    "relative": lambda path, out: path.symlink_to(os.path.relpath(out, path.parent)),
    "absolute": lambda path, out: path.symlink_to(out),
    "chain": lambda path, out: _chain(path, out),
    "out and in again": lambda path, out: path.symlink_to(
        os.path.join(os.path.relpath(path.parents[len(path.parents) - 2], path.parent), "..", out)
    ),
    "dangling": lambda path, out: path.symlink_to(out.parent / "not-there" / out.name),
    "circle": lambda path, out: path.symlink_to(path.name),
    "proc": lambda path, out: path.symlink_to(f"/proc/self/root{out}"),
}


def _chain(path: Path, out: Path) -> None:
    between = path.with_name(f"{path.name}-between")
    between.symlink_to(out)
    path.symlink_to(between.name)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; a home and a folder outside are beside it."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home" / ("" if name == "HOME" else "config")))
    for name in ("home", "outside", "project"):
        (tmp_path / name).mkdir()
    return tmp_path / "project"


def installation(name: str, root: Path, scope: Any = "project") -> Installation:
    options = ("--dir", str(root / ".worker-state"))
    return Installation(name, "me", "/opt/bin/bus", str(root), options, scope)


def of_project(name: str, scope: str, root: Path) -> list[Path]:
    """The files of a setup that are in the project."""
    if scope == "local" and not PROGRAMS[name].has_local:
        return []
    paths = [Path(file.path) for file in installation(name, root, scope).files()]
    return [path for path in paths if path.is_relative_to(root)]


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Every program, scope, part of a path that it writes to, and kind of link."""
    root = Path("/project")
    for name in PROGRAMS:
        for scope in ("project", "local"):
            parts: set[Path] = set()
            for path in of_project(name, scope, root):
                below = path.relative_to(root)
                parts |= {below, *below.parents} - {Path()}
            for part in sorted(parts):
                for kind in LEADING_OUT:
                    yield name, scope, str(part), kind


def all_of(folder: Path) -> dict[str, object]:
    """Everything below a folder: modes, links, bytes."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        what = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        found[str(path)] = (path.lstat().st_mode, path.lstat().st_ino, what)
    return found


def put_link(root: Path, part: str, kind: str, files: list[Path]) -> Path:
    """Put a link in the place of a part of a path, with all that belongs to it outside."""
    link, out = root / part, root.parent / "outside" / "there"
    for path in files:
        if path.is_relative_to(link):
            there = out / path.relative_to(link) if path != link else out
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_text(TEXTS[path.suffix])
    link.parent.mkdir(parents=True, exist_ok=True)
    LEADING_OUT[kind](link, out)
    return link


@pytest.mark.parametrize(("name", "scope", "part", "kind"), sampled([*rows()], every=4))
def test_link_out_of_the_project_is_named_and_nothing_is_done_through_it(
    name: str, scope: str, part: str, kind: str, root: Path
) -> None:
    files = of_project(name, scope, root)
    link = put_link(root, part, kind, files)
    before = all_of(root.parent)
    setup = installation(name, root, scope)
    setup.as_it_stands(), setup.notes, setup.is_set_up()
    for changes in (setup.additions, setup.removals):
        with pytest.raises(Refused) as refused:
            changes()
        assert "\n" not in str(refused.value)
        assert str(refused.value).startswith(f"{link}")
    assert all_of(root.parent) == before


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_what_was_set_up_is_not_removed_through_a_link_that_came_later(
    name: str, kind: str, root: Path
) -> None:
    """A branch that is checked out later may have another thing there."""
    setup = installation(name, root)
    for change in setup.additions():
        change.apply()
    for path in of_project(name, "project", root):
        out = root.parent / "outside" / path.name
        path.rename(out)
        LEADING_OUT[kind](path, out)
        before = all_of(root.parent)
        with pytest.raises(LinkRefused, match=f"{path} is a link to"):
            setup.removals()
        assert all_of(root.parent) == before
        path.unlink()
        out.rename(path)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_link_within_the_project_is_followed_and_stays(
    name: str, is_absolute: bool, root: Path
) -> None:
    kept = root / "kept" / "deeper"
    kept.mkdir(parents=True)
    for number, path in enumerate(of_project(name, "project", root)):
        target = kept / f"{number}{path.suffix}"
        target.write_text(TEXTS[path.suffix])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target if is_absolute else os.path.relpath(target, path.parent))
    before = all_of(root)
    setup = installation(name, root)
    for change in setup.additions():
        change.apply()
    assert setup.additions() == []
    for path in of_project(name, "project", root):
        assert path.is_symlink()
        assert "bus" in path.read_text()
    for change in setup.removals():
        if change.after is not None:
            change.apply()
    assert {path: each[2] for path, each in all_of(root).items()}.keys() >= before.keys()


@pytest.mark.parametrize("target", [".git/config", ".GIT/hooks/pre-commit", "state/blobs/x"])
def test_link_into_a_repository_or_a_bus_is_refused(target: str, root: Path) -> None:
    """A file of the project is no part of git's own folder, and none of a bus."""
    there = root / target
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    (root / "state").mkdir(exist_ok=True)
    (root / "state" / "bus.db").write_bytes(b"")
    (root / ".mcp.json").symlink_to(target)
    before = all_of(root)
    with pytest.raises(LinkRefused, match=r"\.mcp\.json is a link to .*, in (\.git|a bus): "):
        installation("claude", root).additions()
    assert all_of(root) == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_person_keeps_their_own_links_in_their_home(name: str, root: Path) -> None:
    """As stow and chezmoi make them: they lead wherever their owner wants."""
    home, outside = root.parent / "home", root.parent / "outside"
    setup = installation(name, home, "global")
    for number, file in enumerate(setup.files()):
        path, target = Path(file.path), outside / str(number)
        target.write_text(TEXTS[path.suffix])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target if number % 2 else os.path.relpath(target, path.parent))
    for change in setup.additions():
        change.apply()
    assert all("bus" in path.read_text() for path in outside.iterdir())
    assert all(Path(file.path).is_symlink() for file in setup.files())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
def test_link_of_another_user_in_a_home_is_refused(root: Path) -> None:
    home, outside = root.parent / "home", root.parent / "outside"
    (outside / "x").write_text("{}")
    link = home / ".claude.json"
    link.symlink_to(outside / "x")
    os.lchown(link, 12345, 12345)
    with pytest.raises(LinkRefused, match=r"which another user has made"):
        installation("claude", home, "global").additions()
    assert (outside / "x").read_text() == "{}"


def test_hard_link_keeps_its_own_bytes(root: Path) -> None:
    outside = root.parent / "outside" / "x"
    outside.write_text("{}")
    os.link(outside, root / ".mcp.json")
    for change in installation("claude", root).additions():
        change.apply()
    assert outside.read_text() == "{}"
    assert "ackbus" in (root / ".mcp.json").read_text()


@pytest.mark.slow
def test_link_that_comes_and_goes_while_we_write_leads_nowhere(root: Path) -> None:
    """The race between a look and a write: a thread exchanges folder and file all the time."""
    outside, is_over = root.parent / "outside", threading.Event()
    (outside / "config.toml").write_text("mine = 1\n")
    (outside / "hooks.json").write_text("{}\n")
    (root / "real").mkdir()
    (root / "link").symlink_to(outside)
    before = all_of(outside)

    def exchange() -> None:
        while not is_over.is_set():
            for source in ("link", "real"):
                with suppress(OSError):
                    os.rename(root / source, root / ".codex")
                with suppress(OSError):
                    os.rename(root / ".codex", root / source)

    racing = threading.Thread(target=exchange)
    racing.start()
    written = 0
    try:
        for _ in range(300):
            with suppress(AckbusError, OSError):
                setup = installation("codex", root)
                for change in setup.additions():
                    change.apply()
                    written += 1
                for change in setup.removals():
                    change.apply()
    finally:
        is_over.set()
        racing.join()
    assert written > 0
    assert all_of(outside) == before


def test_enclosure_takes_no_path_that_is_not_below_it(root: Path) -> None:
    for path in ("..", "../x", "/etc/passwd", "."):
        with pytest.raises(ValueError, match="is not below"), Enclosure(str(root)).spot(path):
            pass


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--remove"], ["--dry-run"], ["--check"]])
def test_command_names_the_link_in_a_line(
    option: list[str], bus: Any, project: Path, run_bus: RunBus, tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere"
    outside.write_text("# Mine\n")
    (project / "AGENTS.md").symlink_to(outside)
    done = run_bus("setup", "claude", *option)
    assert done.code == 3
    said = done.out if option == ["--check"] else done.err
    (line,) = [line for line in said.splitlines() if "is a link to" in line]
    assert str(project / "AGENTS.md") in line
    assert outside.read_text() == "# Mine\n"
