"""A bus that another user owns, where commands find it: refused by all of them, unless allowed."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import RunBus
from . import reference
from .conftest import OF_A_SERVICE
from .git import git_env

#: Some user who is neither root nor the one who runs the tests, and another.
STRANGER, VICTIM = 65534, 61234

pytestmark = [
    pytest.mark.slow,  # starts many processes
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user"),
]

#: What stands for an argument that a command needs.
_ARGUMENTS = {
    "agent": ["me"],
    "command": ["true"],
    "conversation": ["1"],
    "count": ["5", "--inbox", "me"],
    "event": ["start"],
    "key": ["1"],
    "name": ["n"],
    "paths": ["src", "--agent", "me"],
    "place_of_line": ["a.py:1"],
    "program": ["claude"],
    "prompt": ["search"],
    "question": ["why"],
    "ref": ["sha256-" + "0" * 64],
    "seq": ["1"],
    "seqs": ["1"],
    "text": ["x"],
    "to": ["copy"],
    "type": ["t", "--from", "me"],
    "url": ["http://127.0.0.1:9/"],
    "words": ["x"],
}

#: What some need besides, or instead.
_OPTIONS = {
    "bus ack": ["me", "1"],
    "bus forward": ["--allow-private", "--agent", "me", "--drain"],
    "bus dead drop": ["1"],
    "bus dead requeue": ["1"],
    "bus graph": ["--agents"],
    "bus heartbeat": ["me"],
    "bus hook": ["--agent", "me"],
    "bus import": ["lines.jsonl"],
    "bus inbox": ["me"],
    "bus job retry": ["1"],
    "bus lease acquire": ["--agent", "me"],
    "bus lease release": ["--agent", "me", "--token", "1"],
    "bus lease renew": ["--agent", "me", "--token", "1"],
    "bus limit clear": ["--inbox", "me"],
    "bus parked drop": ["me", "1"],
    "bus task add": ["--prompt", "search"],
    "bus parked requeue": ["me", "1"],
    "bus poll": ["me"],
    "bus publish": ["t", "--from", "me"],
    "bus queue create": ["--type", "t"],
    "bus queue set": ["--retry", "asked"],
    "bus replay": ["--from", "1"],
    "bus reservations release": ["--agent", "me"],
    "bus reservations renew": ["--agent", "me"],
    "bus run": ["--type", "t"],
    "bus task fail": ["--reason", "r", "--token", "1"],
    "bus task proof": ["t"],
    "bus task reject": ["--message", "m"],
    "bus task spawn": ["--worker", "me"],
    "bus task work": ["--worker", "me", "--", "true"],
    "bus token create": ["--scope", "admin"],
}

#: Options of tasks that stand for nothing but who acts.
_ACTS = "The agent that acts."

#: Commands that use no bus but one of their own, or git's history alone.
_ELSEWHERE = {"bus demo", "bus log"}
#: They say nothing of any trouble, or in a form of their own.
_SILENT = {"bus prompt", "bus mcp"}


def command_lines() -> dict[str, list[str]]:
    """A line for each command that takes --dir, without it."""
    lines = {}
    for path, command in reference.commands():
        if not any("--dir" in parameter.opts for parameter in command.params):
            continue
        if path.split()[1] in OF_A_SERVICE:
            continue
        needed = [p.name for p in command.params if p.param_type_name == "argument" and p.required]
        is_told = path.startswith(("bus ack", "bus parked"))
        words = [word for name in needed for word in _ARGUMENTS[name] if not is_told]
        acts = any(str(p.help).startswith(_ACTS) for p in command.params if hasattr(p, "help"))
        who = ["--agent", "me"] if acts else []
        lines[path] = [*path.split()[1:], *who, *_OPTIONS.get(path, []), *words]
    return lines


@pytest.fixture
def others_bus(bus_dir: Path) -> Path:
    """The directory of a bus that belongs to somebody else, where commands find it."""
    with Bus.open(bus_dir) as bus:
        bus.publish("t", "a secret of theirs", from_agent="them")
    give(bus_dir, STRANGER)
    return bus_dir


def give(directory: Path, user: int) -> None:
    """Makes a directory, and all in it, another user's."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def state(directory: Path) -> dict[str, tuple[int, int]]:
    """The files of a bus, with their sizes and times."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in directory.rglob("*")
    }


def test_every_command_refuses_a_bus_that_it_finds_and_another_user_owns(
    others_bus: Path, project: Path, bus_env: dict[str, str]
) -> None:
    """With the line that would allow it; nothing in it is read, and nothing changed."""
    subprocess.run(["git", "init", "-q"], cwd=project, env=git_env(bus_env), check=True)
    (project / "lines.jsonl").write_text('{"id":"a","type":"t","from":"a"}')
    (project / "crew.yaml").write_text("planner: {command: 'true'}")
    subprocess.run(["git", "add", "lines.jsonl"], cwd=project, env=git_env(bus_env), check=True)
    before = state(others_bus)
    lines = {path: line for path, line in command_lines().items() if path not in _ELSEWHERE}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("on_terminals.py"))],
        input=json.dumps([*lines.values(), ["completion", "words", "bus queue show "]]),
        capture_output=True,
        text=True,
        cwd=project,
        env=git_env(bus_env),
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *told, offered = json.loads(done.stdout)
    advice = f"'bus trust add {others_bus}'"
    refused = {path: end for path, end in zip(lines, told, strict=True) if path not in _SILENT}
    assert [(path, end) for path, end in refused.items() if advice not in end[1]] == []
    codes = {path: code for path, (code, _) in refused.items() if code != 1}
    assert codes == {"bus hook": 0}  # an agent's program would take another for a fault of its own
    assert not any("secret" in text for _, text in told)
    assert offered == [0, ""]
    assert state(others_bus) == before


def test_it_is_used_where_the_user_has_said_so(
    others_bus: Path, run_bus: RunBus, tmp_path: Path
) -> None:
    """By --dir, BUS_DIR, the environment's list, this user's list; and no longer when that ends."""
    assert run_bus("read").code == 1
    assert "a secret" in run_bus("read", "--dir", others_bus).out
    for allowed in ("BUS_DIR", "BUS_SAFE_DIRECTORIES"):
        assert "a secret" in run_bus("read", env={allowed: str(others_bus)}).out
    folder = {"BUS_SAFE_DIRECTORIES": str(others_bus.parent)}  # as `bus trust add` takes it too
    assert "a secret" in run_bus("read", env=folder).out
    above = {"BUS_SAFE_DIRECTORIES": str(others_bus.parent.parent)}
    assert run_bus("read", env=above).code == 1
    listed = f"/elsewhere{os.pathsep}*"
    assert "a secret" in run_bus("read", env={"BUS_SAFE_DIRECTORIES": listed}).out
    assert run_bus("read", env={"BUS_SAFE_DIRECTORIES": "/elsewhere"}).code == 1

    advice = run_bus("read").err.partition("run 'bus ")[2].partition("'")[0]
    assert run_bus(*shlex.split(advice)).code == 0
    assert "a secret" in run_bus("read").out
    assert run_bus("trust", "list").out == f"{others_bus}\n"
    assert run_bus("trust", "remove", others_bus).code == 0
    assert run_bus("read").code == 1
    assert run_bus("trust", "add", "*").code == 0
    assert "a secret" in run_bus("read").out


def test_the_list_is_a_text_file_that_people_may_edit(
    others_bus: Path, project: Path, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    path = Path(bus_env["HOME"], ".config/ackbus/safe-directories")
    assert run_bus("trust", "list").code == 4
    assert run_bus("trust", "add", project).code == 0  # the folder that it is in
    assert run_bus("trust", "add", others_bus).out == f"already in {path}\n"
    assert path.read_text() == f"{others_bus}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(f"# of the team\n\n{project}/../project/.worker-state")
    assert run_bus("where").code == 0
    assert run_bus("trust", "add", "*").code == 0
    assert run_bus("trust", "remove", "*").code == 0
    assert path.read_text().startswith("# of the team\n\n")
    path.write_text(f"#{others_bus}")
    assert run_bus("where").code == 1
    assert run_bus("trust", "remove", others_bus).code == 4
    empty = run_bus("trust", "add", "/nowhere")
    assert (empty.code, empty.err.count("\n")) == (1, 1)
    assert "no bus in /nowhere" in empty.err


def test_processes_that_add_at_once_lose_no_line(
    tmp_path: Path, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    buses = [tmp_path / f"bus-{n}" for n in range(60)]
    for bus in buses:
        bus.mkdir()
        (bus / "bus.db").write_bytes(b"x")  # nothing looks into it here
    program = "import sys; from ackbus.schema.directory.trust import add_safe_directory as add\n"
    program += "print(flush=True); sys.stdin.read()\nfor each in sys.argv[1:]: add(each)"
    adding = [
        subprocess.Popen(
            [sys.executable, "-c", program, *map(str, buses[n::6])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=bus_env,
        )
        for n in range(6)
    ]
    for process in adding:
        assert process.stdout is not None
        process.stdout.readline()
    for process in adding:
        assert process.stdin is not None
        process.stdin.close()
    for process in adding:
        with process:
            process.wait(60)
        assert process.returncode == 0
    assert sorted(run_bus("trust", "list").out.split()) == sorted(map(str, buses))


def test_a_list_that_cannot_be_read_allows_nothing_and_is_not_replaced(
    others_bus: Path, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    path = Path(bus_env["HOME"], ".config/ackbus/safe-directories")
    path.mkdir(parents=True)
    assert "belongs to" in run_bus("where").err
    for command in (["add", others_bus], ["remove", others_bus]):
        refused = run_bus("trust", *command)
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert f"{path} can't be read" in refused.err
    assert path.is_dir()


def test_a_list_that_is_too_long_allows_nothing_and_is_not_replaced(
    others_bus: Path, run_bus: RunBus, bus_env: dict[str, str]
) -> None:
    path = Path(bus_env["HOME"], ".config/ackbus/safe-directories")
    assert run_bus("trust", "add", others_bus).code == 0
    with path.open("ab") as file:
        file.truncate(3 * 2**30)
    assert "belongs to" in run_bus("where").err
    refused = run_bus("trust", "add", "*")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert f"{path} has more than" in refused.err
    assert path.stat().st_size == 3 * 2**30


def test_what_leads_to_a_bus_is_looked_at_too(
    project: Path, bus_dir: Path, run_bus: RunBus, tmp_path: Path
) -> None:
    """A link, or a work tree, of somebody else leads to a bus of one's own that is not meant."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / ".worker-state").symlink_to(bus_dir)
    assert "is a link out of its project" in run_bus("where", cwd=shared).err
    os.chown(shared / ".worker-state", STRANGER, STRANGER, follow_symlinks=False)
    assert "belongs to" in run_bus("where", cwd=shared).err
    (shared / ".worker-state").unlink()

    git_dir = project / ".git/worktrees/shared"
    git_dir.mkdir(parents=True)
    (git_dir / "commondir").write_text("../..\n")
    (git_dir / "gitdir").write_text(f"{shared}/.git\n")
    (shared / ".git").write_text(f"gitdir: {git_dir}\n")
    assert run_bus("where", cwd=shared).out == f"{bus_dir}\n"
    os.chown(shared / ".git", STRANGER, STRANGER)
    assert "belongs to" in run_bus("where", cwd=shared).err


