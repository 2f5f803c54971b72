"""Loads a room's `queries.sql`: statements that are named, described, and found by name."""

from __future__ import annotations

import os

#: The stored columns of a message, in the order in which every statement reads them.
COLUMNS = (
    "seq, id, ts_ms, from_agent, to_agent, type, correlation_id, in_reply_to, payload,"
    " payload_ref, priority, headers"
)


class Queries(dict[str, str]):
    """The statements of one file, by name.

    The file has `-- name: some_name` before each statement; the lines up to the next such line
    are the statement. In it, `{columns}` stands for the columns of a message.

    Raises:
        ValueError: a name stands twice, or text comes before the first name.
    """

    def __init__(self, beside: str, file: str = "queries.sql") -> None:
        super().__init__()
        path = os.path.join(os.path.dirname(beside), file)
        with open(path, encoding="utf-8") as lines:
            head, *parts = lines.read().split("-- name: ")
        if any(line and not line.startswith("--") for line in head.splitlines()):
            raise ValueError(f"{path}: text before the first '-- name:'")
        for part in parts:
            name, _, text = part.partition("\n")
            if name in self:
                raise ValueError(f"{path}: {name} stands twice")
            # Comments go: one after the last semicolon would be run as a statement of its own.
            sql = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
            self[name] = sql.strip().rstrip(";").replace("{columns}", COLUMNS)
