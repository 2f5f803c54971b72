"""JSON with comments, parsed with the place of each value in the text.

A configuration is changed in place, so that other entries keep their order, indentation and
comments. Comments and commas before a closing bracket are accepted in every file. What lies beside
the way to an entry of ours is only passed over: a file may hold megabytes of a program's history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NoReturn

from ..schema.errors import InvalidInput

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")

#: Values within values are read up to this depth.
_MAX_DEPTH = 100


@dataclass(eq=False)
class Node:
    """A value, and where it stands.

    Attributes:
        start, end: the span of the value.
        value: the value itself.
        read_inside: reads the children, and where the comma after the last of them ends.
    """

    start: int
    end: int
    value: Any
    read_inside: Callable[[], _Inside] = lambda: ([], None)

    @cached_property
    def _inside(self) -> _Inside:
        return self.read_inside()

    @property
    def children(self) -> list[Child]:
        """The members of an object, or the items of an array, in order."""
        return self._inside[0]

    @property
    def trailing_comma(self) -> int | None:
        """The end of the comma after the last child, or None."""
        return self._inside[1]

    def child(self, key: str) -> Child | None:
        """Return the member of this name."""
        if not isinstance(self.value, dict) or key not in self.value:
            return None
        return next((child for child in self.children if child.key == key), None)


@dataclass
class Child:
    """A member, which begins with its key, or an item, which has none."""

    start: int
    node: Node
    key: str | None = None

    @property
    def end(self) -> int:
        """The end of its value."""
        return self.node.end


#: The children of a value, and where the comma after the last one ends.
_Inside = tuple[list[Child], int | None]


@lru_cache(maxsize=4)
def parse(text: str) -> Node:
    """Return the value of a text; callers must not change it.

    Raises:
        InvalidInput: the text is not JSON, or has a key twice.
    """
    node, at = _Parser(text).value(_skip(text, 0), 0)
    if _skip(text, at) != len(text):
        raise _broken(text, _skip(text, at))
    return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


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


#: Passes over a value without comments: what is wrong in it is for the parser to say.
_pass_over = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant).raw_decode


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        opening = self._text[at : at + 1]
        if opening and opening in "{[":
            node = self._container(at, depth)
            return node, node.end
        found = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        if found is None:
            raise _broken(self._text, at)
        try:
            value = json.loads(found[0])
        except ValueError as error:
            raise _broken(self._text, at) from error
        return Node(at, found.end(), value), found.end()

    def _container(self, start: int, depth: int) -> Node:
        """Return the object or the array that begins there."""
        if depth == _MAX_DEPTH:
            raise _broken(self._text, start, ": it is nested too deeply")
        try:
            value, end = _pass_over(self._text, start)
        except (ValueError, StopIteration, RecursionError):  # it has comments, or is broken
            children, comma, end = self._children(start, depth)
            values = [child.node.value for child in children]
            keys = [child.key for child in children]
            is_object = self._text[start] == "{"
            value = dict(zip(keys, values, strict=True)) if is_object else values
            return Node(start, end, value, lambda: (children, comma))
        return Node(start, end, value, lambda: self._children(start, depth)[:2])

    def _children(self, start: int, depth: int) -> tuple[list[Child], int | None, int]:
        """Return the children of a container, the end of a trailing comma, and its own end."""
        text, is_object = self._text, self._text[start] == "{"
        closing = "}" if is_object else "]"
        children: list[Child] = []
        keys: set[str | None] = set()
        comma: int | None = None
        at = _skip(text, start + 1)
        while text[at : at + 1] != closing:
            if children and comma is None:
                raise _broken(text, at)
            child, at = self._child(at, depth, is_object=is_object)
            if is_object and child.key in keys:
                raise _broken(text, child.start, f": the key {child.key!a} is there twice")
            children.append(child)
            keys.add(child.key)
            at = _skip(text, at)
            comma = at + 1 if text[at : at + 1] == "," else None
            at = at if comma is None else _skip(text, comma)
        return children, comma, at + 1

    def _child(self, at: int, depth: int, *, is_object: bool) -> tuple[Child, int]:
        if not is_object:
            node, end = self.value(at, depth + 1)
            return Child(at, node), end
        key = _STRING.match(self._text, at)
        if key is None:
            raise _broken(self._text, at)
        colon = _skip(self._text, key.end())
        if self._text[colon : colon + 1] != ":":
            raise _broken(self._text, colon)
        node, end = self.value(_skip(self._text, colon + 1), depth + 1)
        return Child(at, node, json.loads(key[0])), end
