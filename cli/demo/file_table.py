"""The table of the largest files, as wide as the terminal allows."""

from __future__ import annotations

from ..show import output
from .text import shortened, terminal_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...schema.message.message import Message

#: The columns of numbers: their headings, and the fields of a result.
_NUMBERS = {
    "bytes": "bytes",
    "lines": "lines",
    "words": "words",
    "longest line": "longest_line_bytes",
}

#: What a narrow terminal goes without, the least important first.
_LEFT_OUT_FIRST = ("longest line", "words", "by", "lines", "Python")

#: The names of files are shortened to no less than this, in characters: rather a column goes.
_MIN_FILE_COLUMNS = 24

#: What stands between two columns, in characters.
_GAP_COLUMNS = 2

_FILE = "file"


def print_files(results: Sequence[Message]) -> None:
    """Print a row for each result."""
    columns = _columns(results)
    width = terminal_columns()
    if width is not None:
        columns = fit(columns, width)
    aligned = [_aligned(heading, cells) for heading, cells in columns.items()]
    headings, *rows = zip(*aligned, strict=True)
    output.table(headings, rows)


def fit(columns: dict[str, list[str]], width: int) -> dict[str, list[str]]:
    """Return the columns that fit into a width, with the names of files shortened if need be."""
    fitting = dict(columns)
    wanted = min(_width(_FILE, columns[_FILE]), _MIN_FILE_COLUMNS)
    for least in _LEFT_OUT_FIRST:
        if _left_for_files(fitting, width) >= wanted:
            break
        fitting.pop(least)
    left = max(_left_for_files(fitting, width), len(_FILE))
    fitting[_FILE] = [shortened(path, left) for path in columns[_FILE]]
    return fitting


def _columns(results: Sequence[Message]) -> dict[str, list[str]]:
    numbers = {
        heading: [f"{result.payload[name]:,}" for result in results]
        for heading, name in _NUMBERS.items()
    }
    return {
        _FILE: [output.visible(result.payload["path"]) for result in results],
        **numbers,
        "Python": [result.payload["python"] or "" for result in results],
        "by": [result.from_agent for result in results],
    }


def _aligned(heading: str, cells: list[str]) -> list[str]:
    """Return a column with its heading, numbers to the right."""
    width = _width(heading, cells) if heading in _NUMBERS else 0
    return [cell.rjust(width) for cell in (heading, *cells)]


def _width(heading: str, cells: list[str]) -> int:
    return max(map(len, (heading, *cells)))


def _left_for_files(columns: dict[str, list[str]], width: int) -> int:
    others = (heading for heading in columns if heading != _FILE)
    return width - sum(_width(heading, columns[heading]) + _GAP_COLUMNS for heading in others)
