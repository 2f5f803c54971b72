"""Answers on a terminal where there is nothing to show."""

import os
import pty
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.cli import app
from ackbus.cli.show.empty import LISTS, words_for

from ..command_server import CommandServer
from ..conftest import RunBus
from ..looking.commands import LOOKING, commands

#: Commands that only look and are never silent about nothing: why each has no line in the table.
NO_LISTS = {
    **dict.fromkeys(("check", "show", "trace", "graph", "timeline"), "says that there is none"),
    **dict.fromkeys(("job show", "dead show", "queue show", "task show", "task log"), "one thing"),
    **dict.fromkeys(("task proof", "plugin show", "pipeline show", "webhook show"), "one thing"),
    **dict.fromkeys(("key show", "blob get", "config show", "config check"), "one thing"),
    **dict.fromkeys(("inbox", "stats", "where", "doctor", "verify", "chain status"), "a state"),
    **dict.fromkeys(("top", "task board", "crew status", "automation status"), "a state"),
    **dict.fromkeys(("wake", "pipeline graph"), "says what it finds"),
    **dict.fromkeys(("prime", "hook", "prompt"), "for programs: nothing is an answer"),
    **dict.fromkeys(("guard check", "setup git"), "a check: silence is success"),
    **dict.fromkeys((name for name in LOOKING if name.startswith("setup ")), "says what is there"),
    **dict.fromkeys((name for name in LOOKING if name.startswith("completion")), "for shells"),
}

#: Lines that list nothing on a new bus.
LINES = (
    *("poll --agent a", "parked list a", "read", "tail", "replay", "search word"),
    *("queue list", "job list", "job list --state dead", "dead list", "limit list"),
    *("lease list", "agents", "task list", "task list --ready", "task list --all --worker w"),
    *("task settle", "task clean", "task forecast", "reservations list", "segments", "trust list"),
    *("blob verify", "key list", "token list"),
)

Seen = tuple[int, str, str]


@pytest.fixture
def seen_by_person(
    command_server: CommandServer, project: Path, bus_env: dict[str, str]
) -> Callable[..., Seen]:
    """Runs `bus` with stdout, stderr or both on terminals; returns its code and what each got."""

    def run(*words: str, out: bool = True, err: bool = True) -> Seen:
        ends = [pty.openpty() if is_terminal else os.pipe() for is_terminal in (out, err)]
        code = command_server.run(
            [os.fsencode(word) for word in words],
            (ends[0][1], ends[0][1], ends[1][1]),
            cwd=project,
            env=bus_env,
            timeout_s=60,
        )
        texts = []
        for ours, theirs in ends:
            os.write(theirs, b"#")  # else a read would wait where nothing came
            texts.append(os.read(ours, 65536).decode().replace("\r", "").removesuffix("#"))
            os.close(theirs)
            os.close(ours)
        return code, texts[0], texts[1]

    return run


def test_each_command_that_looks_has_words_for_nothing_or_is_never_silent() -> None:
    names = LOOKING.keys() - NO_LISTS.keys()
    assert names <= LISTS.keys()
    assert LISTS.keys() - names <= {name for name, _ in commands()}
    assert not LISTS.keys() & NO_LISTS.keys()


@pytest.mark.parametrize("command", LISTS)
def test_the_next_command_is_one_and_destroys_nothing(command: str) -> None:
    words = words_for(command.split())
    assert words is not None
    hints = re.findall(r"'(bus [^']+)'", words)
    assert hints, words
    for hint in hints:
        found = app.program()
        for word in shlex.split(hint)[1:]:
            found = getattr(found, "commands", {}).get(word) or found
        assert found is not app.program(), hint
        assert not {"drop", "remove", "purge", "discard", "clear", "forget"} & set(hint.split())


@pytest.mark.parametrize("line", LINES)
def test_a_person_reads_what_is_empty_and_the_next_command(
    bus: Bus, seen_by_person: Callable[..., Seen], run_bus: RunBus, line: str
) -> None:
    """One line on stderr, on a terminal alone; programs get nothing but the exit code."""
    words = line.split()
    code, out, err = seen_by_person(*words)
    assert (out, err.count("\n")) == ("", 1)
    assert re.match(r"bus: (there is no|no) [\w' ]+; .*'bus ", err) or "never seen" in err
    done = run_bus(*words)
    assert (done.code, done.out) == (code, "")
    if "never seen" not in err:
        assert done.err == ""
        assert seen_by_person(*words, out=False) == (code, "", "")
        assert seen_by_person(*words, err=False) == (code, "", "")
        assert seen_by_person(*words, "--json") == (code, "", "")


def test_a_list_that_is_filtered_is_not_called_empty() -> None:
    assert str(words_for(["job", "list"])).startswith("there is no job; ")
    assert str(words_for(["job", "list", "--dir", "x"])).startswith("there is no job; ")
    assert str(words_for(["job", "list", "--state=dead"])).startswith("no job fits; ")
    assert str(words_for(["search", "word"])).startswith("no message fits; ")
    assert words_for(["publish", "t"]) is None
    assert words_for([]) is None
