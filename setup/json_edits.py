"""Adding an entry to JSON text, and removing it, without changing a character of the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from ..schema.errors import InvalidInput

# JSON with comments, parsed with the place of each value in the text.
#
# A configuration is changed in place, so that other entries keep their order, indentation and
# comments. Comments and commas before a closing bracket are accepted in every file. What lies
# beside the way to an entry of ours is only decoded, without places: a file may hold megabytes of a
# program's history.

#: Spaces and comments.
SPACE = r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*[\s\S]*?\*/)*+"

_SPACE = re.compile(SPACE)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')

#: Values within values are read up to this depth.
_MAX_DEPTH = 100


@dataclass(eq=False)
class Node:
    """A value, and where it stands.

    Attributes:
        start, end: the span of the value.
        value: the value itself.
        read_inside: reads the children, and where the comma after the last of them ends.
        read_child: reads the child that begins at a place; None: the children are read already, or
            the value has none.
    """

    start: int
    end: int
    value: Any
    read_inside: Callable[[], _Inside] = lambda: ([], None)
    read_child: Callable[[int], JsonChild] | None = None

    @cached_property
    def _inside(self) -> _Inside:
        return self.read_inside()

    @property
    def children(self) -> list[JsonChild]:
        """The members of an object, or the items of an array, in order."""
        return self._inside[0]

    @property
    def trailing_comma(self) -> int | None:
        """The end of the comma after the last child, or None."""
        return self._inside[1]

    def child(self, key: str) -> JsonChild | None:
        """Return the member of this name."""
        if not isinstance(self.value, dict) or key not in self.value:
            return None
        return next((child for child in self.children if child.key == key), None)


@dataclass
class JsonChild:
    """A member, which begins with its key, or an item, which has none."""

    start: int
    node: Node
    key: str | None = None

    @property
    def end(self) -> int:
        """The end of its value."""
        return self.node.end


#: The children of a value, and where the comma after the last one ends.
_Inside = tuple[list[JsonChild], int | None]


@lru_cache(maxsize=16)  # the short texts of edits must not push out a long one
def parse(text: str) -> Node:
    """Return the value of a text; callers must not change it.

    Raises:
        InvalidInput: the text is not JSON, or has a key twice.
    """
    node, at = _Parser(text).value(skip(text, 0), 0)
    if skip(text, at) != len(text):
        raise _broken(text, skip(text, at))
    return node


def skip(text: str, at: int) -> int:
    """Return where what follows spaces and comments begins."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _broken(text: str, at: int, what: str = "") -> InvalidInput:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return InvalidInput(f"line {line}, column {column} is not valid JSON{what}")


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        raise ValueError("a key is there twice")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


#: Decodes a value without comments, and returns where it ends; the parser reports errors in it.
_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant).raw_decode


#: The parts that stay as they are, or become spaces, as a whole: so no place is looked at twice. A
#: string or a comment without an end reaches to the end of the text.
_STAYS_OR_IS_BLANKED = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?+'  # a string: stays
    r"|//[^\r\n]*+|/\*(?:.*?\*/|.*+)"  # a comment: blanked
    rf"|[\[{{]{SPACE},"  # a comma without a child before it, an error: stays
    rf"|,(?={SPACE}[\]}}])",  # the comma after the last child: blanked
    re.DOTALL,
)


