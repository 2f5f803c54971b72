"""Texts of megabytes without the passages that our edits don't look at.

A program may keep its history in its configuration, and a text is read several times for each edit.
So edits are made in an abridged text, in which a marker stands for a long passage that is valid and
has nothing of ours; then the passages are put back. All that an edit looks at beside its own entry
is the same in both: line ends, indentation, and whether there is something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, groupby

from ..schema.errors import InvalidInput
from . import json_edits
from .json_edits import SPACE, JsonChild, Node, skip
from .record import ENTRY
from .text_edits import end_of_statement, header, refuse_deep_keys

#: The length of the shortest passage that is left out, in characters: parsing a shorter one takes
#: no time.
_SHORTEST = 4_000


@dataclass(frozen=True)
class Abridged:
    """A text without its long passages.

    Attributes:
        text: the text, with markers.
        passages: what they stand for, by their numbers.
        marker: the pattern of a marker.
    """

    text: str
    passages: tuple[str, ...] = ()
    marker: str = ""

    def whole(self, text: str) -> str:
        """Return a text that was made of the abridged one with the passages in their places."""
        if not self.passages:
            return text
        return re.sub(self.marker, lambda marker: self.passages[int(marker[1])], text)


@dataclass(frozen=True)
class _Cut:
    """A passage that is left out: its span, and the marker in its place, with {0} for its name."""

    start: int
    end: int
    marker: str


def _without(text: str, cuts: Iterator[_Cut], pattern: str) -> Abridged:
    """Leave out passages.

    Args:
        text: the text.
        cuts: the passages, in their order.
        pattern: the pattern of a marker, with {0} for what its names begin with.
    """
    base = next(name for name in map("passage{}-".format, count()) if name not in text)
    pieces, passages, at = list[str](), list[str](), 0
    for cut in cuts:
        if cut.end - cut.start >= _SHORTEST:
            pieces += [text[at : cut.start], cut.marker.format(f"{base}{len(passages)}")]
            passages.append(text[cut.start : cut.end])
            at = cut.end
    return Abridged("".join([*pieces, text[at:]]), tuple(passages), pattern.format(base))


# JSON ----------------------------------------------------------------------------------------

#: A marker: a member, or an item of an array.
_JSON_MARKER = r'(?:"{0}\d+": )?\["{0}(\d+)"\s*\]'


@lru_cache(maxsize=4)
def abridged_json(text: str, paths: frozenset[json_edits.Path]) -> Abridged:
    """Return JSON without long values beside our entries.

    Args:
        text: the text; one that is not valid is left as it is, for the edits to find fault with.
        paths: the paths to the objects and arrays that our entries are in.
    """
    if len(text) < _SHORTEST:
        return Abridged(text)
    try:
        root = json_edits.parse(text)
    except InvalidInput:
        return Abridged(text)
    return _without(text, _cuts_of_json(text, root, paths), _JSON_MARKER)


def _cuts_of_json(text: str, node: Node, paths: frozenset[json_edits.Path]) -> Iterator[_Cut]:
    """Yield the children of a node that are not ours, neighbours together."""
    children = _children(text, node, _scalar_run(paths))
    for onward, neighbours in groupby(children, lambda child: _paths_into(text, child, paths)):
        if onward is None:
            first, *rest = neighbours
            start, end = first.start, rest[-1].end if rest else first.end
            yield _Cut(start, end, _json_marker(text[start:end], node))
        elif onward:
            for child in neighbours:
                yield from _cuts_of_json(text, child.node, onward)


def _paths_into(
    text: str, child: JsonChild, paths: frozenset[json_edits.Path]
) -> frozenset[json_edits.Path] | None:
    """Return the rests of the paths into a child; none if it may be ours itself, None if not."""
    onward = frozenset(path[1:] for path in paths if path[:1] == (child.key,))
    is_container = () in paths  # a path ends here: our entries are in this node
    return onward if onward or (is_container and _may_be_ours(text, child)) else None


@lru_cache
def _scalar_run(paths: frozenset[json_edits.Path]) -> re.Pattern[str]:
    """Return the pattern of a run of scalar children that are on no path to our entries."""
    ours = "|".join(re.escape(json.dumps(path[0], ensure_ascii=False)) for path in paths if path)
    key = rf'(?!"{ENTRY}{f"|{ours}" if ours else ""})"[^"\\]*+"{SPACE}:{SPACE}'
    child = rf'(?:{key})?+(?:"(?:[^"\\]++|\\.)*+"(?!{SPACE}:)|[\w.+-]++)'
    return re.compile(rf"{child}(?:{SPACE},{SPACE}{child})*+")


def _children(text: str, node: Node, scalar_run: re.Pattern[str]) -> Iterator[JsonChild]:
    """Yield the children of a node; neighbours that a pattern passes over are one."""
    at = skip(text, node.start + 1)
    while node.read_child is not None and at < node.end - 1:
        run = scalar_run.match(text, at)
        child = JsonChild(at, Node(at, run.end(), None)) if run else node.read_child(at)
        yield child
        at = skip(text, child.end)
        at = skip(text, at + 1) if text[at] == "," else at


def _may_be_ours(text: str, child: JsonChild) -> bool:
    """Whether a member has a name of our servers, or an item may have a hook of ours."""
    if child.key is not None:
        return child.key.startswith(ENTRY)
    item = text[child.start : child.end]
    return " hook " in item or "\\u" in item  # an escape may spell a letter of " hook "


def _json_marker(passage: str, container: Node) -> str:
    """Return the marker of a passage: with its line ends, and the indentation of its last line."""
    name = '"{0}": ' if isinstance(container.value, dict) else ""
    _, newline, last = passage.rpartition("\n")
    indent = last[: len(last) - len(last.lstrip())] if newline else ""
    return f'{name}["{{0}}"{_line_ends(passage)}{indent}]'


def _line_ends(passage: str) -> str:
    """Return line ends for a marker: CRLF if the passage has any, and the last one that it has."""
    last = passage.rfind("\n")
    is_mixed = "\r\n" in passage and passage[last - 1] != "\r"
    return "\r\n\n" if is_mixed else "\r\n" if "\r\n" in passage else "\n" * (last >= 0)


# TOML ----------------------------------------------------------------------------------------
#
# The parser takes seconds for a megabyte, so statements beside our table are passed over by
# patterns. They match the usual forms of TOML, and nothing that is not valid: a statement of
# another form stays in the text, for the parser to judge. A name that is given twice is an error
# only where the parser reads both places. `++`, `*+` and `?+` give nothing back, so that a text is
# passed over once.

#: A marker: a comment in place of lines, or an empty table in place of tables.
_TOML_MARKER = r"(?:\#|\[){0}(\d+)\]?(?:\r\n\#)?"

#: Spaces in a line, and the end of a line.
_GAP, _END = r"[ \t]*+", r"\r?\n"

#: The characters that no comment has, and no string of one line.
_CONTROLS = r"\x00-\x08\x0a-\x1f\x7f"

#: A comment, and what stands between the items of an array.
_NOTE = rf"\#[^{_CONTROLS}]*+"
_SPACE = rf"(?:[ \t\n]++|\r\n|{_NOTE})*+"

#: An escape: of one letter, or of a character by its number, but not of half a pair.
_ESCAPE = r'\\(?:[btnfr"\\]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})'

#: A string of one line: "with escapes", or 'without'.
_BASIC = rf'"(?:[^"\\{_CONTROLS}]++|{_ESCAPE})*+"'
_LITERAL = rf"'[^'{_CONTROLS}]*+'"


def _lines(quote: str, backslash: str) -> str:
    """Return the pattern of a string of several lines, between three quotes and three others.

    Args:
        quote: the quote; one or two may stand in the string.
        backslash: the pattern of a backslash, with what belongs to it.
    """
    plain = rf"[^{quote}\\\x00-\x08\x0b-\x1f\x7f]++"
    return rf"{quote * 3}(?:{plain}|\r\n|{backslash}|{quote}{{1,2}}+(?!{quote}))*+{quote * 3}"


#: A string. The shorter forms come last: two quotes are the beginning of three.
_STRING = "|".join([_lines('"', _ESCAPE), _lines("'", r"\\"), _BASIC, _LITERAL])

#: A day: the 28 of each month, then the 29th and 30th of all but one, then the 31st.
_DAY = (
    r"(?!0000)[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)

#: A time of day, and a zone by its distance; a day alone, or with a time, or with both.
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6}+)?+"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_DATE = rf"{_DAY}(?:[T ]{_TIME}{_ZONE}?+)?+"

#: A decimal number, with a fraction and an exponent. Python reads no number of 5,000 digits.
_DIGITS = r"(?:_?[0-9]){0,99}+"
_NUMBER = rf"[+-]?(?:0|[1-9]{_DIGITS})(?:\.[0-9]{_DIGITS})?+(?:[eE][+-]?[0-9]{_DIGITS})?+"

#: A value without others in it. A date comes before a number: it begins with one.
_SCALAR = rf"(?:{_STRING}|true|false|{_DATE}|{_NUMBER})"

#: One part of a name, without escapes; and a name.
_KEY = rf'(?:[A-Za-z0-9_-]++|"[^"\\{_CONTROLS}]*+"|{_LITERAL})'
_NAME = rf"{_KEY}(?:{_GAP}\.{_GAP}{_KEY})*+"

#: The beginning of a header.
_BRACKET = re.compile(rf"{_GAP}\[")

#: How deep values within values are passed over.
_DEPTH = 3


def _value(depth: int) -> str:
    """Return the pattern of a value that has values within values up to a depth."""
    if not depth:
        return _SCALAR
    inner = _value(depth - 1)
    item, member = rf"{inner}{_SPACE}", rf"{_NAME}{_GAP}={_GAP}{inner}{_GAP}"
    array = rf"\[{_SPACE}(?:{item}(?:,{_SPACE}|(?=\])))*+\]"
    table = rf"\{{{_GAP}(?:{member}(?:,{_GAP}(?!\}})|(?=\}})))*+\}}"
    return rf"(?:{_SCALAR}|{array}|{table})"


@lru_cache(maxsize=1)
def _runs(table: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of lines of one table, and of whole tables, that have nothing of ours."""
    ours, entry = (rf"[\"']?{re.escape(name)}[\"']?{_GAP}" for name in (table, ENTRY))
    rest = rf"{_GAP}(?:{_NOTE})?+{_END}"
    line = rf"{_GAP}(?:(?!{ours}[.=]){_NAME}{_GAP}={_GAP}{_value(_DEPTH)})?+{rest}"
    is_ours = rf"{_GAP}{ours}(?:\]|\.{_GAP}{entry}[.\]])"
    name = rf"(?!{is_ours}){_GAP}{_NAME}{_GAP}"
    head = rf"{_GAP}(?:\[{name}\]|\[\[{name}\]\]){rest}"
    return re.compile(rf"(?:{line})++"), re.compile(rf"(?:{head}(?:{line})*+)++")


