"""The statements of the log and of what belongs to it, ready to run."""

from __future__ import annotations

from ..schema.queries import Queries, is_work

SQL = Queries(beside=__file__)
SQL["append"] = SQL["append"].replace("{is_work}", is_work(type="?5", to_agent="?4"))
