"""JSON with comments, parsed with the place of each value in the text.

A configuration is changed in place, so that other entries keep their order, indentation and
comments. Comments and commas before a closing bracket are accepted in every file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..schema.errors import InvalidInput

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")

#: Values within values are read up to this depth.
_MAX_DEPTH = 100


@dataclass
class Node:
    """A value, and where it stands.

    Attributes:
        start, end: the span of the value.
        value: the value itself.
        children: the members of an object, or the items of an array, in order.
        trailing_comma: where the comma after the last child ends, or None.
    """

    start: int
    end: int
    value: Any
    children: list[Child] = field(default_factory=list)
    trailing_comma: int | None = None

    def child(self, key: str) -> Child | None:
        """Return the member of this name."""
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


@lru_cache(maxsize=8)
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


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int, depth: int) -> tuple[Node, int]:
        opening = self._text[at : at + 1]
        if opening and opening in "{[":
            if depth == _MAX_DEPTH:
                raise _broken(self._text, at, ": it is nested too deeply")
            node = self._container(at, depth, is_object=opening == "{")
            return node, node.end
        found = (_STRING if opening == '"' else _SCALAR).match(self._text, at)
        if found is None:
            raise _broken(self._text, at)
        try:
            value = json.loads(found[0])
        except ValueError as error:
            raise _broken(self._text, at) from error
        return Node(at, found.end(), value), found.end()

    def _container(self, start: int, depth: int, *, is_object: bool) -> Node:
        text, closing = self._text, "}" if is_object else "]"
        children: list[Child] = []
        comma: int | None = None
        at = _skip(text, start + 1)
        while text[at : at + 1] != closing:
            if children and comma is None:
                raise _broken(text, at)
            child, at = self._child(at, depth, is_object=is_object)
            if is_object and any(child.key == other.key for other in children):
                raise _broken(text, child.start, f": the key {child.key!a} is there twice")
            children.append(child)
            at = _skip(text, at)
            comma = at + 1 if text[at : at + 1] == "," else None
            at = at if comma is None else _skip(text, comma)
        values = [child.node.value for child in children]
        keys = [child.key for child in children]
        value = dict(zip(keys, values, strict=True)) if is_object else values
        return Node(start, at + 1, value, children, comma)

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
