"""Patterns of paths against a matcher that is too simple to be wrong, on all small paths."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbus.bus.reservations.path_patterns import PathIndex, escape_path, parse_pattern
from ackbus.errors import InvalidInput

#: Every name of one or two letters, and every path of up to four of them. A path that two patterns
#: of at most two parts besides `**` share is then among these, if there is one.
NAMES = ["".join(letters) for n in (1, 2) for letters in product("ab", repeat=n)]
PATHS = ["/".join(names) for n in (1, 2, 3, 4) for names in product(NAMES, repeat=n)]

letters = st.sampled_from(["a", "b", "*", "?", "[a]", "[!a]", "[a-b]", "\\a"])
names = st.lists(letters, min_size=1, max_size=2).map("".join)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """At most two parts besides `**`, or a last one that reads a part as they do."""
    last = draw(names | st.just("**"))
    parts = [*draw(st.lists(names, max_size=1)), last]
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts) - 1)), "**")
    return "/".join(parts)


def fits(pattern: str, path: str) -> bool:
    """The rules of the documentation, one after the other."""
    parts = pattern.split("/")
    if parts[-1] == "**":
        parts[-1] = "*"
    return parts_fit(parts, path.split("/"))


def parts_fit(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return True
    if parts[0] == "**":
        return any(parts_fit(parts[1:], names[n:]) for n in range(len(names) + 1))
    return bool(names) and name_fits(parts[0], names[0]) and parts_fit(parts[1:], names[1:])


def name_fits(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob[0] == "*":
        return any(name_fits(glob[1:], name[n:]) for n in range(len(name) + 1))
    choices = {"?": "ab", "[a]": "a", "[!a]": "b", "[a-b]": "ab", "\\a": "a", "a": "a", "b": "b"}
    token = next(token for token in choices if glob.startswith(token))
    return name[:1] != "" and name[0] in choices[token] and name_fits(glob[len(token) :], name[1:])


def index_of(texts: list[str]) -> PathIndex[str]:
    index: PathIndex[str] = PathIndex()
    for text in dict.fromkeys(texts):
        index.add(parse_pattern(text), text)
    return index


@pytest.mark.slow
@given(st.lists(patterns(), min_size=1, max_size=5))
def test_index_finds_exactly_the_patterns_that_match_a_path(texts: list[str]) -> None:
    """A file is in a pattern, or below what it matches, or it is not."""
    index = index_of(texts)
    for path in PATHS[::7]:
        assert sorted(index.matching(path)) == sorted({t for t in texts if fits(t, path)})


@pytest.mark.slow
@given(st.lists(patterns(), min_size=1, max_size=3), patterns())
def test_patterns_meet_exactly_where_a_path_is_in_both(texts: list[str], wanted: str) -> None:
    """Two globs meet if there is a path that both match: searched among all small paths."""
    inside = [path for path in PATHS if fits(wanted, path)]
    expected = {text for text in texts if any(fits(text, path) for path in inside)}
    assert set(index_of(texts).meeting(parse_pattern(wanted))) == expected


#: Every name that two globs of four places can need to share one.
LONG_NAMES = ["".join(letters) for n in range(1, 9) for letters in product("ab", repeat=n)]
globs = st.lists(letters, min_size=1, max_size=4).map("".join)


@pytest.mark.slow
@given(globs, globs)
def test_globs_match_and_meet_exactly(one: str, other: str) -> None:
    """Within one part of a path, with more places: stars between letters, several stars."""
    index = index_of([one])
    inside = {name for name in LONG_NAMES if name_fits(one, name)}
    assert {name for name in LONG_NAMES if index.matching(name)} == inside
    expected = any(name_fits(other, name) for name in inside)
    assert (list(index.meeting(parse_pattern(other))) != []) == expected


@given(patterns(), patterns())
def test_meeting_does_not_depend_on_who_comes_first(one: str, other: str) -> None:
    meets = [set(index_of([a]).meeting(parse_pattern(b))) for a, b in ((one, other), (other, one))]
    assert bool(meets[0]) == bool(meets[1])


@given(st.text("ab*?[]!^-\\/.:", max_size=12))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    """PITFALLS 11 of people: never another error, and what is accepted has one spelling."""
    try:
        pattern = parse_pattern(text)
    except InvalidInput:
        return
    assert parse_pattern(pattern.text).text == pattern.text
    assert list(index_of([text]).meeting(pattern)) == [text]


@pytest.mark.parametrize("text", ["app/[id]/page.tsx", "a*b", "what?", "back\\slash", "]["])
def test_escaped_text_matches_itself_alone(text: str) -> None:
    index = index_of([escape_path(text)])
    assert index.matching(text) == [escape_path(text)]
    assert index.matching(text.replace("[", "").replace("*", "x").replace("?", "x") + "y") == []
