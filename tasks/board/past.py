"""The tasks as they were at any place of the log: the sum of the messages up to it."""

from __future__ import annotations

import heapq
from operator import attrgetter

from ...schema.errors import NotFound
from ..steps.fold import Fold
from ..steps.messages import FOLDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.bus import Bus
    from ...schema.message.message import Message


def fold_at(bus: Bus, seq: int | None = None) -> Fold:
    """Return the tasks as they were when a message was the newest; None: as they are.

    Raises:
        SegmentMissing: a part of the archive that is needed can't be read.
    """
    return Fold().add_all(messages_of_tasks(bus, seq))


def seq_at(bus: Bus, at_ms: int) -> int:
    """Return the seq of the newest change of a task at a time, in epoch milliseconds; 0: none.

    Raises:
        NotFound: that time has yet to come.
    """
    if at_ms > bus.now_ms():
        raise NotFound("that time has yet to come; give a seq or a time of the past")
    seqs = [message.seq for message in messages_of_tasks(bus) if message.ts_ms <= at_ms]
    return max(seqs, default=0)


def messages_of_tasks(bus: Bus, upto_seq: int | None = None) -> Iterator[Message]:
    """Yield the messages that make the tasks, in order."""
    return heapq.merge(
        *(bus.read(type=type, upto_seq=upto_seq) for type in FOLDED), key=attrgetter("seq")
    )
