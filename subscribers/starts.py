"""The start of a new reader of the log: an inbox, or a queue."""

from __future__ import annotations

from ..schema.errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from ..bus.local_bus import LocalBus
    from .options import Start

#: All that the log holds; only what comes from now on.
BEGINNING: Final = "beginning"
NOW: Final = "now"


def seq_before(bus: LocalBus, start: Start) -> int:
    """Return the seq after which a new reader begins, 0 for the beginning.

    Args:
        bus: an open bus.
        start: `beginning`, `now`, or a seq.

    Raises:
        InvalidInput: it is none of these, or lies beyond the next message: what comes before it
            would be in no inbox, and in no queue.
    """
    if start == BEGINNING:
        return 0
    newest = bus.log.newest_seq()
    if start == NOW:
        return newest
    if type(start) is not int or not 1 <= start <= newest + 1:
        raise InvalidInput(
            f"start must be {BEGINNING}, {NOW}, or a seq from 1 to {newest + 1}, which is the"
            f" next message, not {shown(start)}"
        )
    return start - 1