@lru_cache(maxsize=4)
def abridged_toml(text: str, table: str) -> Abridged:
    """Return TOML without the long passages that have nothing of our server.

    Args:
        text: the text.
        table: the name of the table that the server is in.

    Raises:
        InvalidInput: a key has more parts than any program reads.
    """
    if len(text) < _SHORTEST:
        return Abridged(text)
    refuse_deep_keys(text)
    return _without(text, _cuts_of_toml(text, table), _TOML_MARKER)


def _cuts_of_toml(text: str, table: str) -> Iterator[_Cut]:
    """Yield runs of tables that are not ours, and of lines in one and at the top."""
    lines, tables = _runs(table)
    at, is_ours = 0, False
    while at < len(text):
        run, marker = tables.match(text, at), "[{0}]"
        if run is None and not is_ours:
            run, marker = lines.match(text, at), "#{0}"
        if run is None:
            is_ours = _is_ours(text, at, table, previous=is_ours)
            at = end_of_statement(text, at)
            continue
        # The blank lines after a run stay in the text: setup may have put one before our table.
        end = run.start() + len(run[0].rstrip(" \t\r\n"))
        if end > run.start():
            # The marker keeps a CRLF, by which an edit chooses its line ends.
            line_end = "\r\n#" if "\r\n" in text[run.start() : end] else ""
            yield _Cut(run.start(), end, marker + line_end)
        at, is_ours = run.end(), False


def _is_ours(text: str, at: int, table: str, *, previous: bool) -> bool:
    """Whether a statement is in a table that may be ours.

    A header decides, one that can't be read too; another statement is in the table of the previous.
    """
    if not _BRACKET.match(text, at):
        return previous
    return header(text, at)[:1] in ((), (table,))
