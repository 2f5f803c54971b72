"""Variables: `${NAME}` in values, filled after the files were verified and before types are told.

A filled value is one value, whatever it contains: a secret with a colon or a `#` stays whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..faults import Fault
from .yaml_tree import Items, Map, Plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .yaml_tree import Spot, Tree

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
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
class Filling:
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


def fill(tree: Map, environ: Mapping[str, str]) -> Filling:
    """Return a configuration with its variables filled.

    What is not in use is left as it is: entries of the top whose names begin with `x-`, and the
    plugins that are disabled.
    """
    filler = _Filler(environ)
    return Filling(filler.map(tree, ""), filler.used, filler.faults, filler.unfilled)


def environment_of(text: str, file: str) -> tuple[dict[str, str], list[Fault]]:
    """Return the variables that a file of `NAME=value` lines defines, and its faults.

    It reads what the readers of such files agree on: quotes, which keep blanks, `#` and line
    breaks, with escapes in double ones; and comments after a blank, or after the last quote. A `$`
    means nothing.
    """
    found: dict[str, str] = {}
    faults = []
    text = text.removeprefix("\ufeff")
    number, at = 1, 0
    while at < len(text):
        begins = at
        if name := _NAME.match(text, at):
            value, at = _value(text, name.end())
            found[name[1]] = value
        rest, at = _rest(text, at)
        if rest:
            why = (
                "only a comment may follow the last quote"
                if name
                else "write a variable as NAME=value"
            )
            faults.append(Fault(file, number, "", why))
        number += len(_BREAK.findall(text, begins, at))
    return found, faults


def _value(text: str, at: int) -> tuple[str, int]:
    """Return the value that begins at a place, and where it ends."""
    if quoted := _QUOTED.match(text, at):
        if quoted[2] is not None:
            return quoted[2], quoted.end()
        return _ESCAPE.sub(lambda one: _ESCAPED.get(one[1], one[1]), quoted[1]), quoted.end()
    end = _end_of_line(text, at)
    comment = _COMMENT.search(text, at, end)
    return text[at : comment.start() if comment else end].rstrip(), end


def _rest(text: str, at: int) -> tuple[str, int]:
    """Return the rest of a line, which may be a comment: none; and where the next line begins."""
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
            used = _is_used(inner, value)
            filled[key] = self._value(value, inner, tree.at[key]) if used else value
        return filled

    def _value(self, value: Tree, path: str, spot: Spot) -> Tree:
        if isinstance(value, Map):
            return self.map(value, path)
        if isinstance(value, Items):
            spots = enumerate(zip(value, value.at, strict=True))
            items = Items(self._value(each, f"{path}[{n}]", at) for n, (each, at) in spots)
            items.at = value.at
            return items
        if "${" not in value:
            return value
        if has_variable(value):
            self.unfilled[path] = str(value)
        text = _VARIABLE.sub(lambda found: self._variable(found[1], path, spot), value)
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
    """Whether a value can be told in JSON, as plugins read it; a secret may be any bytes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
