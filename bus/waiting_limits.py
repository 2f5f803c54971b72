"""Backpressure: limits of the messages that wait in a queue or an inbox.

The limits are kept by triggers, so that they hold for programs with their own SQL too; with no
limit set they cost a publisher next to nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..schema.arguments import with_checked_arguments
from ..schema.errors import InvalidInput, LimitReached, NotFound, shown
from ..schema.message.names import MAX_COUNT, check_agent
from ..schema.message.patterns import TypePattern
from ..schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..schema.message.message import Receipt
    from .options import LimitKind

#: The kinds of places that may have a limit.
QUEUE, INBOX = "queue", "inbox"

#: How often a publisher that waits for room tries again, in seconds. Making room rings no bell.
_LOOK_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class WaitingLimit:
    """A limit.

    Attributes:
        kind: `queue` or `inbox`.
        name: the queue or the agent.
        max_waiting: how many messages may wait there.
        waiting: how many do now.
    """

    kind: LimitKind
    name: str
    max_waiting: int
    waiting: int


@with_checked_arguments
class WaitingLimits(Table):
    """The limits of what waits: the table `waiting_limits`."""

    def set_for_inbox(self, agent: str, max_waiting: int) -> None:
        """Limit the messages to an agent that wait for its acknowledgement.

        Further messages are refused. Broadcasts are not: one slow agent must not silence all
        senders. Nor are answers (`in_reply_to`): the asker wants them, and no worker must wait
        for one agent that does not read.

        Raises:
            InvalidInput: an argument breaks a rule.
        """
        check_agent(agent)
        self._set(INBOX, agent, max_waiting, 0, None, None)

    def set_for_queue(self, name: str, pattern: str, max_waiting: int, waiting: int) -> None:
        """Limit the messages that wait in a queue; called by `Queue.limit`.

        Args:
            name: the queue.
            pattern: the types that it takes in.
            max_waiting: the limit.
            waiting: how many wait now; from here on triggers count.

        Raises:
            InvalidInput: an argument breaks a rule.
        """
        self._set(QUEUE, name, max_waiting, waiting, *TypePattern(pattern).as_glob())

    def clear(self, kind: LimitKind, name: str) -> None:
        """Remove a limit.

        Raises:
            InvalidInput: there are no limits of this kind.
            NotFound: there is none.
        """
        if kind not in (QUEUE, INBOX):
            raise InvalidInput(f"kind must be {QUEUE} or {INBOX}, not {shown(kind)}")
        if not self._engine.change(SQL["clear_limit"], (kind, name)):
            raise NotFound(f"{kind} {name!r} has no limit; see 'bus limit list'")

    def list(self) -> list[WaitingLimit]:
        """Return all limits, by kind and name."""
        return [WaitingLimit(*row) for row in self._engine.rows(SQL["limits"])]

    def reached_by(self, type: str, to_agent: str | None) -> LimitReached | None:
        """Return the error for a message that has no room, or None when there is room for it."""
        for limit in self.list():
            if limit.waiting < limit.max_waiting:
                continue
            if limit.kind == INBOX:
                is_meant = limit.name == to_agent
            else:
                counted = (limit.name, type, to_agent)
                is_meant = bool(self._engine.value(SQL["limit_counts"], counted))
            if is_meant:
                return LimitReached(limit.kind, limit.name, limit.max_waiting)
        return None

    def _set(
        self,
        kind: str,
        name: str,
        max_waiting: int,
        waiting: int,
        glob: str | None,
        dots: int | None,
    ) -> None:
        if not 1 <= max_waiting <= MAX_COUNT:
            raise InvalidInput(f"a limit is a whole number of at least 1, not {max_waiting!r}")
        self._engine.change(SQL["set_limit"], (kind, name, max_waiting, waiting, glob, dots))


def publish_when_there_is_room(
    publish: Callable[[], list[Receipt]], wait_s: float
) -> list[Receipt]:
    """Publish as soon as the limits allow it; blocks for at most `wait_s`.

    Raises:
        LimitReached: a limit was still reached at the end; nothing was stored.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return publish()
        except LimitReached:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise
        time.sleep(min(_LOOK_EVERY_S, left_s))
