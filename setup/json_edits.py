"""Adding an entry to JSON text, and removing it, without changing a character of the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..schema.errors import InvalidInput
from .json_text import Child, Node, parse

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
    """Return the text with another value in the place of one, on one line if that was."""
    if "\n" in text[node.start : node.end]:
        new = _rendered(value, _indent_at(text, node.start), _unit(text), _newline(text))
    else:
        new = _compact(value)
    return text[: node.start] + new + text[node.end :]


def without_member(text: str, path: Path) -> Iterator[str]:
    """Yield the text without the member at a path, in each way in which it may have been put in.

    The first is always good; the others differ in the spaces and line ends that go with it.
    """
    parent = find(text, path[:-1])
    child = parent.child(path[-1]) if parent else None
    if parent and child:
        yield from _without(text, parent, child)


def without_item(text: str, array: Node, index: int) -> Iterator[str]:
    """Yield the text without an item of an array, in each way in which it may have been put in."""
    yield from _without(text, array, array.children[index])


def _deepest(text: str, path: Path) -> tuple[Node, Path]:
    """Return the last existing object on a path, and the rest of the path."""
    for length in reversed(range(len(path))):
        node = find(text, path[:length])
        if node is not None:
            if not isinstance(node.value, dict):
                find(text, path)  # which says so
            return node, path[length:]
    raise AssertionError("a text that was parsed has a root")


# text ----------------------------------------------------------------------------------------


def _insert(text: str, container: Node, value: Any, key: str | None) -> str:
    """Add a child at the end of a container, in the style of the text."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    newline, unit = _newline(text), _unit(text)
    if not container.children:
        # On the same line, and between spaces: so it differs from what came with its container.
        at = container.start + 1
        return f"{text[:at]} {name}{_compact(value)} {text[at:]}"
    last = container.children[-1]
    indent = _own_line_indent(text, container.children[0])
    if indent is None:
        new = f" {name}{_compact(value)}"
    else:
        new = newline + indent + name + _rendered(value, indent, unit, newline)
    if container.trailing_comma is not None:
        at = _after_comment(text, container.trailing_comma, indent)
        return text[:at] + new + "," + text[at:]
    at = _after_comment(text, last.end, indent)
    return text[: last.end] + "," + text[last.end : at] + new + text[at:]


def _without(text: str, container: Node, child: Child) -> Iterator[str]:
    index = container.children.index(child)
    is_last = index == len(container.children) - 1
    after = container.trailing_comma if is_last else _comma_after(text, container, index)
    before = len(text[: child.start].rstrip(" \t\r\n"))
    starts = (before, child.start)
    behind = _behind_comment(text, before)
    if after is not None:
        yield from _valid((text[:start] + text[after:] for start in starts), behind)
    elif index:  # the comma before it goes too
        comma = _comma_after(text, container, index - 1)
        head = text[: comma - 1]
        made = (head + text[comma:start] + text[child.end :] for start in starts)
        yield from _valid(made, behind)
    else:
        if text[child.start - 1] == text[child.end] == " ":
            yield text[: child.start - 1] + text[child.end + 1 :]
        yield from _valid((text[:start] + text[child.end :] for start in starts), behind)


def _behind_comment(text: str, end: int) -> bool:
    """Whether what stands before a place may be a comment up to the end of its line."""
    return "//" in text[text.rfind("\n", 0, end) + 1 : end]


def _valid(texts: Iterable[str], behind_comment: bool) -> Iterator[str]:
    """Leave out texts that are not JSON: a comment without its line end runs into the next line."""
    for text in texts:
        if behind_comment:  # only then: a text of megabytes takes a second
            try:
                parse(text)
            except InvalidInput:
                continue
        yield text


def _comma_after(text: str, container: Node, index: int) -> int:
    """Return where the comma after a child ends; between children stand only comments besides."""
    at = container.children[index].end
    while text[at] != ",":
        comment = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL).match(text, at)
        at = comment.end() if comment else at + 1
    return at + 1


def _after_comment(text: str, at: int, indent: str | None) -> int:
    """Return where a comment behind a value ends: it stays with that value."""
    if indent is None:
        return at
    found = _TRAILING_COMMENT.match(text, at)
    return found.end() if found and found[0].strip() else at


def _own_line_indent(text: str, child: Child) -> str | None:
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
