"""Output on a reader's terminal: colours and tables, and no control character of a message."""

import json
import re
from collections.abc import Callable

import pytest

from ackbus import Bus, Inbox, Queue
from ackbus.cli.show.text import visible
from ackbus.schema.queries import file_of

from ..conftest import RunBus

pytestmark = pytest.mark.slow  # starts many processes

OnTerminal = Callable[..., str]

EVIL = "\x1b]0;owned\x07\x1b[2J \x9b31m \x7f ‮evil⁦ \u2028 \r\tend"
HARMLESS = "Grüße, 你好, 🚌, é, non\u00a0breaking"


def _acts(text: str) -> set[str]:
    """The characters of a text that could act on a terminal."""
    return {
        char for char in text if (ord(char) < 32 and char not in "\n") or 0x7F <= ord(char) < 0xA0
    } | (set(text) & set("‮⁦\u2028"))


@pytest.fixture
def evil(bus: Bus) -> Bus:
    """A bus whose first message is an attack, and whose other rows are, by other programs' SQL."""
    bus.publish("t", EVIL, from_agent="a", headers={"h": EVIL})
    bus.publish("t", {"k": EVIL}, from_agent="a")
    file_of(bus).rows(
        "INSERT INTO messages (id, ts_ms, from_agent, type, payload) VALUES (?, 1, ?, ?, ?)",
        ("i\x1b[1m", "x\x1b[2m", "t\x1b[3m", '"p"'),
    )
    bus.heartbeats.beat("you")
    inbox = Inbox(bus, "me", max_deliveries=1)
    inbox.fail(inbox.poll()[0], EVIL)
    inbox.requeue(1)
    inbox.fail(inbox.poll()[0], EVIL)
    return bus


LINES = [
    ("poll", "you"),
    ("read",),
    ("tail",),
    ("replay", "--from", "1"),
    ("show", "1"),
    ("show", "2"),
    ("show", "3"),
    ("inbox", "you"),
    ("parked", "list"),
    ("stats",),
    ("agents",),
]


@pytest.mark.parametrize("line", LINES)
def test_text_for_people_has_no_control_characters(
    line: tuple[str, ...], evil: Bus, run_bus: RunBus
) -> None:
    """PITFALLS 24: terminal escape sequences in a body, in a pipe too."""
    done = run_bus(*line)
    assert done.code == 0
    assert done.out
    assert _acts(done.out) == set()
    assert done.err == ""


@pytest.mark.parametrize("line", LINES)
def test_json_on_a_terminal_has_no_control_characters(
    line: tuple[str, ...], evil: Bus, on_terminal: OnTerminal
) -> None:
    """PITFALLS 24: orjson leaves DEL and C1 as they are; --json on a terminal does not."""
    shown = on_terminal(*line, "--json").replace("\r\n", "\n")
    assert _acts(shown) == set()
    for record in shown.splitlines():
        json.loads(record)


def test_json_in_a_pipe_keeps_the_bytes_of_bus_jsonl(evil: Bus, run_bus: RunBus) -> None:
    piped = run_bus("replay", "--from", "1", "--to", "1", "--json").out
    assert piped.encode() == next(evil.read()).to_line() + b"\n"


def test_terminal_gets_colours_and_no_escape_of_a_message(
    evil: Bus, on_terminal: OnTerminal
) -> None:
    for line in LINES:
        shown = on_terminal(*line)
        assert "\x1b]0" not in shown, line
        assert "\x1b[2J" not in shown, line
        assert "\x9b" not in shown, line
        assert "\u202e" not in shown, line
    assert "\x1b[" in on_terminal("tail")
    assert "\x1b[" in on_terminal("agents")


def test_pipes_get_plain_text_without_colours(bus: Bus, run_bus: RunBus) -> None:
    bus.publish("t", HARMLESS, from_agent="a")
    for line in (("tail",), ("agents",), ("stats",), ("read",)):
        assert "\x1b" not in run_bus(*line, env={"TERM": "xterm-256color", "NO_COLOR": ""}).out
    assert run_bus("tail").out.rstrip("\n").endswith(HARMLESS)


def test_lines_on_a_terminal_are_cut_at_its_edge(bus: Bus, on_terminal: OnTerminal) -> None:
    bus.publish("t", "long " * 100, from_agent="a")
    assert len(on_terminal("tail").splitlines()) == 1


@pytest.fixture
def failed_jobs(bus: Bus) -> Bus:
    """A bus with a queue and two jobs whose errors don't fit a line of 80 characters."""
    queue = Queue.create(bus, "code-reviews", "review.request", max_attempts=1)
    for _ in range(2):
        bus.publish("review.request", from_agent="alice")
        (claim,) = queue.claim("worker", group="reviewers")
        queue.fail(claim, "the compiler of the project is not there, so nothing can be said")
    return bus


def _plain(shown: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()]


def test_table_breaks_no_word_and_cuts_the_free_text(
    failed_jobs: Bus, on_terminal: OnTerminal
) -> None:
    """One line a job; what names it is whole."""
    heading, *rows = _plain(on_terminal("dead", "list", columns=80))
    assert heading.split() == ["queue", "seq", "type", "state", "attempts", "when", "error"]
    assert [row.split()[:5] for row in rows] == [
        ["code-reviews", seq, "review.request", "dead", "1/1"] for seq in ("1", "2")
    ]
    assert all(re.search(r" ago +the compiler.*…$", row) for row in rows)
    wide = _plain(on_terminal("dead", "list", columns=200))
    assert all(
        row.endswith("the compiler of the project is not there, so nothing can be…")
        for row in wide[1:]
    )


def test_table_that_does_not_fit_leaves_out_what_says_nothing(
    failed_jobs: Bus, on_terminal: OnTerminal
) -> None:
    heading, row, note = _plain(on_terminal("queue", "list", columns=80))
    assert heading.split()[:4] == ["queue", "type", "state", "waiting"]
    assert heading.split()[-1] == "dead"
    assert (row.split()[:3], row.split()[-1]) == (["code-reviews", "review.request", "open"], "2")
    assert "…" not in heading + row
    assert re.fullmatch(r"empty columns left out: .*, oldest", note)
    assert "oldest" in on_terminal("queue", "list", columns=120)


def test_table_on_a_very_narrow_terminal_cuts_the_widest(
    failed_jobs: Bus, on_terminal: OnTerminal
) -> None:
    shown = _plain(on_terminal("dead", "list", columns=40))
    assert max(map(len, shown)) <= 40
    assert any(line.startswith("co") and "… " in line for line in shown)


def test_blob_is_not_thrown_at_a_terminal(bus: Bus, on_terminal: OnTerminal) -> None:
    ref = bus.blobs.put(EVIL.encode())
    shown = on_terminal("blob", "get", ref)
    assert shown.startswith("bus: ")
    assert "owned" not in shown


@pytest.mark.parametrize("text", ["", "plain", HARMLESS.replace("\u00a0", " ")])
def test_harmless_text_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_escapes_are_readable() -> None:
    assert visible("a\x1b[1m\n\x85\u202e\U000e0041") == "a\\x1b[1m\\n\\x85\\u202e\\U000e0041"
