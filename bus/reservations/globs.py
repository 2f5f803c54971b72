"""Globs within one part of a path, such as `*.py`: matching, and whether two share a match."""

from __future__ import annotations

import re

from ...schema.errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    #: The characters that one place allows: ranges of code points, both ends included, in order.
    Ranges = tuple[tuple[int, int], ...]
    #: A place for one character, or None for any text, also none (`*`).
    Token = Ranges | None

_SLASH = ord("/")
_LAST = 0x10FFFF
#: The characters that `?` matches: all that a part of a path may have.
_ANY: Ranges = ((1, _SLASH - 1), (_SLASH + 1, _LAST))

#: The characters that mean something else than themselves; a backslash before one takes that away.
SPECIAL = "*?[\\"


class Glob:
    """A part of a pattern that has wildcards.

    The plain text in it settles most matches (`*.py`, `test_*`); a regular expression, which takes
    long to compile, is made only for globs that have more, when it is first needed.

    Attributes:
        head, tail: the plain text at its beginning and at its end.
        inside: the longest plain text anywhere in it: no text without it fits.
    """

    __slots__ = ("_is_open", "_is_simple", "_regex", "_tokens", "head", "inside", "tail")

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tuple(tokens)
        self.head = "".join(_plain_beginning(self._tokens))
        self.tail = "".join(_plain_beginning(self._tokens[::-1]))[::-1]
        self.inside = max(_plain_runs(self._tokens), key=len)
        middle = self._tokens[len(self.head) : len(self._tokens) - len(self.tail)]
        self._is_simple = middle == (None,)
        #: Whether a star is next to the plain text at either end.
        self._is_open = middle[:1] == middle[-1:] == (None,)
        self._regex: re.Pattern[str] | None = None

    def matches(self, text: str) -> bool:
        """Whether a part of a path matches."""
        if len(text) < len(self.head) + len(self.tail):
            return False
        if not (text.startswith(self.head) and text.endswith(self.tail)):
            return False
        if self._is_simple:
            return True
        if self._regex is None:
            self._regex = re.compile(_as_regex(self._tokens), re.DOTALL)
        return self._regex.fullmatch(text) is not None

    def meets(self, other: Glob) -> bool:
        """Whether some text matches both globs.

        Few pairs are really tried: plain text at the ends rules most out, and where only stars
        are next to that, any middle of one fits within a star of the other.
        """
        if not (_begin_alike(self.head, other.head) and _end_alike(self.tail, other.tail)):
            return False
        return (self._is_open and other._is_open) or _share_a_text(self._tokens, other._tokens)


def part_of(text: str) -> str | Glob:
    """Return a part of a pattern, parsed: a plain text, or a glob.

    Raises:
        InvalidInput: a bracket is never closed, a range runs backwards, a class has no character,
            or the text ends in a single backslash.
    """
    if not any(char in SPECIAL for char in text):
        return text
    tokens = list(_tokens(text))
    plain = "".join(_plain_beginning(tokens))
    return plain if len(plain) == len(tokens) else Glob(tokens)


