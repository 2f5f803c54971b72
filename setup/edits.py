"""The edits of configuration files, each with its inverse.

Removal is the exact inverse of insertion: of all texts that may have been there before, it returns
the first from which insertion makes the present text. If there is none, since the file was changed
meanwhile, only our entry is removed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, Protocol

from ..schema.errors import InvalidInput, Refused
from . import json_edits
from .json_text import Node

#: The name of our entry, in every configuration.
ENTRY = "ackbus"


class Edit(Protocol):
    """One thing that is put into a file."""

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
        path = (*self.within, ENTRY)
        found = json_edits.find(text, path)
        if found is None:
            return json_edits.set_member(text, path, self.entry)
        _check_ours(found.value)
        for key, value in self.entry.items():
            text = json_edits.set_member(text, (*path, key), value)
        return text

    def take(self, text: str) -> str:
        """Return the text without the server, and without objects that came with it."""
        path = (*self.within, ENTRY)
        found = json_edits.find(text, path)
        if found is None:
            return text
        _check_ours(found.value)
        return _undone(self, text, path, json_edits.without_member(text, path))

    def found_in(self, text: str) -> JsonServer:
        """Return it with the entry that stands in the text."""
        node = json_edits.find(text, (*self.within, ENTRY))
        return self if node is None else replace(self, entry=node.value)

    def words_in(self, text: str) -> list[str]:
        """Return the command line of the server that stands in the text; empty: there is none."""
        node = json_edits.find(text, (*self.within, ENTRY)) if text else None
        return words_of(node.value) if node else []


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

    def found_in(self, text: str) -> JsonHook:
        """Return it with the item that stands in the text."""
        found = self._find(text)
        return self if found is None else replace(self, item=found[0].value[found[1]])

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
class TomlServer:
    """The MCP server as a table at the end of a TOML file.

    Attributes:
        table: the name of the table that it is in.
        entry: how the program is told of the server.
    """

    table: str
    entry: dict[str, Any]

    def put(self, text: str) -> str:
        """Return the text with the server; a table with other values is renewed in its place."""
        servers = self._servers(text)
        found = servers.get(ENTRY)
        if found is None:
            added = _appended(text, _block(self._name(), self.entry))
        else:
            _check_ours(found)
            if found.items() >= self.entry.items():
                return text
            start, end = self._span(text)
            renewed = _block(self._name(), {**found, **self.entry})
            added = text[:start] + _with_newlines_of(text, renewed) + text[end:]
        try:
            is_added = self._servers(added) == {**servers, ENTRY: {**(found or {}), **self.entry}}
        except InvalidInput:  # the text was valid without it
            is_added = False
        if not is_added:
            raise Refused(
                f"[{self._name()}] can't be added to {self.table} as it is written there; give each"
                f" server in it a table of its own, like [{self.table}.NAME]"
            )
        return added

    def take(self, text: str) -> str:
        """Return the text without the server."""
        servers = self._servers(text)
        if ENTRY not in servers:
            return text
        _check_ours(servers[ENTRY])
        start, end = self._span(text)
        taken = _cut(text, start, end)
        if self._servers(taken) != {key: servers[key] for key in servers if key != ENTRY}:
            raise Refused(f"[{self._name()}] stands among other things; take it out by hand")
        return taken

    def found_in(self, text: str) -> TomlServer:
        """Return it with the entry that stands in the text."""
        entry = self._servers(text).get(ENTRY)
        return replace(self, entry=entry) if isinstance(entry, dict) else self

    def words_in(self, text: str) -> list[str]:
        """Return the command line of the server that stands in the text; empty: there is none."""
        return words_of(self._servers(text).get(ENTRY))

    def _name(self) -> str:
        return f"{self.table}.{ENTRY}"

    def _servers(self, text: str) -> dict[str, Any]:
        try:
            servers = tomllib.loads(text).get(self.table, {})
        except tomllib.TOMLDecodeError as error:
            raise InvalidInput(f"no valid TOML: {error}") from error
        if not isinstance(servers, dict):
            raise InvalidInput(f"{self.table} is not a table")
        return servers

    def _span(self, text: str) -> tuple[int, int]:
        """Return where the table begins, and where its last line that says something ends."""
        header = re.search(rf"^\[{re.escape(self._name())}\][ \t]*(?:#.*)?\r?$", text, re.MULTILINE)
        if header is None:
            raise Refused(f"{self._name()} is not a table of its own; change it by hand")
        ours = re.escape(self._name())
        after = re.compile(rf"^\[(?!{ours}\.)", re.MULTILINE).search(text, header.end())
        body = text[header.start() : after.start() if after else len(text)]
        kept = re.sub(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*(?:#[^\n]*)?\Z", "", body)
        end = header.start() + len(kept)
        newline = re.compile(r"\r?\n").match(text, end)
        return header.start(), newline.end() if newline else end


@dataclass(frozen=True)
class Section:
    """A section of a Markdown file, between two comments."""

    body: str

    def put(self, text: str) -> str:
        """Return the text with the section; an older one is renewed in its place."""
        span = self._span(text)
        if span is None:
            return _appended(text, self._marked())
        start, end = span
        new = _with_newlines_of(text, self._marked())
        if text[end - 1] != "\n":
            new = new.rstrip("\r\n")
        return text[:start] + new + text[end:]

    def take(self, text: str) -> str:
        """Return the text without the section."""
        span = self._span(text)
        return text if span is None else _cut(text, *span)

    def found_in(self, text: str) -> Section:
        """Return it with what it says in the text."""
        span = self._span(text)
        lines = text[slice(*span)].splitlines()[1:-1] if span else None
        return self if lines is None else replace(self, body="".join(f"{each}\n" for each in lines))

    def _marked(self) -> str:
        return f"<!-- {ENTRY}:begin -->\n{self.body}<!-- {ENTRY}:end -->\n"

    def _span(self, text: str) -> tuple[int, int] | None:
        begins = list(re.finditer(f"<!-- {ENTRY}:begin -->", text))
        ends = list(re.finditer(f"<!-- {ENTRY}:end -->(?:\r?\n)?", text))
        if not begins and not ends:
            return None
        if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].start():
            raise InvalidInput(f"the comments {ENTRY}:begin and {ENTRY}:end are not one pair")
        return begins[0].start(), ends[0].end()


# what is ours --------------------------------------------------------------------------------


def _check_ours(entry: object) -> None:
    """Refuse an entry of our name that runs another command: a person made it by hand."""
    if not is_bus_mcp(words_of(entry)):
        raise Refused(f"its entry {ENTRY!r} does not run 'bus mcp'; rename it, and try again")


def words_of(entry: object) -> list[str]:
    """Return the command line of an entry of any program; empty when it has none."""
    command = entry.get("command") if isinstance(entry, dict) else None
    arguments = entry.get("args", []) if isinstance(entry, dict) else []
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(arguments, list):
        return []
    return [str(word) for word in (*words, *arguments)]


def option_in(words: list[str], option: str) -> str | None:
    """Return the value of an option in a command line, or None."""
    for word, after in pairwise((*words, "")):
        if word == option:
            return after or None
        if word.startswith(f"{option}="):
            return word.partition("=")[2] or None
    return None


def is_bus_mcp(words: list[str]) -> bool:
    """Whether a command line is that of our server."""
    return bool(words) and os.path.basename(words[0]) == "bus" and words[1:2] == ["mcp"]


def hook_mark(event: str, program: str) -> str:
    """Return the words that only the command of this hook has."""
    return f" hook {event} {program} "


def hook_command(words: list[str]) -> str:
    """Return a command line as a shell takes it, which is how hooks are run."""
    return shlex.join(words)


# text ----------------------------------------------------------------------------------------


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


def _appended(text: str, block: str) -> str:
    """Append a block after an empty line; `_cut` is the inverse.

    If the last line had no line end, the block has none either, and there is no empty line: so the
    text before can be derived from the text after.
    """
    block = _with_newlines_of(text, block)
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text:
        return block[: -len(newline)]
    return text + newline + block


def _cut(text: str, start: int, end: int) -> str:
    """Remove a block, with the line that `_appended` put before it."""
    before = text[:start]
    if before.endswith("\n"):
        before = before[:-1].removesuffix("\r")
    return before + text[end:]


def _with_newlines_of(text: str, block: str) -> str:
    return block.replace("\n", "\r\n") if "\r\n" in text else block


def _block(name: str, entry: dict[str, Any]) -> str:
    """Return a table of TOML, whose strings are written as JSON writes them."""
    tables = {key: value for key, value in entry.items() if isinstance(value, dict)}
    lines = [f"[{name}]"]
    lines += [f"{key} = {_toml(value)}" for key, value in entry.items() if key not in tables]
    inner = [_block(f"{name}.{key}", value) for key, value in tables.items()]
    return "\n".join(lines) + "\n" + "".join("\n" + each for each in inner)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    # A TOML string has the escapes of a JSON string, and one that JSON leaves as it is: DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
