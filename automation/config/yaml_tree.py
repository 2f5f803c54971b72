"""A file of YAML as a tree that knows its lines, and the variables in its values.

Maps and lists are dicts and lists that know where each of their entries stands. A value that was
written without quotes is a `Plain`, whose type its use decides: so `on` stays text, and a version
1.10 does not become 1.1. Types are those of YAML 1.2 that JSON has. All faults of a file are found
in one run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from .values import Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

#: How many values a file has at most, aliases counted as often as they are used.
MAX_VALUES = 500_000
#: How deeply values may be nested.
MAX_DEPTH = 64

#: The key by which a map takes the entries of others.
_MERGE = "<<"

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
#: The length from which a number is text: no JSON would hold all of its digits.
_LONG = 19

#: A variable, and its form while its file is parsed: in braces it would be a map.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHIELDED = re.compile("\ue000([A-Za-z_][A-Za-z0-9_]*)\ue001")

#: A file and a line.
Spot = tuple[str, int]


class Plain(str):
    """A value that was written without quotes."""

    __slots__ = ()


class Map(dict[str, "Tree"]):
    """A map, and where each of its entries stands."""

    __slots__ = ("at",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.at: dict[str, Spot] = {}

    def copy(self) -> Map:
        """Return a map with the same entries in the same places."""
        copied = Map(self)
        copied.at = dict(self.at)
        return copied


class Items(list["Tree"]):
    """A list, and where each of its entries stands."""

    __slots__ = ("at",)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.at: list[Spot] = []


#: A value: text is a `Plain` or, where it was quoted, a `str`.
Tree = Map | Items | str


def typed(tree: Tree) -> object:
    """Return a value with its types, as dicts, lists and scalars of Python."""
    if isinstance(tree, Map):
        return {key: typed(value) for key, value in tree.items()}
    if isinstance(tree, Items):
        return [typed(value) for value in tree]
    return _scalar(tree) if isinstance(tree, Plain) else str(tree)


def is_null(tree: Tree) -> bool:
    """Tell whether a value is nothing: left empty, or written as null."""
    return isinstance(tree, Plain) and _NULL.fullmatch(tree) is not None


def place_of(tree: Tree, path: tuple[str | int, ...], default: Spot) -> Spot:
    """Return where the value stands that a path leads to, or the last of the path that is there."""
    for part in path:
        if isinstance(tree, Map) and part in tree:
            default = tree.at.get(str(part), default)
            tree = tree[str(part)]
        elif isinstance(tree, Items) and isinstance(part, int) and part < len(tree):
            default, tree = tree.at[part], tree[part]
        else:
            break
    return default


def _unshielded(text: str) -> str:
    return _SHIELDED.sub(r"${\1}", text) if "\ue000" in text else text


def _scalar(text: str) -> object:
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text, base) if len(text) < _LONG else str(text)
    return float(text) if _FLOAT.fullmatch(text) else str(text)


def parse(text: str, file: str) -> tuple[Map, list[Fault]]:
    """Return the map that a file holds, and all that is wrong with its form.

    Args:
        text: the file's text.
        file: its name, for places and faults.
    """
    reader = _TreeReader(file)
    try:
        shielded = _VARIABLE.sub("\ue000\\1\ue001", text)
        tree = reader.document(YAML(typ="safe", pure=True).parse(shielded))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        tree = reader.refuse(line, f"this is no YAML: {error.problem or error.context}")
    except (YAMLError, RecursionError, ValueError) as error:
        tree = reader.refuse(0, f"this is no YAML: {str(error).splitlines()[0]}")
    return tree, reader.faults


@dataclass(slots=True)
class _TreeReader:
    """Makes a tree of the events of a parser.

    Attributes:
        file: its name.
        faults: those that were met.
        anchors: by name, the value and how many values are in it; None while it is being read.
        count: how many values were read; each alias counts as all values of its anchor.
    """

    file: str
    faults: list[Fault] = field(default_factory=list)
    anchors: dict[str, tuple[Tree, int] | None] = field(default_factory=dict)
    count: int = 0

    def refuse(self, line: int, message: str, path: str = "") -> Map:
        self.faults.append(Fault(self.file, line, path, message))
        return Map()

    def document(self, events: Iterator[Any]) -> Map:
        tree: Tree | None = None
        for event in events:
            if isinstance(event, ScalarEvent | AliasEvent | SequenceStartEvent | MappingStartEvent):
                line = event.start_mark.line + 1
                if tree is not None:
                    return self.refuse(line, "a second document begins here; write one a file")
                tree = self._value(event, events, "", 0)
            elif isinstance(event, DocumentEndEvent) and tree is None:
                break
        if isinstance(tree, Map):
            return tree
        return Map() if tree is None or is_null(tree) else self.refuse(1, "write a map of settings")

    def _value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Tree:
        line = event.start_mark.line + 1
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            bound = f"more than {MAX_VALUES} values" if depth <= MAX_DEPTH else "too deeply nested"
            raise ValueError(f"{bound}, at line {line}")
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, line, path)
        if event.tag and not event.tag.startswith("tag:yaml.org,2002:"):
            self.refuse(line, f"the tag {event.tag} is not known; leave it out", path)
        count_before = self.count - 1  # without this value
        tree = self._written(event, events, path, depth)
        if event.anchor:
            self.anchors[event.anchor] = (tree, self.count - count_before)
        return tree

    def _written(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Tree:
        if isinstance(event, ScalarEvent):
            text = _unshielded(event.value)
            return Plain(text) if event.style is None else text
        if event.anchor:
            self.anchors[event.anchor] = None  # an alias inside of it would contain itself
        make = self._list if isinstance(event, SequenceStartEvent) else self._map
        return make(events, path, depth + 1)

    def _alias(self, anchor: str, line: int, path: str) -> Tree:
        target = self.anchors.get(anchor, (Plain(), 0))
        if target is None:
            return self.refuse(line, f"*{anchor} stands inside of itself", path)
        if anchor not in self.anchors:
            self.refuse(line, f"*{anchor} has no &{anchor} before it in this file", path)
        self.count += target[1]
        return target[0]

    def _list(self, events: Iterator[Any], path: str, depth: int) -> Items:
        items = Items()
        while not isinstance(event := next(events), SequenceEndEvent):
            items.at.append((self.file, event.start_mark.line + 1))
            items.append(self._value(event, events, f"{path}[{len(items)}]", depth))
        return items

    def _map(self, events: Iterator[Any], path: str, depth: int) -> Map:
        own, merged = Map(), []
        while not isinstance(event := next(events), MappingEndEvent):
            line = event.start_mark.line + 1
            key = self._key(event, events, path, depth)
            inner = f"{path}.{key}" if path else key
            value = self._value(next(events), events, inner, depth)
            if key == _MERGE:
                merged.append((value, line, inner))
            elif key in own:
                first = own.at[key][1]
                self.refuse(line, f"{key!r} stands twice, first at line {first}", inner)
            else:
                own[key] = value
                own.at[key] = (self.file, line)
        for value, line, inner in merged:
            self._merge(own, value, line, inner)
        return own

    def _key(self, event: Any, events: Iterator[Any], path: str, depth: int) -> str:
        if isinstance(event, ScalarEvent):
            self.count += 1
            return _unshielded(event.value)
        line = event.start_mark.line + 1
        self._value(event, events, path, depth)
        self.refuse(line, "a key must be a word", path)
        return ""

    def _merge(self, own: Map, value: Tree, line: int, path: str) -> None:
        """Take the entries of other maps that a map does not have itself; the first one wins."""
        sources = value if isinstance(value, Items) else [value]
        for source in sources:
            if not isinstance(source, Map):
                self.refuse(line, "<< takes the entries of a map; write <<: *NAME", path)
                continue
            for key, entry in source.items():
                if key not in own:
                    own[key] = entry
                    own.at[key] = source.at[key]


# Variables: `${NAME}` in values, filled after the files were verified and before types are decided.
#
# A filled value is one value, whatever it contains: a secret with a colon or a `#` stays whole.

#: The beginning of a line of a file of variables, up to the value.
_NAME = re.compile(r"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*")
#: A value in quotes, which may have several lines; in double ones a backslash may stand.
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\([nrt\"\\])")
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_COMMENT = re.compile(r"(?<=[ \t])#")
_BREAK = re.compile(r"\r\n|\n|\r")


def has_variable(text: str) -> bool:
    """Tell whether a value has a variable in it."""
    return _VARIABLE.search(text) is not None


@dataclass(frozen=True, slots=True)
class FilledTree:
    """A configuration with its variables filled.

    Attributes:
        tree: the configuration.
        used: the variables.
        faults: of those that are not defined, which stay as they are.
        unfilled: the text of each value with variables, as it stands in the files, by its path.
    """

    tree: Map
    used: dict[str, str]
    faults: list[Fault]
    unfilled: dict[str, str]


def fill(tree: Map, environ: Mapping[str, str]) -> FilledTree:
    """Return a configuration with its variables filled.

    What is not in use is left as it is: entries of the top whose names begin with `x-`, and the
    plugins that are disabled.
    """
    filler = _Filler(environ)
    return FilledTree(filler.map(tree, ""), filler.used, filler.faults, filler.unfilled)


def environment_of(text: str, file: str) -> tuple[dict[str, str], list[Fault]]:
    """Return the variables that a file of `NAME=value` lines defines, and its faults.

    It reads the forms that all readers of such files share: quotes, which keep blanks, `#` and line
    breaks, with escapes in double ones; and comments after a blank, or after the last quote. A `$`
    means nothing.
    """
    variables: dict[str, str] = {}
    faults = []
    text = text.removeprefix("\ufeff")
    number, at = 1, 0
    while at < len(text):
        begins = at
        if name := _NAME.match(text, at):
            value, at = _value(text, name.end())
            variables[name[1]] = value
        rest, at = _rest(text, at)
        if rest:
            why = (
                "only a comment may follow the last quote"
                if name
                else "write a variable as NAME=value"
            )
            faults.append(Fault(file, number, "", why))
        number += len(_BREAK.findall(text, begins, at))
    return variables, faults


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins at a place, and where it ends."""
    if quoted := _QUOTED.match(text, at):
        if quoted[2] is not None:
            return quoted[2], quoted.end()
        return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), quoted[1]), quoted.end()
    end = _end_of_line(text, at)
    comment = _COMMENT.search(text, at, end)
    return text[at : comment.start() if comment else end].rstrip(), end


