"""Mail: the unread messages of one agent."""

from __future__ import annotations

from itertools import islice

from ...schema.message.message import Message, message_of
from ...schema.paging import pages, seq_of
from ...schema.queries import engine_of
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.patterns import TypePattern
    from .cursors import Cursors
    from .failed_deliveries import Deliveries

#: How many messages a look that filters reads at a time.
_FILTERED_PAGE = 500

#: For SQL: all of them. Requeued messages are as few as a person asked for by hand.
NO_LIMIT = -1

#: For SQL: whose broadcasts are hidden, where nobody's are. Nobody is named "".
_NOBODY = ""


class Look:
    """The result of a look into an inbox.

    Attributes:
        messages: the unread messages, in order of seq.
        cursor: the last seq that the agent had acknowledged.
        has_failures: whether any messages of the agent are to be delivered again.
    """

    __slots__ = ("cursor", "has_failures", "messages")

    def __init__(self, messages: list[Message], cursor: int, has_failures: bool) -> None:
        self.messages, self.cursor, self.has_failures = messages, cursor, has_failures


class Mail:
    """The unread messages of one agent. Looking changes nothing.

    Args:
        bus: an open bus.
        agent: the agent.
        cursors, deliveries: of the bus.
        own_broadcasts, with_work: as for `Inbox`.
        broadcasts: whether broadcasts are among them.
    """

    def __init__(
        self,
        bus: Bus,
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

    def look(self, limit: int, wanted: TypePattern | None) -> Look:
        """Return up to `limit` messages, requeued ones too, and how the agent stands.

        Few agents say what they want, or received what is still before their cursors. How they
        stand shows it; then the statement that looks at each message for that is run instead.

        Raises:
            MailArchived: some that wait were archived.
        """
        size = max(limit, _FILTERED_PAGE) if wanted else limit
        if self._is_plain:
            rows = self._engine.rows(SQL["mail"], (self._agent, size, self._hidden))
        else:
            rows = self._engine.rows(self._statement, (self._agent, size, self._hidden, 0))
        cursor, failing, requeued, chooses = self._cursors.standing(self._agent)
        if chooses and self._is_plain:
            self._is_plain = False  # the other statement is right for every agent: no way back
            return self.look(limit, wanted)
        found = page = [message_of(row, self._blobs) for row in rows]
        if requeued:  # each was parked by a cursor that went past it
            found = self._requeued(NO_LIMIT if wanted else limit) + page
        if wanted:
            found = [message for message in found if wanted.matches(message.type)]
            if len(found) < limit and len(page) == size:
                found += self._more(page[-1].seq, size, limit - len(found), wanted)
        return Look(found[:limit], cursor, failing or requeued)

    def _more(self, seq: int, size: int, limit: int, wanted: TypePattern) -> list[Message]:
        more = pages(lambda after: self.after(after, size), seq, size, place=seq_of, what="mail")
        waiting = (message for page in more for message in page)
        return list(islice((each for each in waiting if wanted.matches(each.type)), limit))

    def after(self, seq: int, limit: int) -> list[Message]:
        """Return up to `limit` messages that wait above a seq, without requeued ones.

        Raises:
            MailArchived: as for `look`.
        """
        rows = self._engine.rows(self._statement, (self._agent, limit, self._hidden, seq))
        self._cursors.standing(self._agent)
        return [message_of(row, self._blobs) for row in rows]

    def _requeued(self, limit: int) -> list[Message]:
        seqs = self._deliveries.requeued(self._agent, limit)
        # One that can't be read must not keep other mail back.
        return [message for seq in seqs if (message := self._log.readable(seq)) is not None]
