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
from .json_edits import Node
from .record import (
    ENTRY,
    SERVER_REFUSAL,
    bus_of,
    has_no_extra_members,
    is_bus_mcp,
    is_hook_of_setup,
    is_server_of_setup,
    runs_hook,
    words_of,
)


class Edit(Protocol):
    """One thing that is put into a file."""

    @property
    def key(self) -> str:
        """Its name among the entries of the file."""

    @property
    def refusal(self) -> str:
        """The error for a person whose own entry stands in its place."""

    def span(self, text: str) -> tuple[int, int] | None:
        """Return the span of the entry in its place, ours or a foreign one; None: there is none."""

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether that entry is one that some version of setup wrote.

        Args:
            text: the text.
            additions_allowed: whether people may have added to it; true if the record says that
                setup wrote it.
        """

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
        entry: the program's description of the server.
    """

    within: json_edits.Path
    entry: dict[str, Any]

    def put(self, text: str) -> str:
        """Return the text with the server."""
        path = self._path(text)
        node = json_edits.find(text, path)
        if node is None:
            return json_edits.set_member(text, path, self.entry)
        for key, value in self.entry.items():
            text = json_edits.set_member(text, (*path, key), value)
        return text

    def take(self, text: str) -> str:
        """Return the text without the server, and without objects that came with it."""
        path = self._path(text)
        if json_edits.find(text, path) is None:
            return text
        return _text_before(self, text, path, json_edits.without_member(text, path))

    @property
    def key(self) -> str:
        """The path to the server."""
        return "/".join((*self.within, ENTRY))

    @property
    def refusal(self) -> str:
        """The line for a person who has a server of this name."""
        return SERVER_REFUSAL

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the server that stands in the text is one that setup wrote."""
        node = json_edits.find(text, self._path(text))
        return node is not None and is_server_of_setup(
            node.value, self.entry, additions_allowed=additions_allowed
        )

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where its value stands in the text, or None."""
        node = json_edits.find(text, self._path(text))
        return None if node is None else (node.start, node.end)

    def found_in(self, text: str) -> JsonServer:
        """Return this edit with the entry that the text has."""
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

    It is recognized by its bus, since the project that came first has the plain name.

    Attributes:
        project: the name of the project.
    """

    project: str

    @property
    def key(self) -> str:
        """The path to the servers, and the bus of this one."""
        return "/".join((*self.within, str(bus_of(words_of(self.entry)))))

    def _path(self, text: str) -> json_edits.Path:
        node = json_edits.find(text, self.within)
        servers = node.value if node and isinstance(node.value, dict) else {}
        ours = bus_of(words_of(self.entry))
        for name, entry in servers.items():
            words = words_of(entry)
            is_named_so = name == ENTRY or name.startswith(f"{ENTRY}-")
            if is_named_so and is_bus_mcp(words) and bus_of(words) == ours:
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
        mark: the words that only our command for this event has.
    """

    path: json_edits.Path
    item: dict[str, Any]
    mark: str

    def put(self, text: str) -> str:
        """Return the text with the hook; of one that is there, only our values change."""
        if self._find(text) is None:
            return json_edits.add_item(text, self.path, self.item)
        node = self._hook(text)
        hook = {**node.value, **_hook_in(self.item)}
        return text if hook == node.value else json_edits.replaced(text, node, hook)

    def take(self, text: str) -> str:
        """Return the text without the hook, and without arrays that came with it."""
        place = self._find(text)
        if place is None:
            return text
        return _text_before(self, text, self.path, json_edits.without_item(text, *place))

    @property
    def key(self) -> str:
        """The place of the hook, and its mark."""
        return f"{'.'.join(self.path)}:{self.mark}"

    @property
    def refusal(self) -> str:
        """The line for a person who has such a hook."""
        event, program = self.mark.split()[1:]
        return (
            f"its hook 'bus hook {event} {program}' is not as 'bus setup' writes it;"
            " take it out, and try again"
        )

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where the hook stands in the text, or None; a group with this hook only counts."""
        place = self._find(text)
        if place is None:
            return None
        node = place[0].children[place[1]].node
        return node.start, node.end

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the hook that stands in the text is one that setup wrote."""
        place = self._find(text)
        if place is None:
            return False
        item, hook = place[0].value[place[1]], self._hook(text).value
        if not is_hook_of_setup(hook["command"], self.mark):
            return False
        group_is_plain = "hooks" not in item or [*item] == ["hooks"]
        return additions_allowed or (
            group_is_plain and has_no_extra_members(hook, _hook_in(self.item), "command")
        )

    def found_in(self, text: str) -> JsonHook:
        """Return this edit with the item that the text has."""
        place = self._find(text)
        return self if place is None else replace(self, item=place[0].value[place[1]])

    def command_in(self, text: str) -> str | None:
        """Return the command of the hook that stands in the text, or None."""
        if not text or self._find(text) is None:
            return None
        return str(self._hook(text).value["command"])

    def _hook(self, text: str) -> Node:
        """Return the hook that stands in the text, without its group."""
        place = self._find(text)
        assert place is not None
        node = place[0].children[place[1]].node
        group = node.child("hooks")
        return group.node.children[0].node if group else node

    def _find(self, text: str) -> tuple[Node, int] | None:
        """Return the array and the index of the hook: one of setup's before any other."""
        places = list(self._places(json_edits.find(text, self.path)))
        ours = (place for place in places if is_hook_of_setup(place[2], self.mark))
        others = (place for place in places if runs_hook(place[2], self.mark))
        first = next(chain(ours, others), None)
        return None if first is None else first[:2]

    def _places(self, array: Node | None) -> Iterator[tuple[Node, int, object]]:
        """Yield each hook's array, its index there, and its command.

        A hook that is alone in its group stands for the group: its place is the group's.
        """
        if array is None or not isinstance(array.value, list):
            return
        for index, child in enumerate(array.children):
            group = child.node.child("hooks")
            hooks = group.node.children if group and isinstance(group.node.value, list) else []
            for inner, hook in enumerate(hooks):
                place = (group.node, inner) if group and len(hooks) > 1 else (array, index)
                yield *place, _command(hook.node.value)
            if not group:
                yield array, index, _command(child.node.value)


