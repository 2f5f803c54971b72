"""The words of other systems for the states and priorities of this one: one table.

Stored is the bus's own word. The views of the schema say the same in SQL; a test compares them.
"""

from __future__ import annotations

from types import MappingProxyType

from ...schema.message.priority import PRIORITY_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...subscribers.options import JobState

_ENDED_BADLY: tuple[JobState, ...] = ("failed", "timed_out", "dead", "cancelled")

_REQUESTS: dict[JobState, str] = {
    "queued": "pending",
    "running": "claimed",
    "succeeded": "completed",
    **dict.fromkeys(_ENDED_BADLY, "failed"),
}

#: By the view: the word for each state of a job.
STATES: Mapping[str, Mapping[JobState, str]] = MappingProxyType(
    {
        "requests": _REQUESTS,
        "jobs": _REQUESTS,
        "completions": {**_REQUESTS, "succeeded": "processed"},
        "merge queue": {
            "queued": "queued",
            "running": "running",
            "succeeded": "success",
            **dict.fromkeys(_ENDED_BADLY, "failed"),
            "cancelled": "skipped",
        },
        "plugins": {
            "queued": "queued",
            "running": "running",
            "succeeded": "succeeded",
            "failed": "failed",
            "timed_out": "timed_out",
            "dead": "dead",
            "cancelled": "dead",
        },
    }
)

#: The words of PushPals for the statuses of a worker's heartbeat.
WORKERS = MappingProxyType({"working": "busy", "blocked": "busy", "stopped": "offline"})

#: The statuses of a worker that PushPals knows; any other word counts as the first.
WORKER_STATUSES = ("idle", "busy", "error", "offline")


def status_of(view: str, state: JobState) -> str:
    """Return a view's word for the state of a job."""
    return STATES[view][state]


def states_of(view: str, status: str) -> tuple[JobState, ...]:
    """Return the states that a view's word stands for; none for a word that it does not have."""
    return tuple(state for state, word in STATES[view].items() if word == status)


def statuses(view: str) -> tuple[str, ...]:
    """Return the words of a view, in the order of the states."""
    return tuple(dict.fromkeys(STATES[view].values()))


def worker_status(status: object) -> str:
    """Return PushPals' word for the status of a heartbeat."""
    word = WORKERS.get(status, status) if isinstance(status, str) else None
    return word if word in WORKER_STATUSES else WORKER_STATUSES[0]


def priority_of(word: object) -> int:
    """Return the priority that a word stands for; what is missing or unknown is normal."""
    text = word.strip().lower() if isinstance(word, str) else ""
    return PRIORITY_NAMES.index(text) if text in PRIORITY_NAMES else 1