def test_the_file_of_a_bus_is_its_users_own_too(bus_dir: Path, run_bus: RunBus) -> None:
    os.chown(bus_dir / "bus.db", STRANGER, STRANGER)
    assert "belongs to" in run_bus("where").err


def test_what_is_left_of_another_users_bus_is_not_repaired(
    others_bus: Path, run_bus: RunBus
) -> None:
    (others_bus / "bus.db").unlink()
    (others_bus / "bus.jsonl").write_text("")
    before = state(others_bus)
    for command in (["where"], ["doctor", "--repair"], ["init"]):
        assert "belongs to" in run_bus(*command).err
    assert state(others_bus) == before


def test_root_by_sudo_uses_the_bus_of_who_called_it(others_bus: Path, run_bus: RunBus) -> None:
    assert run_bus("where", env={"SUDO_UID": str(VICTIM)}).code == 1
    assert run_bus("where", env={"SUDO_UID": "x"}).code == 1
    assert run_bus("where", env={"SUDO_UID": str(STRANGER)}).code == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder like /tmp that every user may reach and write."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o1777)
        yield Path(name)


def test_a_user_is_kept_from_a_trap_above_the_project(
    open_folder: Path, bus_env: dict[str, str]
) -> None:
    """Two real users: one puts a bus into a folder that all may write, the other works below."""
    trap = open_folder / ".worker-state"
    Bus.init(trap).close()
    give(trap, STRANGER)
    for path in (trap, *trap.rglob("*")):
        path.chmod(0o777)
    work, home = open_folder / "work", open_folder / "home"
    for path in (work, home):
        path.mkdir()
        os.chown(path, VICTIM, VICTIM)

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        as_victim = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups"]
        return subprocess.run(
            [*as_victim, "bus", *words],
            cwd=work,
            env=bus_env | {"HOME": str(home)} | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    first = run("publish", "t", "x", "--from", "me")
    if "No such file" in first.stderr or "ermission" in first.stderr:
        pytest.skip("another user can't run this installation")
    assert (first.returncode, first.stderr.count("\n")) == (1, 1)
    assert f"'bus trust add {trap}'" in first.stderr
    own = run("init")
    assert (own.returncode, own.stderr) == (0, "")
    assert run("where").stdout == f"{work}/.worker-state\n"
    assert run("read", BUS_DIR=str(trap)).returncode in (0, 4)
