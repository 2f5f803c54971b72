"""A queue is told to go on after what is lost of the archive: nothing else is left out."""

import os
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.bus.log.records import Segment
from ackbus.export import archive_writer as archiver
from ackbus.export.archive_writer import Archiver
from ackbus.schema.queries import file_of
from ackbus.subscribers.queues.job_control import JobControl
from ackbus.subscribers.queues.queues import Queues

from .work import publish, seqs


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiver, "FRAME_LINES", 3)


def archive(bus: Bus, upto: int) -> Segment:
    with Archiver(bus) as at_work:
        (segment,) = at_work.archive(upto)
    return segment


def damage(bus: Bus, *frames: int) -> None:
    """Change a byte within the frames that begin with these messages."""
    for first_seq in frames:
        ((segment, start, size),) = file_of(bus).rows(
            "SELECT segment, start, bytes FROM archive_frames WHERE first_seq = ?", (first_seq,)
        )
        path = Path(bus.layout.archive, f"{segment:012}.jsonl.zst")
        data = bytearray(path.read_bytes())
        data[start + size // 2] ^= 1
        path.write_bytes(data)


@pytest.mark.parametrize("start", [1, 4])
def test_only_damaged_messages_are_skipped(bus: Bus, start: int) -> None:
    """Promise 1: what stands before and after them in the same file becomes jobs."""
    publish(bus, 15)
    archive(bus, 12)
    damage(bus, 7)
    queue = Queue.create(bus, "job", start=start)
    assert JobControl(queue).skip() == [(7, 9)]
    kept = [*range(start, 7), *range(10, 16)]
    assert seqs(queue.claim("worker", limit=100)) == kept


def test_loss_in_several_frames_is_told_as_one_range(bus: Bus) -> None:
    publish(bus, 15)
    path = bus.archive.path(archive(bus, 15))
    damage(bus, 4)
    os.truncate(path, os.stat(path).st_size // 2)
    queue = Queue.create(bus, "job")
    assert JobControl(queue).skip() == [(4, 14)]
    assert seqs(queue.claim("worker", limit=100)) == [1, 2, 3, 15]


def test_queue_that_begins_within_a_loss_skips_from_where_it_begins(bus: Bus) -> None:
    publish(bus, 9)
    archive(bus, 9)
    damage(bus, 4)
    assert JobControl(Queue.create(bus, "job", start=5)).skip() == [(5, 6)]


@pytest.mark.parametrize("harm", ["damaged", "missing"])
def test_what_has_yet_to_leave_the_log_is_not_skipped(
    bus: Bus, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """An archiver that died on the way leaves messages that are in both."""
    monkeypatch.setattr("ackbus.bus.log.archive_reader.REMOVE_MESSAGES", 5)

    def die(seq: int) -> None:
        raise KeyboardInterrupt

    publish(bus, 12)
    with Archiver(bus) as at_work, pytest.raises(KeyboardInterrupt):
        at_work.archive(9, on_progress=die)
    if harm == "damaged":
        damage(bus, 4)
    else:
        Path(bus.archive.path(bus.archive.segments()[0])).unlink()
    queue = Queue.create(bus, "job")
    first, left = (4, [1, 2, 3]) if harm == "damaged" else (1, [])
    assert JobControl(queue).skip() == [(first, 5)]
    assert seqs(queue.claim("worker", limit=100)) == [*left, *range(6, 13)]


class Overtaken(Queue):
    """A queue that another process leads on, each time this one has looked at it."""

    def fill(self) -> None:
        super().fill()
        if not file_of(self.bus).writing:
            with Bus.open(self.bus.layout.directory) as bus:
                JobControl(Queue.open(bus, self.name)).skip()


def test_skip_never_moves_a_queue_back(bus: Bus) -> None:
    """Messages taken in behind the loss meanwhile would be taken in again, or keep all waiting."""
    publish(bus, 12)
    archive(bus, 6)
    damage(bus, 4)
    queue = Overtaken.create(bus, "job")
    assert JobControl(queue).skip() == []
    assert Queues(bus).get("job").filled_seq == 12
    publish(bus)
    assert seqs(queue.claim("worker", limit=100)) == [1, 2, 3, *range(7, 14)]


def test_position_of_a_queue_can_not_be_set_back(bus: Bus) -> None:
    publish(bus, 3)
    queue = Queue.create(bus, "job")
    queue.fill()
    assert not Queues(bus).pass_by(queue.info.id, 3, 2)
    assert Queues(bus).get("job").filled_seq == 3
