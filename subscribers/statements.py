"""The statements of this room, ready to run."""

from __future__ import annotations

from ..schema import COLUMNS, Queries

SQL = {name: sql.replace("{columns}", COLUMNS) for name, sql in Queries(beside=__file__).items()}
