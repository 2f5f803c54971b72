"""The groups of operations, and the first parts of their paths."""

from __future__ import annotations

from .autonomy import router as autonomy
from .completions import router as completions
from .jobs import router as jobs
from .message import router as message
from .requests import router as requests
from .sessions import router as sessions
from .streams import router as streams
from .system import router as system
from .workers import router as workers

ROUTERS = (
    *(requests, jobs, completions, workers, autonomy, message, system),
    *(sessions, streams),
)

#: The first parts of all their paths.
FAMILIES = frozenset(
    {"requests", "jobs", "completions", "workers", "autonomy", "message", "system"}
    | {"sessions", "approvals"}
)
