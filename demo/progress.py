"""A worker's reports of its progress, and how often they are sent."""

from __future__ import annotations

import time

from .protocol import TASK_PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema.message.message import Message
    from ..subscribers.inboxes.session import Session

#: A worker speaks after this many tasks, or this many seconds, whichever comes first: a message
#: for each small file would only be noise.
EVERY_TASKS, EVERY_S = 25, 0.5

#: How much of the end of a path a heartbeat shows, in characters.
_SHOWN_PATH_CHARS = 200


class Progress:
    """One worker's progress, reported by its heartbeat and by messages to the coordinator.

    Args:
        me: the worker's session.
    """

    def __init__(self, me: Session) -> None:
        self._me = me
        self._finished = self._told_at_finished = 0
        self._told_at = 0.0
        self._is_idle = True

    def tell(self, task: Message, fraction: float) -> None:
        """Report the progress of a task, from 0 to 1, unless it was reported just now."""
        now = time.monotonic()
        recent = now - self._told_at < EVERY_S
        if recent and self._finished - self._told_at_finished < EVERY_TASKS:
            return
        self._told_at, self._told_at_finished = now, self._finished
        self._is_idle = False
        self._me.heart.update("working", task=_printable(task.payload["path"]), progress=fraction)
        self._me.reply(task, TASK_PROGRESS, {"progress": fraction, "finished": self._finished})

    def count(self) -> None:
        """Count a task that this worker has reported."""
        self._finished += 1

    def idle(self) -> None:
        """Report that there is nothing to do."""
        if not self._is_idle:
            self._me.heart.update("idle")
            self._is_idle = True


def _printable(path: str) -> str:
    """Return the end of a path as a heartbeat takes it: printable text."""
    end = path[-_SHOWN_PATH_CHARS:]
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in end)
