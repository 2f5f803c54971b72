"""Completion: what the shells themselves put into the line."""

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.cli.catalogue import GROUPS
from ackbus.subscribers.queues.queue import Queue

from ..conftest import RunBus

pytestmark = pytest.mark.slow  # starts many processes

Type = Callable[[str], str]

#: How a shell is made ready: in it, `bus` shows its words, but for those of the completion.
_READY = """eval "$(command bus completion {name})"
bus() {{ if [ "$1" = completion ]; then command bus "$@"; else printf '<%s>' "$@"; echo .; fi; }}
echo rea"dy"
"""
_SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], "bind 'set bell-style none'\n"),
    "zsh": (["-f", "-i"], "autoload -U compinit && compinit -u -D\n"),
}


@pytest.fixture
def offered(run_bus: RunBus) -> Callable[[str], list[str]]:
    """The completions of the last word of a line."""

    def words(line: str) -> list[str]:
        done = run_bus("completion", "words", "--", line)
        assert done.err == ""
        assert done.code == 0 or (done.code, done.out) == (4, "")
        return done.out.splitlines()

    return words


def test_commands_options_and_names_are_offered(
    bus: Bus, offered: Callable[[str], list[str]], run_bus: RunBus
) -> None:
    """Issue 4, item 6: commands, options, and values that are cheap to know."""
    bus.heartbeats.beat("bob")
    bus.publish_many(
        [
            Draft("review.request", from_agent="alice", to_agent="bob"),
            Draft("task.done", from_agent="carol"),
        ]
    )
    run_bus("queue", "create", "builds", "--type", "build.>")
    bus.leases.acquire("deploy:prod", "alice")
    assert offered("bus pub") == ["publish"]
    assert offered("bus queue cr") == ["create"]
    assert offered("bus publish --prio") == ["--priority"]
    assert offered("bus publish --priority ") == ["background", "interactive", "normal"]
    assert offered("bus poll ") == ["alice", "bob", "carol"]
    assert offered("bus publish t --to c") == ["carol"]
    assert offered("bus publish t --to=c") == ["--to=carol"]
    assert offered("bus publish rev") == ["review.request"]
    assert offered("bus search x --type t") == ["task.done"]
    assert offered("bus job list --queue ") == ["builds"]
    assert offered("bus job list --state r") == ["running"]
    assert offered("bus queue show b") == ["builds"]
    assert offered("bus lease release ") == ["deploy:prod"]


def test_seqs_of_jobs_are_offered(
    bus: Bus, offered: Callable[[str], list[str]], run_bus: RunBus
) -> None:
    queue = Queue.create(bus, "review", retry="failures", max_attempts=1)
    for _ in range(10):
        bus.publish("review", from_agent="lead")
    for claim in queue.claim("w", limit=3)[:2]:
        queue.fail(claim, "why not")
    assert offered("bus job show ") == [str(seq) for seq in range(1, 11)]
    assert offered("bus job cancel 4 1") == ["1", "10"]
    assert offered("bus dead show ") == ["1", "2"]
    assert offered("bus dead requeue ") == ["1", "2"]
    assert offered("bus dead drop 1 ") == ["1", "2"]


def test_files_are_meant_where_no_name_of_the_bus_is(bus: Bus, run_bus: RunBus) -> None:
    """Exit code 4 lets the shell offer files; a new queue has no name yet, and is no file."""
    run_bus("queue", "create", "builds")
    codes = {
        line: run_bus("completion", "words", "--", line).code
        for line in ("bus queue create b", "bus poll zzz", "bus blob put ", "bus publish t ")
    }
    assert codes == {
        "bus queue create b": 0,
        "bus poll zzz": 0,
        "bus blob put ": 4,
        "bus publish t ": 4,
    }
    assert run_bus("completion", "words", "--", "bus queue create b").out == ""


def test_group_with_a_default_command_offers_its_commands_and_the_options_of_that_one(
    bus: Bus, offered: Callable[[str], list[str]]
) -> None:
    bus.heartbeats.beat("bob")
    assert offered("bus reservations ") == ["list", "renew", "release"]
    assert offered("bus reservations re") == ["renew", "release"]
    assert offered("bus reservations --pa") == ["--path"]
    assert offered("bus reservations --agent b") == ["bob"]


@pytest.mark.parametrize("line", ["bus poll ", "bus publish t --to ", "bus queue show ", "bus x "])
def test_nothing_is_offered_without_a_bus(
    line: str, offered: Callable[[str], list[str]], project: Path
) -> None:
    """Issue 4, item 6: never an error message into the line."""
    assert "bus:" not in offered(line)
    if line != "bus x ":
        assert offered(line) == []


@pytest.mark.parametrize("line", ["", "zzz", "bus", "bus zzz", "bus publish --to=zzz", "bus x zzz"])
def test_only_what_begins_with_the_word_at_hand_is_offered(
    line: str, offered: Callable[[str], list[str]], bus: Bus
) -> None:
    """Issue 4, item 6: bash puts whatever it is given into the line."""
    assert offered(line) == []