def _begin_alike(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _end_alike(one: str, other: str) -> bool:
    return one.endswith(other) or other.endswith(one)


def _share_a_text(ours: Sequence[Token], theirs: Sequence[Token]) -> bool:
    """Whether some text matches both.

    Their places are gone through in turn; a bit for each place in ours says whether it can be
    reached so far. So a careless glob costs a few thousand steps, not the product of the lengths.
    """
    places: dict[Token, int] = {}  # where ours has a token
    for at, token in enumerate(ours):
        places[token] = places.get(token, 0) | 1 << at
    stars = places.pop(None, 0)
    allowing = {token: _places_allowing(token, places) for token in set(theirs) if token}
    everywhere = (2 << len(ours)) - 1
    reached = 1
    for token in theirs:
        reached |= (reached & stars) << 1  # a star of ours may read nothing
        if token is None:  # it reads whatever ours wants: each later place can be reached
            reached = everywhere & -(reached & -reached)
        else:
            reached = (reached & allowing[token]) << 1 | (reached & stars)
        if not reached:
            return False
    reached |= (reached & stars) << 1
    return bool(reached >> len(ours))


def _places_allowing(token: Ranges, places: Mapping[Token, int]) -> int:
    """Return the places of tokens that allow a character which this one allows too."""
    found = 0
    for other, at in places.items():
        if other and any(a <= d and c <= b for a, b in token for c, d in other):
            found |= at
    return found


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "*":
            if text[at : at + 1] != "*":  # several are as one
                yield None
        elif char == "?":
            yield _ANY
        elif char == "[":
            ranges, at = _class(text, at)
            yield ranges
        else:
            if char == "\\":
                char, at = _escaped(text, at)
            yield ((ord(char), ord(char)),)


def _class(text: str, at: int) -> tuple[Ranges, int]:
    """Return the ranges of a class whose bracket has just been read, and its end."""
    negated = text[at : at + 1] in ("!", "^")
    first = at = at + negated
    ranges = []
    while text[at : at + 1] != "]" or at == first:
        if text[at : at + 2] == "[:":
            raise InvalidInput(
                f"{shown(text)}: classes like [:alpha:] are not known; write the range"
            )
        low, at = _member(text, at)
        high = low
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _member(text, at + 1)
        if high < low:
            raise InvalidInput(f"{shown(text)}: the range {low}-{high} runs backwards")
        ranges.append((ord(low), ord(high)))
    allowed = _without(_ANY, ranges) if negated else _without(ranges, [(0, 0), (_SLASH, _SLASH)])
    if not allowed:
        raise InvalidInput(f"{shown(text)}: a class allows no character")
    return allowed, at + 1


def _member(text: str, at: int) -> tuple[str, int]:
    if at >= len(text):
        raise InvalidInput(
            rf"{shown(text)}: a '[' is never closed; write \[ for the character itself"
        )
    return _escaped(text, at + 1) if text[at] == "\\" else (text[at], at + 1)


def _escaped(text: str, at: int) -> tuple[str, int]:
    if at >= len(text):
        raise InvalidInput(rf"{shown(text)} ends in a single backslash; write \\ for the character")
    return text[at], at + 1


def _without(ranges: Sequence[tuple[int, int]], cut: Sequence[tuple[int, int]]) -> Ranges:
    """Return ranges in order, without the code points of others."""
    left = sorted(ranges)
    for low, high in cut:
        left = [
            piece
            for a, b in left
            for piece in ((a, min(b, low - 1)), (max(a, high + 1), b))
            if piece[0] <= piece[1]
        ]
    return tuple(left)


def _plain_beginning(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the characters up to the first place that allows more than one."""
    for token in tokens:
        if token is None or len(token) > 1 or token[0][0] != token[0][1]:
            return
        yield chr(token[0][0])


def _plain_runs(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the plain texts between the places that allow more than one character."""
    rest = tokens
    while rest:
        run = "".join(_plain_beginning(rest))
        yield run
        rest = rest[len(run) + 1 :]


def _as_regex(tokens: Sequence[Token]) -> str:
    """Return a regular expression that never backtracks over a `*`.

    What stands between two stars may match as early as it can, so no other place need be tried
    (`(?>…)`); only the last star takes what is left. Else `*a*a*a*a*[bc]` would run for minutes.
    """
    between = [""]  # what stands before, between and after the stars
    for token in tokens:
        if token is None:
            between.append("")
        else:
            between[-1] += _one_of(token)
    first, *middle = between
    last = [".*" + middle.pop()] if middle else []
    return "".join([first, *(f"(?>.*?{part})" for part in middle), *last])


def _one_of(ranges: Ranges) -> str:
    first, last = ranges[0][0], ranges[-1][1]
    if first == last:
        return re.escape(chr(first))
    if last < _LAST:
        return f"[{_class_of(ranges)}]"
    # Said by what it leaves out: `re` takes over a millisecond to compile a range of all Unicode.
    return f"[^{_class_of(_without([(0, _LAST)], ranges))}]"


def _class_of(ranges: Ranges) -> str:
    return "".join(rf"\U{low:08x}-\U{high:08x}" for low, high in ranges)
