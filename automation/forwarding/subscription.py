"""Subscriptions: readers that follow the whole log by types, each with a cursor of its own."""

from __future__ import annotations

import logging
from itertools import islice

from ...bus.log.filters import Wanted
from ...schema.errors import MailArchived, Refused
from ...schema.message.patterns import TypePattern
from ...subscribers.inboxes.failed_deliveries import Deliveries
from ...subscribers.inboxes.inbox import MAX_DELIVERIES, Inbox
from ...subscribers.inboxes.mail import Look, Mail
from ...subscribers.inboxes.polling_pace import POLL_LIMIT
from ...subscribers.starts import BEGINNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.inboxes.cursors import Cursors
    from ...subscribers.options import Start

#: After how many messages of other types the cursor is moved past them.
_STEP = 500

_log = logging.getLogger("ackbus.forward")


class Subscription(Inbox):
    """An inbox of all messages of some types, whoever they are for, and work too.

    Args:
        bus: an open bus.
        name: of the subscription, a reader as agents are: it needs a name of its own.
        types: type patterns; none are all types.
        max_deliveries, retry_pause_s: as for `Inbox`.
    """

    def __init__(
        self,
        bus: Bus,
        name: str,
        types: Sequence[str] = (),
        *,
        max_deliveries: int = MAX_DELIVERIES,
        retry_pause_s: float = 1.0,
    ) -> None:
        super().__init__(bus, name, max_deliveries=max_deliveries, retry_pause_s=retry_pause_s)
        self._mail = _Matching(bus, name, self._cursors, Wanted(tuple(types) or None))

    def join(self, *, start: Start = BEGINNING) -> None:
        """Become a reader, as `Inbox.join` does.

        Raises:
            Refused: the name is an agent's, whose cursor this would move past its mail.
        """
        name = self.agent
        is_alive = self.bus.heartbeats.get(name) is not None
        if is_alive or next(self.bus.read(from_agent=name), None) is not None:
            raise Refused(f"{name!a} is the name of an agent, which would miss mail; take another")
        super().join(start=start)

    def fail(self, message: Message, error: str) -> bool:
        """Record a failure, as `Inbox.fail` does, and log that a message is parked."""
        is_parked = self._count(message, error, self.max_deliveries)
        if is_parked:
            see = f"see 'bus parked list {self.agent}'"
            _log.error("message %s is parked: %s; %s", message.seq, error, see)
        return is_parked

    def _look(self, limit: int = POLL_LIMIT, wanted: TypePattern | None = None) -> Look:
        """Look, and move the cursor past what is of other types, now and then."""
        newest = self.bus.log.newest_seq()  # before the look, which goes at least as far
        look = super()._look(limit, wanted)
        if not look.messages and newest - look.cursor >= _STEP:
            self.ack(newest)
        return look

    def _begin(self) -> None:
        """Begin to deliver, alone; a message on which the last process died counts as a failure."""
        with self.bus.transaction():
            self.join()
            other = self._deliveries.begin_loop(self.agent)
            if other is not None and other[1]:
                raise Refused(f"process {other[0]} delivers for {self.agent!a} already")
        for message in self.poll(limit=1) if other is not None else ():
            self._count(message, "the process that handled it died", max(2, self.max_deliveries))

    def _leave(self, message: Message) -> None:
        """Leave a message as it is: its delivery was broken off by a stop, and has not failed."""


class _Matching(Mail):
    """The messages of some types after a cursor, in place of an agent's mail."""

    def __init__(self, bus: Bus, name: str, cursors: Cursors, types: Wanted) -> None:
        deliveries = Deliveries.of(bus)
        super().__init__(bus, name, cursors, deliveries, own_broadcasts=True, with_work=True)
        self._types = types

    def look(self, limit: int, wanted: TypePattern | None) -> Look:
        """Return up to `limit` messages, requeued ones too, and how the subscription stands.

        Raises:
            MailArchived: some after the cursor were discarded.
        """
        cursor = self._cursors.position(self._agent)
        found = self._requeued(limit) + self.after(cursor, limit)
        discarded = self._cursors.discarded_upto()  # now: they may have gone meanwhile
        if cursor < discarded:
            raise MailArchived(self._agent, cursor, discarded, discarded)
        if wanted is not None:
            found = [message for message in found if wanted.matches(message.type)]
        return Look(found[:limit], cursor, has_failures=True)

    def after(self, seq: int, limit: int) -> list[Message]:
        """Return up to `limit` messages after a seq, without requeued ones."""
        return list(islice(self._log.find(self._types, after_seq=seq), limit))
