"""The seq at which a stream begins."""

from __future__ import annotations

from ..bus.bus import Bus
from ..schema.errors import InvalidInput
from .access.errors import AfterTheEnd


def begin_after(bus: Bus, after: int | None, last_event_id: str | None) -> int:
    """Return the seq after which a stream begins.

    Args:
        bus: the bus.
        after: the seq that the client asked for; None: new messages only.
        last_event_id: the last event of a client that reconnects; it wins over `after`.

    Raises:
        InvalidInput: the last event's id is not a seq.
        AfterTheEnd: the seq is beyond the end of the log.
    """
    newest = bus.log.newest_seq()
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdecimal() and len(last_event_id) < 19):
            raise InvalidInput(f"Last-Event-ID must be a seq, not {last_event_id[:40]!r}")
        after = int(last_event_id)
    if after is None:
        return newest
    if after > newest:
        raise AfterTheEnd(after, newest)
    return after
