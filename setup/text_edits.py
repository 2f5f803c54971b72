"""The edits of configuration files that are not JSON: a table of TOML, a section of Markdown."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, replace
from typing import Any

from ..schema.errors import InvalidInput, Refused
from .ours import ENTRY, check_ours, words_of


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
            check_ours(found)
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
        check_ours(servers[ENTRY])
        start, end = self._span(text)
        taken = _cut(text, start, end)
        if self._servers(taken) != {key: servers[key] for key in servers if key != ENTRY}:
            raise Refused(f"[{self._name()}] stands among other things; take it out by hand")
        return taken

    @property
    def key(self) -> str:
        """The name of the table."""
        return self._name()

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where the table stands in the text, or None."""
        return self._span(text) if ENTRY in self._servers(text) else None

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
        span = self.span(text)
        if span is None:
            return _appended(text, self._marked())
        start, end = span
        new = _with_newlines_of(text, self._marked())
        if text[end - 1] != "\n":
            new = new.rstrip("\r\n")
        return text[:start] + new + text[end:]

    def take(self, text: str) -> str:
        """Return the text without the section."""
        span = self.span(text)
        return text if span is None else _cut(text, *span)

    @property
    def key(self) -> str:
        """The name of the file's one section."""
        return "section"

    def found_in(self, text: str) -> Section:
        """Return it with what it says in the text."""
        span = self.span(text)
        lines = text[slice(*span)].splitlines()[1:-1] if span else None
        return self if lines is None else replace(self, body="".join(f"{each}\n" for each in lines))

    def _marked(self) -> str:
        return f"<!-- {ENTRY}:begin -->\n{self.body}<!-- {ENTRY}:end -->\n"

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where the section stands in the text, or None."""
        begins = list(re.finditer(f"<!-- {ENTRY}:begin -->", text))
        ends = list(re.finditer(f"<!-- {ENTRY}:end -->(?:\r?\n)?", text))
        if not begins and not ends:
            return None
        if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].start():
            raise InvalidInput(f"the comments {ENTRY}:begin and {ENTRY}:end are not one pair")
        return begins[0].start(), ends[0].end()


# text ------------------------------------------------------------------------------------------


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
