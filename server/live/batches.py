"""Batches of messages in order, encoded once for all their clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from ...bus.log.filters import Wanted
from ...schema.message.message import Message

#: How long a batch gets, in bytes: as much as the buffer of a connection holds before it is full.
#: A client that is sent this much and reads nothing has it, and no more, in memory.
BATCH_BYTES = 64 * 1024


class Event:
    """A message as it is sent.

    Attributes:
        seq: its place in the log.
        message: the message, for filters.
        line: its line of `bus.jsonl`; a large payload stays a reference to its blob.
    """

    __slots__ = ("line", "message", "seq")

    def __init__(self, message: Message) -> None:
        self.seq = message.seq
        self.message = message
        self.line = message.to_line()


class Batch:
    """Some events, in order. It never changes, and all its clients share it.

    Attributes:
        events: the events.
        upto: the seq up to which these are all that are wanted.
    """

    def __init__(self, events: Sequence[Event], upto: int) -> None:
        self.events = events
        self.upto = upto

    @cached_property
    def size(self) -> int:
        """The length of the lines, in bytes."""
        return sum(len(event.line) for event in self.events)

    @cached_property
    def sse(self) -> bytes:
        """The batch as server-sent events; a comment when it is empty."""
        if not self.events:
            return b": nothing new\n\n"
        return b"".join(
            b"id: %d\nevent: message\ndata: %b\n\n" % (event.seq, event.line)
            for event in self.events
        )

    @cached_property
    def texts(self) -> Sequence[str]:
        """The batch as the texts of frames."""
        return [event.line.decode() for event in self.events]

    def after(self, seq: int) -> Batch:
        """Return the events after a seq: for most clients, the batch itself."""
        if not self.events or self.events[0].seq > seq:
            return self
        return Batch([event for event in self.events if event.seq > seq], self.upto)

    def fitting(self, wanted: Wanted) -> Batch:
        """Return the wanted events: the batch itself, if all are wanted."""
        if wanted.is_all:
            return self
        return Batch([each for each in self.events if wanted.fits(each.message)], self.upto)


def cut(events: Iterable[Event]) -> Iterator[Batch]:
    """Yield batches of the length that is sent at once."""
    part: list[Event] = []
    size = 0
    for event in events:
        if part and size + len(event.line) > BATCH_BYTES:
            yield Batch(part, part[-1].seq)
            part, size = [], 0
        part.append(event)
        size += len(event.line)
    if part:
        yield Batch(part, part[-1].seq)


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the beginning of some batches as one: the first alone, if it is long enough."""
    size, count = batches[0].size, 1
    while count < len(batches) and size + batches[count].size <= BATCH_BYTES:
        size += batches[count].size
        count += 1
    if count == 1:
        return batches[0]
    parts = batches[:count]
    batch = Batch([event for part in parts for event in part.events], parts[-1].upto)
    batch.sse = b"".join(part.sse for part in parts)  # each is there already
    return batch