def _blanked(text: str) -> str:
    """Return a text with spaces for its comments, and for commas before a closing bracket."""
    return _STAYS_OR_IS_BLANKED.sub(
        lambda part: part[0] if part[0][0] in '"[{' else " " * len(part[0]), text
    )


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._without_comments: str | None = None

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        opening = self._text[at : at + 1]
        if opening and opening in "{[":
            node = self._container(at, depth)
            return node, node.end
        try:
            value, end = _decode(self._text, at)
        except ValueError as error:
            raise _broken(self._text, at) from error
        return Node(at, end, value), end

    def _container(self, start: int, depth: int) -> Node:
        """Return the object or the array that begins there."""
        if depth == _MAX_DEPTH:
            raise _broken(self._text, start, ": it is nested too deeply")
        try:
            value, end = self._decoded(start)
        except (ValueError, StopIteration, RecursionError):
            # It is broken, and is read child by child, which finds the place of the error.
            children, comma, end = self._children(start, depth)
            values = [child.node.value for child in children]
            keys = [child.key for child in children]
            is_object = self._text[start] == "{"
            value = dict(zip(keys, values, strict=True)) if is_object else values
            return Node(start, end, value, lambda: (children, comma))
        return Node(
            start,
            end,
            value,
            lambda: self._children(start, depth)[:2],
            lambda at: self._child(at, depth, is_object=isinstance(value, dict))[0],
        )

    def _decoded(self, start: int) -> tuple[Any, int]:
        """Return the value that begins there, and its end.

        Raises:
            ValueError, StopIteration, RecursionError: no valid value begins there.
        """
        if self._without_comments is None:
            try:
                return _decode(self._text, start)
            except ValueError:
                self._without_comments = _blanked(self._text)
        return _decode(self._without_comments, start)

    def _children(self, start: int, depth: int) -> tuple[list[JsonChild], int | None, int]:
        """Return the children of a container, the end of a trailing comma, and its own end."""
        text, is_object = self._text, self._text[start] == "{"
        closing = "}" if is_object else "]"
        children: list[JsonChild] = []
        keys: set[str | None] = set()
        comma: int | None = None
        at = skip(text, start + 1)
        while text[at : at + 1] != closing:
            if children and comma is None:
                raise _broken(text, at)
            child, at = self._child(at, depth, is_object=is_object)
            if is_object and child.key in keys:
                raise _broken(text, child.start, f": the key {child.key!a} is there twice")
            children.append(child)
            keys.add(child.key)
            at = skip(text, at)
            comma = at + 1 if text[at : at + 1] == "," else None
            at = at if comma is None else skip(text, comma)
        return children, comma, at + 1

    def _child(self, at: int, depth: int, *, is_object: bool) -> tuple[JsonChild, int]:
        if not is_object:
            node, end = self.value(at, depth + 1)
            return JsonChild(at, node), end
        key = _STRING.match(self._text, at)
        if key is None:
            raise _broken(self._text, at)
        colon = skip(self._text, key.end())
        if self._text[colon : colon + 1] != ":":
            raise _broken(self._text, colon)
        node, end = self.value(skip(self._text, colon + 1), depth + 1)
        return JsonChild(at, node, json.loads(key[0])), end


#: The path to a value: the keys of objects.
Path = tuple[str, ...]

_TRAILING_COMMENT = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)?")


def find(text: str, path: Path) -> Node | None:
    """Return the value at a path, or None.

    Raises:
        InvalidInput: the text is not JSON, or what is on the way is not an object.
    """
    node = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            where = ".".join(path[:depth])
            raise InvalidInput(
                f"{where or 'the whole'} is not a JSON object, but is to have {key!a}"
            )
        child = node.child(key)
        if child is None:
            return None
        node = child.node
    return node


def set_member(text: str, path: Path, value: Any) -> str:
    """Return the text with a value at a path; objects on the way are made."""
    node = find(text, path)
    if node is not None:
        return text if node.value == value else replaced(text, node, value)
    inside, rest = _deepest(text, path)
    for key in reversed(rest[1:]):
        value = {key: value}
    return _insert(text, inside, value, key=rest[0])


def add_item(text: str, path: Path, value: Any) -> str:
    """Return the text with one more item at the end of the array at a path."""
    node = find(text, path)
    if node is None:
        return set_member(text, path, [value])
    if not isinstance(node.value, list):
        raise InvalidInput(f"{'.'.join(path)} is not a JSON array")
    return _insert(text, node, value, key=None)


def replaced(text: str, node: Node, value: Any) -> str:
    """Return the text with a value replaced; the new one is on one line if the old one was."""
    if "\n" in text[node.start : node.end]:
        new = _rendered(value, _indent_at(text, node.start), _unit(text), _newline(text))
    else:
        new = _compact(value)
    return text[: node.start] + new + text[node.end :]


def without_member(text: str, path: Path) -> Iterator[str]:
    """Yield the texts that adding the member at a path may have begun with.

    The first is always valid; the others differ in the spaces and line ends removed with it.
    """
    parent = find(text, path[:-1])
    child = parent.child(path[-1]) if parent else None
    if parent and child:
        yield from _without(text, parent, child)


