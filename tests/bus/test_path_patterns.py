"""The paths that a path or a glob of a reservation matches, and invalid ones."""

import time

import pytest

from ackbus.bus.reservations.path_patterns import PathIndex, parse_pattern
from ackbus.errors import InvalidInput

#: A pattern, files in it, and files that are not: the table of docs/how-to/reserve-files.md.
MEANINGS = [
    ("src/a.py", ["src/a.py", "src/a.py/below"], ["a.py", "src/a.pyc", "x/src/a.py"]),
    ("src", ["src", "src/a.py", "src/b/c.py"], ["src2", "lib/src/a.py"]),
    ("src/", ["src/a.py"], ["srcs"]),
    ("./src//b/", ["src/b/c"], ["src/c"]),
    (".", ["a", "a/b", ".env"], []),
    ("*.py", ["a.py", ".py"], ["src/a.py", "a.pyc"]),
    ("src/*.py", ["src/a.py"], ["src/b/a.py", "src/a.pyc"]),
    ("src/*/a", ["src/b/a", "src/b/a/c"], ["src/a", "src/b/c/a"]),
    ("**/*.py", ["a.py", "src/a.py", "src/b/a.py"], ["a.pyc"]),
    ("src/**/a", ["src/a", "src/b/a", "src/b/c/a"], ["a", "src/b"]),
    ("src/**", ["src/a", "src/b/c"], ["src"]),
    ("**", ["a", "a/b"], []),
    ("a?c", ["abc", "aßc", "a\nc"], ["ac", "abbc", "a/c"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "-x", "Ax"]),
    ("[!a-c]x", ["dx", "-x"], ["ax", "x"]),
    ("[^a]x", ["bx"], ["ax"]),
    ("[]a-]x", ["]x", "ax", "-x"], ["bx"]),
    (r"[\]\\]x", ["]x", r"\x"], ["x"]),
    (r"app/\[id\]/*.ts", ["app/[id]/page.ts"], ["app/i/page.ts"]),
    (r"what\?", ["what?"], ["whatx"]),
    ("a**b", ["ab", "axb"], ["a/b"]),
    ("*a*b*", ["ab", "xaxbx"], ["ba"]),
    ("bücher/*", ["bücher/ü"], ["bucher/u"]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), MEANINGS)
def test_pattern_stands_for_these_files(
    pattern: str, inside: list[str], outside: list[str]
) -> None:
    index: PathIndex[str] = PathIndex()
    index.add(parse_pattern(pattern), pattern)
    assert [file for file in inside if not index.matching(file)] == []
    assert [file for file in outside if index.matching(file)] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "1 to 1024 characters"),
        ("x" * 1025, "1 to 1024 characters"),
        ("/etc/passwd", "lead down from the root"),
        ("../x", "lead down from the root"),
        ("a/../../x", "lead down from the root"),
        ("src/[a-", "never closed"),
        ("src/[", "never closed"),
        ("src/[]", "never closed"),
        ("src/[!]", "never closed"),
        ("a[/]b", "never closed"),
        ("[z-a]", "runs backwards"),
        ("[[:alpha:]]", "not known"),
        ("back\\", "single backslash"),
        ("[a\\", "single backslash"),
        ("a\nb", "control characters"),
        ("a\udcff", "not valid Unicode"),
    ],
)
def test_text_that_is_no_pattern_is_refused_in_one_line(text: str, why: str) -> None:
    """Issue 4, bad input: a glob that can't be parsed, a path outside."""
    with pytest.raises(InvalidInput, match=why) as refused:
        parse_pattern(text)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("src", "src/a.py", True),
        ("src/*.py", "src/test_*", True),
        ("src/*.py", "src/*.c", False),
        ("src/*.py", "**/a.*", True),
        ("**/x", "a/**", True),
        ("[a-m]*", "[n-z]*", False),
        ("[a-m]*", "[!a-l]*", True),
        ("*/a", "b", True),
        ("src/a.py", "src/a.pyc", False),
        ("*a*a*", "*b*b*", True),
        ("?", "??", False),
    ],
)
def test_patterns_meet_where_a_file_can_be_in_both(one: str, other: str, meet: bool) -> None:
    for first, second in ((one, other), (other, one)):
        index: PathIndex[str] = PathIndex()
        index.add(parse_pattern(first), first)
        assert list(index.meeting(parse_pattern(second))) == [first] * meet


def test_many_stars_take_no_time() -> None:
    """A careless glob of one agent must not hold the commits of all others up."""
    pattern = parse_pattern("*a" * 20 + "*[bc]")
    index: PathIndex[str] = PathIndex()
    index.add(pattern, "many")
    began = time.thread_time()
    assert index.matching("a" * 200) == []
    assert index.matching("a" * 200 + "c") == ["many"]
    assert list(index.meeting(parse_pattern("*a" * 20 + "*[cd]"))) == ["many"]
    assert list(index.meeting(parse_pattern("*a" * 20 + "*[de]"))) == []
    assert time.thread_time() - began < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("glob", ["*a{0}*/**/x?y*", "*a*/**/x?y_{0}*", "**/*[a-z]_{0}[!0-9]*"])
def test_globs_without_plain_ends_are_told_apart_by_what_is_within(glob: str) -> None:
    """Issue 4, speed: 1,000 files and 1,000 of one kind, in 50 to 100 ms on a quiet machine."""
    files = [f"pkg{n % 40}a{n % 300}/below/mod{n}/xqy_{n}.py" for n in range(1000)]
    patterns = [parse_pattern(glob.format(n)) for n in range(1000)]
    times_s, found = [], {}
    for _ in range(3):
        began = time.thread_time()
        index: PathIndex[str] = PathIndex()
        for pattern in patterns:
            index.add(pattern, pattern.text)
        found = {file: index.matching(file) for file in files}
        times_s.append(time.thread_time() - began)
    assert glob.format(7) in found["pkg7a7/below/mod7/xqy_7.py"]
    assert min(times_s) < 0.6


def test_globs_of_many_stars_are_told_apart_in_no_time() -> None:
    """A dozen legal globs must not keep a processor for minutes."""
    began = time.thread_time()
    index: PathIndex[int] = PathIndex()
    for number in range(12):
        index.add(parse_pattern("*a" * 490 + f"x{number}"), number)
        index.add(parse_pattern("*?" * 490 + f"[0-4]z{number}"), number)
    for number in range(12):
        assert list(index.meeting(parse_pattern("*a" * 490 + f"y{number}"))) == []
        assert list(index.meeting(parse_pattern("*?" * 490 + f"[5-9]z{number}"))) == []
        assert list(index.meeting(parse_pattern("*a" * 490 + f"[x]{number}"))) == [number]
    assert time.thread_time() - began < 3.0
