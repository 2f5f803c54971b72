"""Patterns of paths, and an index that finds those that match a path or meet a pattern.

A pattern is a path with wildcards: `*`, `?` and `[…]` within a part, `**` for any number of parts.
It stands for the paths that it matches, and for everything below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...schema.errors import InvalidInput, shown
from ...schema.message.limits import MAX_PATH_CHARS
from ...schema.message.names import check_line
from .globs import SPECIAL, Glob, part_of

TYPE_CHECKING = False
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
    """Return the pattern that matches exactly this path, whatever characters it has."""
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
        """Yield the values whose pattern shares a path with this one."""
        return self._find(pattern.parts, and_below=True)

    def _find(self, parts: Sequence[Part], *, and_below: bool) -> Iterator[T]:
        """Walk the tree and the parts at once: a state is a place in each.

        Args:
            parts: the path or pattern to look for.
            and_below: whether it stands for everything below it too.
        """
        found: set[_Node[T]] = set()
        seen = set()
        states = [(self._root, 0)]
        while states:
            state = states.pop()
            if state in seen:
                continue
            seen.add(state)
            node, at = state
            if node.values and node not in found:
                found.add(node)
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
        """Return the node after one more part; made if it is missing."""
        if part is None:
            if self.deep is None:
                self.deep = self if self.stays else _Node(stays=True)
            return self.deep
        if isinstance(part, str):
            return self._plain.setdefault(part, _Node())
        return self._globs.child(part, name)

    def all_children(self) -> Iterator[_Node[T]]:
        """Yield every node after this one."""
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
        """Yield the nodes after a part that can be the same text as this one."""
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