def _hook_in(item: dict[str, Any]) -> dict[str, Any]:
    """Return the hook of an item, which may be a group with one."""
    hook: dict[str, Any] = item["hooks"][0] if "hooks" in item else item
    return hook


def _command(hook: object) -> object:
    return hook.get("command") if isinstance(hook, dict) else None


@dataclass(frozen=True)
class AbsentHook:
    """A hook that must not be there: one that an earlier setup wrote is taken out."""

    hook: JsonHook

    @property
    def key(self) -> str:
        """The key of the hook."""
        return self.hook.key

    @property
    def refusal(self) -> str:
        """The line of the hook."""
        return self.hook.refusal

    def span(self, text: str) -> tuple[int, int] | None:
        """Return the span of a hook that setup wrote; a person's own may stay."""
        return self.hook.span(text) if self.is_of_setup(text, additions_allowed=True) else None

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the hook that stands in the text is one that setup wrote."""
        return self.hook.is_of_setup(text, additions_allowed=additions_allowed)

    def put(self, text: str) -> str:
        """Return the text without the hook."""
        return self.take(text)

    def take(self, text: str) -> str:
        """Return the text without the hook."""
        return self.hook.take(text) if self.is_of_setup(text, additions_allowed=True) else text

    def found_in(self, text: str) -> AbsentHook:
        """Return this edit."""
        return self


def _text_before(
    edit: JsonServer | JsonHook, text: str, path: json_edits.Path, candidates: Iterator[str]
) -> str:
    """Return the text before an edit, without objects that the edit made on its path.

    Args:
        edit: the edit.
        text: the present text.
        path: the path whose objects the edit may have made.
        candidates: the texts without the entry that may have been there before.
    """
    without_entry = next(candidates)
    for before in chain(_without_new_parents(text, path), [without_entry], candidates):
        if edit.put(before) == text:
            return before
    return without_entry


def _without_new_parents(text: str, path: json_edits.Path) -> Iterator[str]:
    """Yield the text without one of the objects on a path that have a single member."""
    for length in range(1, len(path) + 1):
        node = json_edits.find(text, path[:length])
        if node is not None and isinstance(node.value, dict | list) and len(node.value) == 1:
            yield from json_edits.without_member(text, path[:length])
