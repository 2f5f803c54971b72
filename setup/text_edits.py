"""The edits of configuration files that are not JSON: a table of TOML, a section of Markdown."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from ..schema.errors import InvalidInput, Refused
from .record import ENTRY, SERVER_REFUSAL, is_server_of_setup, words_of

#: The beginnings of the hashes of what each version has written into a section.
_BODIES = frozenset({"9804e899819ff464", "436a04595ffde775"})


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
        """Return the text with the server; of a table that is there, only our values change."""
        server = self._parsed(text)[self.table].get(ENTRY)
        if server is None:
            added = _appended(text, _block(self._name(), self.entry))
            advice = f"give each server in it a table of its own, like [{self.table}.NAME]"
        else:
            added = text
            for key in (key for key, value in self.entry.items() if server.get(key) != value):
                added = self._with_value(added, key)
            advice = f"write {' and '.join(self.entry)} on lines of their own"
        if not self._differs_by(text, added, {**(server or {}), **self.entry}):
            raise Refused(
                f"[{self._name()}] can't be added to {self.table} as it is written there; {advice}"
            )
        return added

    def take(self, text: str) -> str:
        """Return the text without the server."""
        server = self._servers(text).get(ENTRY)
        if server is None:
            return text
        start, end = self._span(text)
        if tomllib.loads(text[start:end]) != {self.table: {ENTRY: server}}:
            raise Refused(f"[{self._name()}] stands among other things; take it out by hand")
        return _cut(text, start, end)

    @property
    def key(self) -> str:
        """The name of the table."""
        return self._name()

    @property
    def refusal(self) -> str:
        """The line for a person who has a server of this name."""
        return SERVER_REFUSAL

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the server that stands in the text is one that setup wrote."""
        server = self._servers(text).get(ENTRY)
        return is_server_of_setup(server, self.entry, additions_allowed=additions_allowed)

    def span(self, text: str) -> tuple[int, int] | None:
        """Return where the table stands in the text, or None."""
        return self._span(text) if ENTRY in self._servers(text) else None

    def found_in(self, text: str) -> TomlServer:
        """Return this edit with our values from the text."""
        entry = self._servers(text).get(ENTRY)
        if not isinstance(entry, dict):
            return self
        return replace(self, entry={key: entry[key] for key in self.entry if key in entry})

    def words_in(self, text: str) -> list[str]:
        """Return the command line of the server that stands in the text; empty: there is none."""
        return words_of(self._servers(text).get(ENTRY))

    def _name(self) -> str:
        return f"{self.table}.{ENTRY}"

    def _servers(self, text: str) -> dict[str, Any]:
        """Return the servers that a text names; other tables are not parsed."""
        servers: dict[str, Any] = self._parsed(_about(text, self.table))[self.table]
        return servers

    def _parsed(self, text: str) -> dict[str, Any]:
        """Return the value of a text, with an empty table of servers if it has none."""
        value = {self.table: {}, **_loaded(text)}
        if not isinstance(value[self.table], dict):
            raise InvalidInput(f"{self.table} is not a table")
        return value

    def _differs_by(self, before: str, after: str, server: dict[str, Any]) -> bool:
        """Whether two texts have the same data, but for our server, which the second one has."""
        try:
            old, new = self._parsed(before), self._parsed(after)
        except InvalidInput:  # one of them was valid, and the edit broke it
            return False
        return new == {**old, self.table: {**old[self.table], ENTRY: server}}

    def _with_value(self, text: str, key: str) -> str:
        """Return the text with our value of a key that has a line; the rest of that line stays."""
        start, end = self._span(text)
        line = re.compile(rf"[ \t]*{key}[ \t]*=[ \t]*")
        matches = (line.match(text, at) for at in _statements(text) if start < at < end)
        at = next((match.end() for match in matches if match), None)
        if at is None:
            return text
        return text[:at] + _toml(self.entry[key]) + text[_end_of_value(text, at) :]

    def _span(self, text: str) -> tuple[int, int]:
        span = _span_of_table(text, (self.table, ENTRY))
        if span is None:
            raise Refused(f"{self._name()} is not a table of its own; change it by hand")
        return span


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

    @property
    def refusal(self) -> str:
        """The line for a person who wrote between the comments."""
        return (
            f"between the comments {ENTRY}:begin and {ENTRY}:end is more than 'bus setup' writes;"
            " move it out of them, and try again"
        )

    def is_of_setup(self, text: str, *, additions_allowed: bool) -> bool:
        """Whether the section that stands in the text is one that setup wrote."""
        there = self.found_in(text).body
        return there == self.body or _digest(there) in _BODIES

    def found_in(self, text: str) -> Section:
        """Return this edit with the body of the section in the text."""
        span = self.span(text)
        lines = text[slice(*span)].splitlines()[1:-1] if span else None
        return self if lines is None else replace(self, body="".join(f"{line}\n" for line in lines))

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
    """Append a block after an empty line, or at once where the last line has no end.

    `_cut` is the inverse: the text before can be derived from the text after.
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=4)
def _loaded(text: str) -> dict[str, Any]:
    """Return the value of a text, which callers must not change: a long one takes seconds.

    Raises:
        InvalidInput: it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also of a number with too many digits
        raise InvalidInput(f"no valid TOML: {error}") from error
    except RecursionError as error:
        raise InvalidInput("a value is nested too deeply") from error