def test_a_named_bus_gives_the_names(
    offered: Callable[[str], list[str]], tmp_path: Path, project: Path
) -> None:
    with Bus.init(tmp_path / "other") as other:
        other.publish("note", from_agent="zoe")
    assert offered(f"bus poll --dir {tmp_path / 'other'} ") == ["zoe"]


@pytest.fixture(params=sorted(_SHELLS))
def type_in(request: pytest.FixtureRequest, project: Path, bus_env: dict[str, str]) -> Type:
    """Types a line into an interactive shell, and returns the words that `bus` then got."""
    path = shutil.which(request.param, path=bus_env["PATH"])
    if path is None:
        pytest.skip(f"no {request.param} here")
    args, begin = _SHELLS[request.param]

    def type_in(keys: str) -> str:
        ours, theirs = pty.openpty()
        shell = subprocess.Popen(
            [path, *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=project,
            env=bus_env | {"PS1": "$ "},
            start_new_session=True,
        )
        os.close(theirs)
        try:
            os.write(ours, (begin + _READY.format(name=request.param)).encode())
            _read_until(ours, "\nready")
            os.write(ours, f"{keys}\n".encode())
            shown = _read_until(ours, ">.\r\n").partition(">.\r\n")[0]
            return shown.rpartition("\n<")[2]
        finally:
            shell.kill()
            shell.wait()
            os.close(ours)

    return type_in


def test_tab_completes_in_a_real_shell(bus: Bus, type_in: Type) -> None:
    """Issue 4, item 6: in bash and zsh, with names that a shell would take apart."""
    bus.publish("review.request", from_agent="alice")
    bus.leases.acquire("deploy:prod x", "alice")
    assert type_in("bus pub\trev\t--from al\t--prio\tback\t") == "><".join(
        ["publish", "review.request", "--from", "alice", "--priority", "background"]
    )
    assert type_in("bus lease release dep\t") == "lease><release><deploy:prod x"
    assert type_in("bus lease release deploy:pr\t") == "lease><release><deploy:prod x"
    assert type_in("bus publish --from=al\tz") == "publish><--from=alice><z"


def test_tab_completes_files_where_no_name_is_meant(bus: Bus, type_in: Type, project: Path) -> None:
    Path(project, "builds.txt").touch()
    assert type_in("bus blob put bui\tz") == "blob><put><builds.txt><z"
    assert type_in("bus queue create bui\t z") == "queue><create><bui><z"


def test_fish_offers_what_bash_does(bus: Bus, bus_env: dict[str, str], project: Path) -> None:
    """In a real fish, which asks a command for the completions of a line."""
    if shutil.which("fish", path=bus_env["PATH"]) is None:
        pytest.skip("no fish here")
    bus.publish("review.request", from_agent="alice")
    Path(project, "builds.txt").touch()

    def offered(line: str) -> list[str]:
        program = f"bus completion fish | source; complete -C {line!r}"
        done = subprocess.run(
            ["fish", "--no-config", "-c", program],
            cwd=project,
            env=bus_env | {"BUS_DIR": str(bus.layout.directory)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert offered("bus pub") == ["publish"]
    assert offered("bus publish --from al") == ["alice"]
    assert offered("bus read --type rev") == ["review.request"]
    assert offered("bus queue create bui") == []
    assert offered("bus blob put bui") == ["builds.txt"]


def test_manual_pages_are_those_of_the_commands(run_bus: RunBus, tmp_path: Path) -> None:
    """One page a command, from its own definition, that mandoc reads without a complaint."""
    directory = tmp_path / "man1"
    assert run_bus("completion", "man", str(directory)).code == 0
    names = {path.name for path in directory.iterdir()}
    assert {"bus.1", "bus-poll.1", "bus-queue.1"} <= names
    assert names == {"bus.1", *(f"bus-{name}.1" for group in GROUPS.values() for name in group)}
    poll = (directory / "bus-poll.1").read_text("utf-8")
    assert "Print the unread messages of an agent" in poll
    assert "\\-\\-with\\-work" in poll
    assert "How many. Default: 10." in (directory / "bus-tail.1").read_text("utf-8")
    queue = (directory / "bus-queue.1").read_text("utf-8")
    assert '.SH "bus queue create"' in queue
    if shutil.which("mandoc"):
        pages = [str(directory / name) for name in sorted(names)]
        told = subprocess.run(["mandoc", "-T", "lint", *pages], capture_output=True, text=True)
        faults = [line for line in told.stdout.splitlines() if "STYLE" not in line]
        assert [line for line in faults if "missing date" not in line] == []


def test_tab_leaves_the_line_alone_where_there_is_no_bus(type_in: Type) -> None:
    assert type_in("bus poll al\tx") == "poll><alx"


def _read_until(fd: int, end: str) -> str:
    shown = ""
    deadline = time.monotonic() + 60
    while end not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([fd], [], [], 0.1)[0]:
            shown += os.read(fd, 65536).decode()
    return shown
