"""Patterns of paths, and an index that finds those that match a path or meet a pattern.

A pattern is a path with wildcards: `*`, `?` and `[…]` within a part, `**` for any number of parts.
It stands for the paths that it matches, and for everything below them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...schema.errors import InvalidInput, shown
from ...schema.message.names import MAX_PATH_CHARS, check_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: The characters that one place allows: ranges of code points, both ends included, in order.
    Ranges = tuple[tuple[int, int], ...]
    #: A place for one character, or None for any text, also the empty text (`*`).
    Token = Ranges | None

# Globs within one part of a path, such as `*.py`: matching, and whether two share a match.

_SLASH = ord("/")
_LAST = 0x10FFFF
#: The characters that `?` matches: all that a part of a path may have.
_ANY: Ranges = ((1, _SLASH - 1), (_SLASH + 1, _LAST))

#: The characters with a special meaning; after a backslash they stand for themselves.
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


def _begin_alike(text: str, other: str) -> bool:
    return text.startswith(other) or other.startswith(text)


def _end_alike(text: str, other: str) -> bool:
    return text.endswith(other) or other.endswith(text)


def _share_a_text(ours: Sequence[Token], theirs: Sequence[Token]) -> bool:
    """Whether some text matches both.

    The loop goes over their places; a bit for each place in ours says whether it can be reached so
    far. So a careless glob costs a few thousand steps, not the product of the lengths.
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
        if token is None:  # a star of theirs reads any text: each later place can be reached
            reached = everywhere & -(reached & -reached)
        else:
            reached = (reached & allowing[token]) << 1 | (reached & stars)
        if not reached:
            return False
    reached |= (reached & stars) << 1
    return bool(reached >> len(ours))


def _places_allowing(token: Ranges, places: Mapping[Token, int]) -> int:
    """Return the places of the tokens that share a character with a token."""
    allowing = 0
    for other, at in places.items():
        if other and any(a <= d and c <= b for a, b in token for c, d in other):
            allowing |= at
    return allowing


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
    remaining = sorted(ranges)
    for low, high in cut:
        remaining = [
            piece
            for a, b in remaining
            for piece in ((a, min(b, low - 1)), (max(a, high + 1), b))
            if piece[0] <= piece[1]
        ]
    return tuple(remaining)


def _plain_beginning(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the characters up to the first place that allows more than 1."""
    for token in tokens:
        if token is None or len(token) > 1 or token[0][0] != token[0][1]:
            return
        yield chr(token[0][0])


def _plain_runs(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the plain texts between the places that allow more than 1 character."""
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


if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:  # a commit waits for each module that the guard's hook loads, and `typing` is a large one

    class Generic:
        """The base of what holds values of a type, which nothing asks for at run time."""

        __class_getitem__ = classmethod(lambda cls, _: cls)

    T = None

#: One part of a pattern: a text, a glob, or None for any number of parts (`**`).
Part = str | Glob | None

_DEEP = "**"


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A pattern. Make one with `parse_pattern`.

    Attributes:
        text: the pattern as it is written, without empty parts.
        parts: its parsed parts; the last is never None.
    """

    text: str
    parts: tuple[Part, ...]


@lru_cache(4096)
def parse_pattern(text: str) -> PathPattern:
    """Return the pattern of a text.

    Args:
        text: a path or a glob from the root of the project, with `/` between its parts. A `/` at
            its end means nothing; `.` is everything.

    Raises:
        InvalidInput: it is empty, too long, or not printable, begins with `/` or leaves the root
            by `..`, or a glob in it can't be parsed.
    """
    check_line(text, "a path", MAX_PATH_CHARS)
    names = [name for name in text.split("/") if name not in ("", ".")] or [_DEEP]
    if text.startswith("/") or ".." in names:
        raise InvalidInput(f"path {shown(text)} must lead down from the root of the project")
    try:
        parts = [None if name == _DEEP else part_of(name) for name in names]
    except InvalidInput as error:
        raise InvalidInput(f"path {shown(text)} can't be read: {error}") from error
    if parts[-1] is None:  # what is below a folder is what has at least one more part
        parts[-1] = part_of("*")
    return PathPattern("/".join(names), tuple(parts))


def literal_pattern(path: str) -> PathPattern:
    """Return the pattern that matches exactly this path, also where it has glob characters."""
    return PathPattern(path, tuple(path.split("/")))


def escape_path(path: str) -> str:
    """Return the text of the pattern that matches exactly this path."""
    return "".join("\\" + char if char in SPECIAL else char for char in path)


class PathIndex(Generic[T]):
    """Values under patterns, in a tree by their parts.

    A lookup follows only the patterns that match so far, however many there are.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, pattern: PathPattern, value: T) -> None:
        """Put a value under a pattern."""
        node = self._root
        for part, name in zip(pattern.parts, pattern.text.split("/"), strict=True):
            node = node.child(part, name)
        node.values.append(value)

    def matching(self, path: str) -> list[T]:
        """Return the values whose pattern matches a file, given by its path from the root."""
        return list(self._find(tuple(path.split("/")), and_below=False))

    def meeting(self, pattern: PathPattern) -> Iterator[T]:
        """Yield the values whose patterns share a path with this pattern."""
        return self._find(pattern.parts, and_below=True)

    def _find(self, parts: Sequence[Part], *, and_below: bool) -> Iterator[T]:
        """Walk the tree and the parts at once: a state is a place in each.

        Args:
            parts: the path or pattern to look for.
            and_below: whether it stands for everything below it too.
        """
        yielded: set[_Node[T]] = set()
        visited = set()
        states = [(self._root, 0)]
        while states:
            state = states.pop()
            if state in visited:
                continue
            visited.add(state)
            node, at = state
            if node.values and node not in yielded:
                yielded.add(node)
                yield from node.values
            if at < len(parts):
                states += node.next_states(parts[at], at)
            elif and_below:
                states += [(child, at) for child in node.all_children()]