def _rest(text: str, at: int) -> tuple[str, int]:
    """Return the rest of a line, "" where it is a comment; and where the next line begins."""
    end = _end_of_line(text, at)
    rest = text[at:end].strip()
    line_break = _BREAK.match(text, end)
    return "" if rest.startswith("#") else rest, line_break.end() if line_break else len(text)


def _end_of_line(text: str, at: int) -> int:
    line_break = _BREAK.search(text, at)
    return line_break.start() if line_break else len(text)


def _is_used(path: str, entry: Tree) -> bool:
    if path.startswith("x-"):
        return False
    parts = path.split(".")
    is_plugin = len(parts) == 2 and parts[0] == "plugins"
    return not (is_plugin and isinstance(entry, Map) and entry.get("enabled") == "false")


class _Filler:
    """Walks through a configuration, and collects faults on its way."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.faults: list[Fault] = []
        self.used: dict[str, str] = {}
        self.unfilled: dict[str, str] = {}
        self._environ = environ

    def map(self, tree: Map, path: str) -> Map:
        filled = Map()
        filled.at = tree.at
        for key, value in tree.items():
            inner = f"{path}.{key}" if path else key
            is_used = _is_used(inner, value)
            filled[key] = self._value(value, inner, tree.at[key]) if is_used else value
        return filled

    def _value(self, value: Tree, path: str, spot: Spot) -> Tree:
        if isinstance(value, Map):
            return self.map(value, path)
        if isinstance(value, Items):
            spots = enumerate(zip(value, value.at, strict=True))
            items = Items(self._value(entry, f"{path}[{n}]", at) for n, (entry, at) in spots)
            items.at = value.at
            return items
        if "${" not in value:
            return value
        if has_variable(value):
            self.unfilled[path] = str(value)
        text = _VARIABLE.sub(lambda match: self._variable(match[1], path, spot), value)
        return Plain(text) if isinstance(value, Plain) else text

    def _variable(self, name: str, path: str, spot: Spot) -> str:
        if name not in self._environ:
            message = f"the variable {name} is not defined; set it, or name a file that does in"
            self.faults.append(Fault(*spot, path, f"{message} environment_vars.include"))
            return f"${{{name}}}"
        value = self._environ[name]
        if path.startswith("plugins.") and not _is_text(value):
            self.faults.append(Fault(*spot, path, f"the variable {name} is not UTF-8"))
        return self.used.setdefault(name, value)


def _is_text(value: str) -> bool:
    """Whether a value can be written as JSON, as plugins read it; a secret may be any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
