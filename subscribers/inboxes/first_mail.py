"""The first mail of an agent that has acknowledged nothing yet: no years of broadcasts.

Tools and hooks show it its own mail, and the last broadcasts of the last day; they count the older
ones. `bus poll`, HTTP and Python begin at the first message, as plain SQL does.

Hooks load this module after every tool for which mail waits; the rest of `agents` they need not.
"""

from __future__ import annotations

from .failed_deliveries import Cursors
from .mail import InboxView, MailReader
from .seen_mail import SeenMailFile
from .session import inbox_of, only_addressed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...schema.message.patterns import TypePattern
    from .inbox import Inbox

#: How many broadcasts are shown at most, and how old the oldest may be, in milliseconds: a day.
_LAST, _DAY_MS = 20, 86_400_000

#: Up to how many older ones are counted.
COUNTED = 1000


class FirstMail:
    """The mail that is shown to an agent that has acknowledged nothing.

    Args:
        bus, agent, with_work: as for `Inbox`.
        cursor: where its page begins: None for the first page, "0" to ask for older broadcasts;
            any other cursor goes on as it began.

    Attributes:
        inbox: its inbox, without older broadcasts.
        older: how many older broadcasts there are, up to `COUNTED`; 0 for an agent with a cursor.
        first_seq: broadcasts below it are older; 0 where there are none.
    """

    __slots__ = ("first_seq", "inbox", "older")

    def __init__(
        self, bus: Bus, agent: str, *, with_work: bool = False, cursor: str | None = None
    ) -> None:
        self.inbox: Inbox = inbox_of(bus, agent, with_work=with_work)
        self.first_seq = self.older = 0
        is_told = cursor is None or (cursor != "0" and SeenMailFile(bus, agent).read().older)
        if self.inbox.position or not is_told:
            return
        since_ms = bus.now_ms() - _DAY_MS
        last = Cursors.of(bus).last_broadcasts(agent, _LAST)
        lately = [seq for seq, at_ms in last if at_ms >= since_ms]
        first = min(lately, default=bus.log.newest_seq() + 1)
        self.older = Cursors.of(bus).count_broadcasts(agent, first, COUNTED)
        if self.older:
            self.first_seq = first
            self.inbox._mail = _RecentMail(self.inbox._mail, only_addressed(self.inbox), first)

    def told(self) -> str | None:
        """Return the sentence about broadcasts that are not shown; None if all are shown."""
        if not self.older:
            return None
        count = f"{self.older}{'+' if self.older == COUNTED else ''}"
        how = "bus_inbox(cursor='0') or 'bus poll' begins with them"
        return f"{count} older broadcasts are not shown: {how}."


class _RecentMail(MailReader):
    """Mail without the broadcasts below a seq, for an agent without parked or requeued mail."""

    def __init__(self, all_mail: MailReader, addressed: MailReader, first_seq: int) -> None:
        self._all, self._to_it, self._first_seq = all_mail, addressed, first_seq

    def look(self, limit: int, pattern: TypePattern | None) -> InboxView:
        if pattern is None:
            return InboxView(self.after(0, limit), 0, False)
        return self._all.look(limit, pattern)

    def after(self, seq: int, limit: int) -> list[Message]:
        before = self._first_seq - 1
        messages = [message for message in self._to_it.after(seq, limit) if message.seq <= before]
        return (messages + self._all.after(max(seq, before), limit))[:limit]
