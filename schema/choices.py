"""The words that a bus is set by, for type checkers."""

from __future__ import annotations

from typing import Literal

#: How durable a commit is.
Durability = Literal["normal", "full"]