def without_item(text: str, array: Node, index: int) -> Iterator[str]:
    """Yield the texts that adding an item of an array may have begun with."""
    yield from _without(text, array, array.children[index])


def _deepest(text: str, path: Path) -> tuple[Node, Path]:
    """Return the last existing object on a path, and the rest of the path."""
    for length in reversed(range(len(path))):
        node = find(text, path[:length])
        if node is not None:
            if not isinstance(node.value, dict):
                find(text, path)  # raises: this is not an object
            return node, path[length:]
    raise AssertionError("a text that was parsed has a root")


# text ----------------------------------------------------------------------------------------


def _insert(text: str, container: Node, value: Any, key: str | None) -> str:
    """Add a child at the end of a container, in the style of the text."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    newline, unit = _newline(text), _unit(text)
    if not container.children:
        # Between spaces: by them removal sees that the container was there before, and leaves it.
        at = container.start + 1
        return f"{text[:at]} {name}{_compact(value)} {text[at:]}"
    last = container.children[-1]
    indent = _own_line_indent(text, container.children[0])
    if indent is None:
        new = f" {name}{_compact(value)}"
    else:
        new = newline + indent + name + _rendered(value, indent, unit, newline)
    if container.trailing_comma is not None:
        at = _end_of_comment(text, container.trailing_comma, indent)
        return text[:at] + new + "," + text[at:]
    at = _end_of_comment(text, last.end, indent)
    return text[: last.end] + "," + text[last.end : at] + new + text[at:]


def _without(text: str, container: Node, child: JsonChild) -> Iterator[str]:
    index = container.children.index(child)
    is_last = index == len(container.children) - 1
    after = container.trailing_comma if is_last else _comma_after(text, container, index)
    before = len(text[: child.start].rstrip(" \t\r\n"))
    starts = (before, child.start)
    may_end_in_comment = _may_end_in_comment(text, before)
    if after is not None:
        yield from _valid((text[:start] + text[after:] for start in starts), may_end_in_comment)
    elif index:  # the comma before it goes too
        comma_end = _comma_after(text, container, index - 1)
        head = text[: comma_end - 1]
        candidates = (head + text[comma_end:start] + text[child.end :] for start in starts)
        yield from _valid(candidates, may_end_in_comment)
    else:
        if text[child.start - 1] == text[child.end] == " ":
            yield text[: child.start - 1] + text[child.end + 1 :]
        candidates = (text[:start] + text[child.end :] for start in starts)
        yield from _valid(candidates, may_end_in_comment)


def _may_end_in_comment(text: str, end: int) -> bool:
    """Whether the text before a place may end in a comment, which lasts up to a line end."""
    return "//" in text[text.rfind("\n", 0, end) + 1 : end]


def _valid(texts: Iterable[str], may_end_in_comment: bool) -> Iterator[str]:
    """Leave out texts that are not JSON: a comment without its line end runs into the next line."""
    for text in texts:
        if may_end_in_comment:  # only then: a text of megabytes takes a second
            try:
                parse(text)
            except InvalidInput:
                continue
        yield text


def _comma_after(text: str, container: Node, index: int) -> int:
    """Return where the comma after a child ends; only comments may stand before it."""
    at = container.children[index].end
    while text[at] != ",":
        comment = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL).match(text, at)
        at = comment.end() if comment else at + 1
    return at + 1


def _end_of_comment(text: str, at: int, indent: str | None) -> int:
    """Return where a comment behind a value ends, which stays with the value; else the place."""
    if indent is None:
        return at
    match = _TRAILING_COMMENT.match(text, at)
    return match.end() if match and match[0].strip() else at


def _own_line_indent(text: str, child: JsonChild) -> str | None:
    """Return the indentation of a child that begins a line, else None."""
    line = text.rfind("\n", 0, child.start) + 1
    indent = text[line : child.start]
    return indent if line and not indent.strip(" \t") else None


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """Return the unit of indentation: that of the text's first member."""
    children = parse(text).children
    return (_own_line_indent(text, children[0]) if children else None) or "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rendered(value: Any, indent: str, unit: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
