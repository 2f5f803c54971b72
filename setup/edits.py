"""The edits of configuration files, each with its inverse.

Removal is the exact inverse of insertion: of all texts that may have been there before, it returns
the first from which insertion makes the present text. If there is none, since the file was changed
meanwhile, only our entry is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any, Protocol

from . import json_edits
from .json_text import Node
from .ours import ENTRY, bus_of, check_ours, is_bus_mcp, words_of


class Edit(Protocol):
    """One thing that is put into a file."""

    @property
    def key(self) -> str:
        """Its name among the entries of the file."""

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where it stands in the text; None where it does not, or is never a person's."""

    def put(self, text: str) -> str:
        """Return the text with it; the same text when it is there."""

    def take(self, text: str) -> str:
        """Return the text without it; the same text when it is not there."""

    def found_in(self, text: str) -> Edit:
        """Return the edit with the values in the text, which an older setup may have put in."""


@dataclass(frozen=True)
class JsonServer:
    """The MCP server as a member of a JSON object; what people added to it stays.

    Attributes:
        within: the path to the object.
        entry: how the program is told of the server.
    """

    within: json_edits.Path
    entry: dict[str, Any]

    def put(self, text: str) -> str:
        """Return the text with the server."""
        path = self._path(text)
        found = json_edits.find(text, path)
        if found is None:
            return json_edits.set_member(text, path, self.entry)
        check_ours(found.value)
        for key, value in self.entry.items():
            text = json_edits.set_member(text, (*path, key), value)
        return text

    def take(self, text: str) -> str:
        """Return the text without the server, and without objects that came with it."""
        path = self._path(text)
        found = json_edits.find(text, path)
        if found is None:
            return text
        check_ours(found.value)
        return _undone(self, text, path, json_edits.without_member(text, path))

    @property
    def key(self) -> str:
        """The path to the server."""
        return "/".join((*self.within, ENTRY))

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where its value stands in the text, or None."""
        node = json_edits.find(text, self._path(text))
        return None if node is None else (node.start, node.end)

    def found_in(self, text: str) -> JsonServer:
        """Return it with the entry that stands in the text."""
        node = json_edits.find(text, self._path(text))
        return self if node is None else replace(self, entry=node.value)

    def words_in(self, text: str) -> list[str]:
        """Return the command line of the server that stands in the text; empty: there is none."""
        node = json_edits.find(text, self._path(text)) if text else None
        return words_of(node.value) if node else []

    def _path(self, text: str) -> json_edits.Path:
        """Return the path to our server, whether it is there or not."""
        return (*self.within, ENTRY)


@dataclass(frozen=True)
class JsonServerOfProject(JsonServer):
    """The MCP server of one project, in a list that has those of all projects.

    It is known by its bus: a name belongs to the project that took it first.

    Attributes:
        project: the name of the project.
    """

    project: str

    @property
    def key(self) -> str:
        """The path to the servers, and the bus of this one."""
        return "/".join((*self.within, str(bus_of(words_of(self.entry)))))

    def _path(self, text: str) -> json_edits.Path:
        found = json_edits.find(text, self.within)
        servers = found.value if found and isinstance(found.value, dict) else {}
        ours = bus_of(words_of(self.entry))
        for name, entry in servers.items():
            words = words_of(entry)
            if is_bus_mcp(words) and bus_of(words) == ours:
                return (*self.within, name)
        base = f"{ENTRY}-{re.sub('[^a-z0-9]+', '-', self.project.lower()).strip('-')[:20]}"
        names = chain([base], (f"{base}-{number}" for number in count(2)))
        return (*self.within, next(name for name in names if name not in servers))


@dataclass(frozen=True)
class JsonHook:
    """A hook as an item of a JSON array; other hooks beside it stay.

    Attributes:
        path: the path to the array.
        item: what stands in it: the hook itself, or a group with this one hook.
        mark: what only our command for this event has in it.
    """

    path: json_edits.Path
    item: dict[str, Any]
    mark: str

    def put(self, text: str) -> str:
        """Return the text with the hook."""
        found = self._find(text)
        if found is None:
            return json_edits.add_item(text, self.path, self.item)
        array, index = found
        hook = self.item["hooks"][0] if "hooks" in self.item else self.item
        if array.value[index] in (hook, self.item):
            return text
        old = array.children[index].node
        new = self.item if "hooks" in old.value else hook
        return json_edits.replaced(text, old, new)

    def take(self, text: str) -> str:
        """Return the text without the hook, and without arrays that came with it."""
        found = self._find(text)
        if found is None:
            return text
        return _undone(self, text, self.path, json_edits.without_item(text, *found))

    @property
    def key(self) -> str:
        """The place of the hook, and its mark."""
        return f"{'.'.join(self.path)}:{self.mark}"

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where it stands in the text, with a group that has no other hook, or None."""
        found = self._find(text)
        if found is None:
            return None
        node = found[0].children[found[1]].node
        return node.start, node.end

    def found_in(self, text: str) -> JsonHook:
        """Return it with the item that stands in the text."""
        found = self._find(text)
        return self if found is None else replace(self, item=found[0].value[found[1]])

    def command_in(self, text: str) -> str | None:
        """Return the command of the hook that stands in the text, or None."""
        found = self._find(text) if text else None
        if found is None:
            return None
        item = found[0].value[found[1]]
        hooks = item.get("hooks", [item])
        return next(str(hook["command"]) for hook in hooks if self._is_ours(hook))

    def _find(self, text: str) -> tuple[Node, int] | None:
        """Return the array and the index of our own hook."""
        array = json_edits.find(text, self.path)
        for index, child in enumerate(array.children if array else ()):
            group = child.node.child("hooks")
            hooks = group.node if group else None
            if array and self._is_ours(child.node.value):
                return array, index
            for inner, hook in enumerate(hooks.children if hooks else ()):
                if hooks and array and self._is_ours(hook.node.value):
                    return (hooks, inner) if len(hooks.children) > 1 else (array, index)
        return None

    def _is_ours(self, hook: object) -> bool:
        return isinstance(hook, dict) and self.mark in str(hook.get("command"))


@dataclass(frozen=True)
class AbsentHook:
    """A hook that is not wanted: one of before is taken out."""

    hook: JsonHook

    @property
    def key(self) -> str:
        """The key of the hook."""
        return self.hook.key

    def span(self, text: str) -> None:
        """Return None: nothing of a person's is in its place."""

    def put(self, text: str) -> str:
        """Return the text without the hook."""
        return self.hook.take(text)

    def take(self, text: str) -> str:
        """Return the text without the hook."""
        return self.hook.take(text)

    def found_in(self, text: str) -> AbsentHook:
        """Return this edit."""
        return self


def _undone(
    edit: JsonServer | JsonHook, text: str, path: json_edits.Path, without: Iterator[str]
) -> str:
    """Return the text before an edit, perhaps without a part of its path, too.

    Args:
        edit: the edit.
        text: the present text.
        path: the path that it may have had to make.
        without: the text without the edit, in each way in which it may have been made.
    """
    alone = list(without)
    longer = (json_edits.without_member(text, path[:length]) for length in range(1, len(path) + 1))
    for before in (*chain.from_iterable(longer), *alone):
        if edit.put(before) == text:
            return before
    return alone[0]
