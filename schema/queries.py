"""Statements, by their names in a room's `queries.sql`, and the classes that run them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from .engine import Engine, HasEngine
    from .sqlite.database import Database

#: The stored columns of a message, in the order in which every statement reads them.
COLUMNS = (
    "seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload,"
    " payload_ref, priority, headers"
)

#: Whether a message's {type} fits a {pattern}, where a `>` that is not alone follows no `*`.
_FITS = """({type} GLOB replace(replace(replace({pattern}, '[', '[[]'), '?', '[?]'), '>', '*')
  AND ({pattern} GLOB '*>' OR length({pattern}) - length(replace({pattern}, '.', ''))
                            = length({type}) - length(replace({type}, '.', ''))))"""

#: Whether GLOB takes more than a pattern means: a word stands between a `*` and a last `>`.
_TOO_WIDE = "{pattern} GLOB '*[*]*[^*.]*.>'"

#: Whether a queue hides a message: then it is work, and no mail.
_IS_WORK = """(EXISTS (SELECT 1 FROM {queues}
  WHERE pattern = {type} AND hides <> 'none'
    AND ({to_agent} IS NULL OR {to_agent} = addressed))
 OR EXISTS (SELECT 1 FROM {queues}
  WHERE hides = 'all' AND ({to_agent} IS NULL OR {to_agent} = addressed)
    AND {fits}))"""


def fits_pattern(type: str, pattern: str) -> str:
    """Return the SQL condition that a type fits a pattern; both are given as SQL."""
    return _FITS.replace("{type}", type).replace("{pattern}", pattern)


def is_too_wide(pattern: str) -> str:
    """Return the SQL condition that a pattern, given as SQL, is beyond `fits_pattern`."""
    return _TOO_WIDE.replace("{pattern}", pattern)


def is_work(type: str, to_agent: str, queues: str = "queues") -> str:
    """Return the SQL condition that a message is work. No other code defines that.

    Args:
        type, to_agent: of the message, as SQL.
        queues: the queues that count, as SQL: a table.
    """
    parts = {"fits": fits_pattern(type, "pattern"), "queues": queues}
    return _IS_WORK.format(type=type, to_agent=to_agent, **parts)


class Queries(dict[str, str]):
    """The statements of one file, by name.

    The file has `-- name: some_name` before each statement; the lines up to the next such line
    are the statement. In it, `{columns}` stands for the columns of a message.

    Args:
        beside: a file in the folder of the statements.
        file: the name of their file.
        parts: what else stands in for what, in this order.

    Raises:
        ValueError: a name stands twice, or text comes before the first name.
    """

    def __init__(
        self, beside: str, file: str = "queries.sql", *, parts: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        path = os.path.join(os.path.dirname(beside), file)
        with open(path, encoding="utf-8") as source:
            whole = source.read().replace("{columns}", COLUMNS)
        for part, meaning in (parts or {}).items():
            whole = whole.replace(part, meaning)
        head, *statements = whole.split("-- name: ")
        if any(line and not line.startswith("--") for line in head.splitlines()):
            raise ValueError(f"{path}: text before the first '-- name:'")
        for statement in statements:
            name, _, text = statement.partition("\n")
            if name in self:
                raise ValueError(f"{path}: {name} stands twice")
            # Comments go: one after the last semicolon would be run as a statement of its own.
            if "--" in text:
                text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
            self[name] = text.strip().rstrip(";")


class Table:
    """A class that owns tables: it alone runs statements on them.

    It neither opens the engine nor closes it, and keeps nothing that the tables don't.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def of(cls, bus: HasEngine) -> Self:
        """Return the table of an open bus."""
        return cls(bus._engine)


def engine_of(bus: HasEngine) -> Engine:
    """Return the engine under a bus, for what the rooms build on it; the doors need none."""
    return bus._engine


def file_of(bus: HasEngine) -> Database:
    """Return the file of SQLite that a bus is, to examine it, keep it up, copy or mend it.

    An engine that is not one file has no part in these: its own tools do that.
    """
    return bus._file