class _Node(Generic[T]):
    """A node of the tree: the patterns with the same beginning."""

    __slots__ = ("_globs", "_plain", "deep", "stays", "values")

    def __init__(self, stays: bool = False) -> None:
        self.values: list[T] = []
        #: Whether it comes of a `**`, which reads any number of parts.
        self.stays = stays
        self.deep: _Node[T] | None = None
        self._plain: dict[str, _Node[T]] = {}
        self._globs: _GlobTable[T] = _GlobTable()

    def child(self, part: Part, name: str) -> _Node[T]:
        """Return the child for a part; it is made if it is missing."""
        if part is None:
            if self.deep is None:
                self.deep = self if self.stays else _Node(stays=True)
            return self.deep
        if isinstance(part, str):
            return self._plain.setdefault(part, _Node())
        return self._globs.child(part, name)

    def all_children(self) -> Iterator[_Node[T]]:
        """Yield all children."""
        yield from self._children()
        if self.deep is not None:
            yield self.deep

    def next_states(self, part: Part, at: int) -> Iterator[tuple[_Node[T], int]]:
        """Yield the next states of the walk, when `part` is looked for at `at`."""
        if self.deep is not None:
            yield self.deep, at  # it may read nothing
        if part is None:
            yield self, at + 1  # as may ours
            for child in self._children():
                yield child, at
        else:
            if self.stays:
                yield self, at + 1
            for child in self._reading(part):
                yield child, at + 1

    def _children(self) -> Iterator[_Node[T]]:
        yield from self._plain.values()
        for _, child in self._globs.all():
            yield child

    def _reading(self, part: str | Glob) -> Iterator[_Node[T]]:
        """Yield the children whose part can be the same text as this part."""
        if isinstance(part, str):
            if part in self._plain:
                yield self._plain[part]
            yield from self._globs.matching(part)
        else:
            for text, child in self._plain.items():
                if part.matches(text):
                    yield child
            for glob, child in self._globs.all():
                if part.meets(glob):
                    yield child


class _GlobTable(Generic[T]):
    """The globs after a node, found by the plain text in them: few are really tried.

    That at their ends is a key; that within is looked for, which takes a twentieth of a match.
    """

    __slots__ = ("_by_ends", "_by_name", "_lengths")

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[Glob, _Node[T]]] = {}
        self._by_ends: dict[tuple[str, str], list[tuple[str, Glob, _Node[T]]]] = {}
        self._lengths: set[tuple[int, int]] = set()

    def child(self, glob: Glob, name: str) -> _Node[T]:
        """Return the node after a glob; made if it is missing."""
        if name not in self._by_name:
            child: _Node[T] = _Node()
            self._by_name[name] = glob, child
            self._by_ends.setdefault((glob.head, glob.tail), []).append((glob.inside, glob, child))
            self._lengths.add((len(glob.head), len(glob.tail)))
        return self._by_name[name][1]

    def all(self) -> Iterable[tuple[Glob, _Node[T]]]:
        """Return every glob with the node after it."""
        return self._by_name.values()

    def matching(self, text: str) -> Iterator[_Node[T]]:
        """Yield the nodes after the globs that match a text."""
        for head, tail in self._lengths:
            ends = (text[:head], text[len(text) - tail :])
            for inside, glob, child in self._by_ends.get(ends, ()):
                if inside in text and glob.matches(text):
                    yield child
