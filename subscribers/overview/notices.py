"""Notices: the answers that people were notified of. Derived from the log."""

from __future__ import annotations

import logging

from ...bus.errors import SegmentMissing
from ...schema.message.reply_types import request_type_of
from ...schema.paging import further
from ...schema.queries import engine_of
from ..jobs.statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ...schema.message.message import Message

_log = logging.getLogger("ackbus.notices")

#: How many conversations without a request are remembered, so that each of their messages is
#: looked at once.
_REMEMBERED = 10_000


class Notices:
    """The tables `notices` and `notice_state`: what was told, and how far the log was looked at.

    Any number of processes may look for news; together they tell of each conversation once.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._engine = engine_of(bus)
        #: By conversation and type: up to which seq there is no request of the type.
        self._unasked: dict[tuple[str, str], int] = {}

    @property
    def position(self) -> int:
        """The seq up to which the log was looked at; 0 before the first look."""
        seq: int = self._engine.one_number(SQL["notice_position"], "notice_state")
        return seq

    def news(self, *, first_since_ms: int) -> Iterator[Message]:
        """Yield the first new answer in each conversation without a notice.

        An answer is noted as told, in a transaction of its own, before it is yielded: at most
        once. A process that dies in between leaves one notice untold, which is better than many
        told twice: the answer itself waits in the log.

        What is looked at is what came since the last look, so that the cost of a look does not
        depend on how long the log is.

        Args:
            first_since_ms: on the very first look at a bus, only answers of this epoch
                millisecond or later are news.
        """
        after, newest = self.position, self._bus.log.newest_seq()
        if newest == after:
            return
        since_ms = None if after else first_since_ms
        for message in self._read(after, newest, since_ms):
            if self._is_news(message) and self._note(message):
                yield message
        self._engine.change(SQL["advance_notices"], (newest,))

    def _read(self, after: int, newest: int, since_ms: int | None) -> Iterator[Message]:
        """Yield a range of the log; what is lost of the archive is told, and left out for good."""
        while True:
            try:
                yield from self._bus.read(after_seq=after, upto_seq=newest, since_ms=since_ms)
                return
            except SegmentMissing as lost:
                _log.warning("no notices of answers there: %s", lost)
                after = further("messages of the archive", after, lost.last_seq)

    def _is_news(self, message: Message) -> bool:
        """Say whether a message answers a request, and its conversation has no notice yet."""
        request_type = request_type_of(message.type)
        if request_type is None:
            return False
        key = (message.conversation, request_type)
        after = self._unasked.get(key, 0)
        if self._engine.value(SQL["is_news"], (*key, after, message.seq)):
            return True
        if self._was_asked_in_archive(*key, message):
            return True
        if len(self._unasked) >= _REMEMBERED:
            self._unasked.clear()
        self._unasked[key] = message.seq
        return False

    def _was_asked_in_archive(self, conversation: str, request_type: str, answer: Message) -> bool:
        """Whether the request is archived: the message that is answered tells, if it names one."""
        if self._engine.value(SQL["is_told"], (conversation,)) or answer.in_reply_to is None:
            return False
        try:
            asked = self._bus.get(answer.in_reply_to)
        except SegmentMissing:  # something archived was asked; this, by the type of the answer
            return True
        return asked is not None and (asked.type, asked.conversation) == (
            request_type,
            conversation,
        )

    def _note(self, message: Message) -> bool:
        """Note that people are told of a conversation; False when another process did so."""
        values = (message.conversation, message.seq, self._engine.now_ms())
        return bool(self._engine.change(SQL["add_notice"], values))
