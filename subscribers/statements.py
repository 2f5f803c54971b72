"""The statements of this room, ready to run."""

from __future__ import annotations

from ..schema import Queries

SQL = Queries(beside=__file__)
