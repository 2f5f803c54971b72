"""Mail: the unread messages of one agent."""

from __future__ import annotations

from functools import partial
from itertools import islice

from ...schema.message.message import Message, message_of
from ...schema.paging import pages, seq_of
from ...schema.queries import engine_of
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus
    from ...schema.message.patterns import TypePattern
    from .failed_deliveries import Cursors, Deliveries

#: How many messages a poll returns by default.
POLL_LIMIT = 100

#: How many messages a look that filters reads at a time.
_FILTERED_PAGE = 500

#: For SQL: all of them. Requeued messages are as few as a person asked for by hand.
NO_LIMIT = -1

#: For SQL: the sender whose broadcasts are hidden, where none are. No agent is named "".
_NOBODY = ""


class InboxView:
    """The result of a look into an inbox.

    Attributes:
        messages: the unread messages, in order of seq.
        cursor: the last seq that the agent had acknowledged.
        has_failures: whether any messages of the agent are to be delivered again.
    """

    __slots__ = ("cursor", "has_failures", "messages")

    def __init__(self, messages: list[Message], cursor: int, has_failures: bool) -> None:
        self.messages, self.cursor, self.has_failures = messages, cursor, has_failures


class MailReader:
    """The unread messages of one agent. Looking changes nothing.

    Args:
        bus: an open bus.
        agent: the agent.
        cursors, deliveries: of the bus.
        own_broadcasts, with_work: as for `Inbox`.
        broadcasts: whether broadcasts are among the messages.
    """

    def __init__(
        self,
        bus: LocalBus,
        agent: str,
        cursors: Cursors,
        deliveries: Deliveries,
        *,
        own_broadcasts: bool,
        with_work: bool,
        broadcasts: bool = True,
    ) -> None:
        self._log = bus.log
        self._blobs = bus.blobs
        self._engine = engine_of(bus)
        self._agent = agent
        self._cursors = cursors
        self._deliveries = deliveries
        self._hidden = _NOBODY if own_broadcasts else agent
        self._is_plain = broadcasts and not with_work
        chosen = "chosen_mail" if broadcasts else "addressed_mail"
        self._statement = SQL["mail_and_work" if with_work else chosen]

    def look(self, limit: int, pattern: TypePattern | None) -> InboxView:
        """Return up to `limit` messages, also requeued ones, and the state of the inbox.

        Few agents filter broadcasts, or have received messages that their cursors have not passed.
        The state of the inbox shows whether the agent is one of them; only then a statement is run
        that checks each message for both.

        Raises:
            MailArchived: some messages that wait were archived.
        """
        size = max(limit, _FILTERED_PAGE) if pattern else limit
        if self._is_plain:
            rows = self._engine.rows(SQL["mail"], (self._agent, size, self._hidden))
        else:
            rows = self._engine.rows(self._statement, (self._agent, size, self._hidden, 0))
        cursor, failing, requeued, chooses = self._cursors.standing(self._agent)
        if chooses and self._is_plain:
            self._is_plain = False  # the other statement is right for every agent: no way back
            return self.look(limit, pattern)
        messages = page = [message_of(row, self._blobs) for row in rows]
        if requeued:  # each was parked by a cursor that went past it
            messages = self._requeued(NO_LIMIT if pattern else limit) + page
        if pattern:
            messages = [message for message in messages if pattern.matches(message.type)]
            if len(messages) < limit and len(page) == size:
                messages += self._more(page[-1].seq, size, limit - len(messages), pattern)
        return InboxView(messages[:limit], cursor, failing or requeued)

    def _more(self, seq: int, size: int, limit: int, pattern: TypePattern) -> list[Message]:
        look = partial(self.after, limit=size)
        waiting = (m for page in pages(look, seq, size, place=seq_of, what="mail") for m in page)
        return list(islice((m for m in waiting if pattern.matches(m.type)), limit))

    def after(self, seq: int, limit: int) -> list[Message]:
        """Return up to `limit` messages that wait above a seq, without requeued messages.

        Raises:
            MailArchived: as for `look`.
        """
        rows = self._engine.rows(self._statement, (self._agent, limit, self._hidden, seq))
        self._cursors.standing(self._agent)
        return [message_of(row, self._blobs) for row in rows]

    def _requeued(self, limit: int) -> list[Message]:
        seqs = self._deliveries.requeued(self._agent, limit)
        # A message that can't be read must not keep other mail back.
        return [message for seq in seqs if (message := self._log.readable(seq)) is not None]