#: The parts of a text of TOML that tell where a statement begins. A string without an end goes as
#: far as it can: else each quote in it would be looked behind.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\Z)|'
    r"'''.*?(?:'{3,5}|\Z)|"
    r'"(?:[^"\\\n]|\\.)*"?|'
    r"'[^'\n]*'?|#[^\n]*|[\[\]{}\n]",
    re.DOTALL,
)


#: A hundred parts of a key, where strings are one letter each.
_DEEP_KEY = re.compile(r"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){100}")


def refuse_deep_keys(text: str) -> None:
    """Refuse a key of more parts than any program reads: the time for one grows by the square.

    Raises:
        InvalidInput: there is one.
    """
    outline = _TOKEN.sub(lambda token: "x" if token[0][0] in "\"'" else token[0], text)
    if _DEEP_KEY.search(outline):
        raise InvalidInput("a key is nested too deeply")


@lru_cache(maxsize=4)
def _statements(text: str) -> tuple[int, ...]:
    """Return where each line of TOML begins that is not inside of a value."""
    depth, starts = 0, [0]
    for token in _TOKEN.finditer(text):
        kind = token[0]
        if kind == "\n":
            if not depth:
                starts.append(token.end())
        elif kind in "[{":
            depth += 1
        elif kind in "]}":
            depth -= 1
    return tuple(starts)


def end_of_statement(text: str, start: int) -> int:
    """Return where the statement of TOML that begins there ends, with the end of its line."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] == "\n" and depth <= 0:
            return token.end()
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
    return len(text)


#: The header of a table or a list of tables, and the first part of its name where that is bare.
_HEADER = re.compile(r"[ \t]*\[\[?[ \t]*([\w-]*)")


@lru_cache(maxsize=4)
def _about(text: str, table: str) -> str:
    """Return the parts of a text before its first table, and in a table and its subtables.

    The rest may be megabytes, which would take the parser seconds.

    Raises:
        InvalidInput: a key has more parts than any program reads.
    """
    refuse_deep_keys(text)
    parts, begin, is_kept = [], 0, True
    for at in _statements(text):
        start = _HEADER.match(text, at)
        if start is None:
            continue
        first = start[1] or next(iter(header(text, at)), "")  # a quoted one
        if (first == table) != is_kept:
            if is_kept:
                parts.append(text[begin:at])
            begin, is_kept = at, not is_kept
    return "".join([*parts, text[begin:] if is_kept else ""])


@lru_cache(maxsize=4)
def _span_of_table(text: str, ours: tuple[str, str]) -> tuple[int, int] | None:
    """Return where a table begins, and where its last line that says something ends."""
    start = end = None
    for at, after in pairwise((*_statements(text), len(text))):
        line = text[at:after].lstrip(" \t\r\n")
        is_header = line.startswith("[") and (start is not None or ours[-1] in line)
        name = header(text, at) if is_header else None
        if start is None:
            start = end = at if name == ours else None
        elif name is not None and name[:2] != ours:
            break
        if start is not None and line and not line.startswith("#"):
            end = after
    return None if start is None or end is None else (start, end)


def header(text: str, at: int) -> tuple[str, ...]:
    """Return the name of the table, or list of tables, whose header is a line."""
    end = text.find("\n", at)
    try:
        value: Any = tomllib.loads(text[at : None if end < 0 else end].rstrip("\r"))
    except tomllib.TOMLDecodeError:
        return ()
    name = []
    while isinstance(value, dict) and value:
        ((key, value),) = value.items()
        name.append(key)
    return tuple(name)


def _end_of_value(text: str, start: int) -> int:
    """Return where the text or list of TOML that begins there ends; the text's end: it is none."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        kind = token[0][0]
        if not depth and (kind in "#\n" or token.start() != start):
            break
        depth += (kind in "[{") - (kind in "]}")
        if not depth:
            return token.end()
    return len(text)


def _block(name: str, entry: dict[str, Any]) -> str:
    """Return a table of TOML."""
    lines = [f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in entry.items())]
    return "".join(f"{line}\n" for line in lines)


def _toml(value: Any) -> str:
    """Return a text or a list of TOML."""
    # A TOML string has the escapes of a JSON string, and one that JSON leaves as it is: DEL. What
    # a person wrote, perhaps a date, is only compared.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
