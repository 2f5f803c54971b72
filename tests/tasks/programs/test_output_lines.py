"""Output as numbered lines: whole ones, repeats, long ones, and what has no end of its line."""

import pytest

from ackbus.tasks.agent_program import MAX_LINE_CHARS, OutputLine, OutputLines


class Given:
    """Lines of a program that prints at the times of the test."""

    def __init__(self) -> None:
        self.now = 100.0
        self.lines: list[OutputLine] = []
        self.output = OutputLines(self.lines.append, lambda: self.now)

    def told(self) -> list[tuple[str, int, str]]:
        return [(line.stream, line.seq, line.text) for line in self.lines]


@pytest.fixture
def given() -> Given:
    return Given()


def test_u_47_exact_repeats_within_a_second_are_dropped(given: Given) -> None:
    """U-47: lines carry stream and per-stream seq from 1; exact repeats within 1 s are dropped."""
    for _ in range(5):
        given.output.add("stdout", b"x\n")
        given.now += 0.19
    given.output.add("stdout", b"y\n")
    assert given.told() == [("stdout", 1, "x"), ("stdout", 2, "y")]


def test_repeat_after_a_second_is_a_line_again(given: Given) -> None:
    given.output.add("stdout", b"x\n")
    given.now += 1.0
    given.output.add("stdout", b"x\n")
    assert [seq for _, seq, _ in given.told()] == [1, 2]


def test_each_stream_counts_by_itself(given: Given) -> None:
    given.output.add("stdout", b"same\n")
    given.output.add("stderr", b"same\n")
    assert given.told() == [("stdout", 1, "same"), ("stderr", 1, "same")]


def test_pieces_are_joined_to_lines(given: Given) -> None:
    for piece in (b"caf", b"\xc3", b"\xa9\r", b"\nsecond", b" line"):
        given.output.add("stdout", piece)
    given.output.end()
    assert [text for *_, text in given.told()] == ["café", "second line"]


def test_bytes_that_are_no_text_are_replaced(given: Given) -> None:
    given.output.add("stderr", b"\xff\na\n\xc3")
    given.output.end()
    assert [text for *_, text in given.told()] == ["\ufffd", "a", "\ufffd"]


def test_endless_line_is_cut(given: Given) -> None:
    given.output.add("stdout", b"".join(b"%d" % (n % 10) for n in range(MAX_LINE_CHARS * 2 + 5)))
    given.output.end()
    assert [len(text) for *_, text in given.told()] == [MAX_LINE_CHARS, MAX_LINE_CHARS, 5]
    assert given.output.tail().replace("\n", "").startswith("0123456789")


def test_last_line_is_the_last_with_text(given: Given) -> None:
    given.output.add("stdout", b"why\n\n  \n")
    assert given.output.last() == "why"
