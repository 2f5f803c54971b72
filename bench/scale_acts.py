"""The acts that `scale.py` measures, on one bus each. An act returns seconds, one for each time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from zlib import crc32

from generator import AGENTS, agent, conversation, drafts, texts

from ackbus import Bus, Exporter, Inbox, Queue
from ackbus.export.archive_writer import Archiver
from ackbus.export.jsonl.jsonl_file import stamp_of
from ackbus.export.jsonl.writer import Position
from ackbus.subscribers.overview.retention import Retention

#: How often an act is done in a round.
TIMES = 100

#: How often an act of many messages is done in a round, and of how many it is.
FEW, MANY = 3, 1000

#: How far an agent is behind that has not polled for long.
BEHIND = 1_000_000

#: Does an act some times, and returns the seconds of each.
Act = Callable[[], list[float]]


class Site:
    """A bus with a log of a known length, and what measuring it needs.

    Attributes:
        bus: the bus, open.
        size: how many messages were in its log at first.
        noise: the same random numbers in each run.
    """

    def __init__(self, directory: Path, size: int) -> None:
        self.bus = Bus.open(directory)
        self.size = size
        self.noise = random.Random(size)
        self._numbers = count(size)
        self._said = texts()
        # What the agents of earlier runs did must not count.
        self.run = f"run-{time.time_ns()}"

    def publish(self, messages: int) -> None:
        """Publish some more messages in one transaction."""
        start = next(self._numbers)
        self.bus.publish_many(drafts(start, start + messages, self._said))
        self._numbers = count(start + messages)

    def __enter__(self) -> Site:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bus.close()


def timed(act: Callable[[object], object], on: Iterable[object]) -> list[float]:
    """Return the seconds that an act took on each thing."""
    found = []
    for thing in on:
        started = time.perf_counter()
        act(thing)
        found.append(time.perf_counter() - started)
    return found


def _times(number: int = TIMES) -> Iterable[object]:
    return range(number)


def publish(site: Site) -> Act:
    """One message, one commit."""
    said = texts()
    numbers = count()

    def act(_: object) -> object:
        number = next(numbers)
        return site.bus.publish(
            "note", said[number % len(said)], from_agent=agent(number), to_agent=agent(number * 7)
        )

    act(0)  # finds out about one recipient; the others are asked for within the rounds
    for number in range(AGENTS):
        site.bus.agents.knows(agent(number))
    return lambda: timed(act, _times())


def poll_nothing(site: Site) -> Act:
    """An agent that has acknowledged everything."""
    inbox = Inbox(site.bus, f"idle-{site.run}")

    def act() -> list[float]:
        inbox.ack(site.bus.log.newest_seq())
        return timed(lambda _: inbox.poll(), _times())

    return act


def poll_far_behind(site: Site) -> Act:
    """An agent with an inbox of its own that did nothing for a million messages."""
    bus = site.bus
    inbox = Inbox(bus, agent(7))
    inbox.ack(max(1, bus.log.newest_seq() - BEHIND))
    return lambda: timed(lambda _: inbox.poll(), _times())


def poll_new(site: Site) -> Act:
    """An agent that was never here: all broadcasts wait for it."""
    inbox = Inbox(site.bus, f"new-{site.run}")
    return lambda: timed(lambda _: inbox.poll(), _times())


def ack(site: Site) -> Act:
    """Message by message."""
    inbox = Inbox(site.bus, f"acks-{site.run}")
    inbox.ack(max(1, site.size // 2))
    seqs = count(inbox.position + 1)
    return lambda: timed(lambda _: inbox.ack(next(seqs)), islice(_times(), TIMES))


def claim(site: Site) -> Act:
    """One job of a queue for which a quarter of the log is work."""
    queue = Queue.create(site.bus, f"claims-{site.run}", "review.request")
    return lambda: timed(lambda _: queue.claim("bench"), _times())


def read_conversation(site: Site) -> Act:
    """Twenty messages from anywhere in the log."""

    def act(_: object) -> object:
        name = conversation(site.noise.randrange(site.size))
        return [message.payload for message in site.bus.read(conversation=name)]

    return lambda: timed(act, _times())


def search(site: Site) -> Act:
    """A word that one text in some has; the index is up to date."""
    site.bus.search("review")

    def act() -> list[float]:
        site.bus.search("review")
        return timed(lambda word: site.bus.search(str(word)), ["review", "branch", "test failed"])

    return act


def replay(site: Site) -> Act:
    """A thousand messages from anywhere in the log, payloads used."""
    starts = max(1, site.size - MANY)

    def act(_: object) -> object:
        first = site.noise.randrange(starts) + 1
        read = site.bus.read(after_seq=first - 1, upto_seq=first + MANY - 1)
        return sum(message.payload is not None for message in read)

    return lambda: timed(act, _times(10))


def export(site: Site) -> Act:
    """A thousand new messages, behind a file that has all the others."""
    bus = site.bus
    exporter = Exporter(bus)

    def act() -> list[float]:
        found = []
        for _ in range(FEW):
            _pretend_exported(bus)
            site.publish(MANY)
            found += timed(lambda _: exporter.export_once(), _times(1))
        return found

    return act


def _pretend_exported(bus: Bus) -> None:
    """Let the exporter take the log for exported: the last line stands for all of them."""
    newest = bus.log.newest(1)[0]
    path = Path(bus.layout.jsonl)
    line = newest.to_line() + b"\n"
    path.write_bytes(line)
    stamp = stamp_of(str(path))
    assert stamp is not None
    Position.of(bus).set(newest.seq, stamp, crc32(line))


def archive(site: Site) -> Act:
    """The first thousand messages that are not archived; nobody is waited for."""
    bus = site.bus

    def act(_: object) -> object:
        with Archiver(bus) as archiver:
            wanted = bus.archive.upto() + MANY
            plan = Retention(bus, idle_after_s=0).plan(wanted, pass_over_idle=True)
            return archiver.archive(plan.upto_seq)

    return lambda: timed(act, _times(FEW))


def open_and_close(site: Site) -> Act:
    """What each process does first and last."""

    def act(_: object) -> None:
        with Bus.open(site.bus.layout.directory) as bus:
            bus.log.newest_seq()

    return lambda: timed(act, _times())


def stats(site: Site) -> Act:
    """How many messages there are of each type and sender; all of them are counted."""

    def act() -> list[float]:
        site.bus.stats()
        return timed(lambda _: site.bus.stats(), _times(FEW))

    return act


SEARCH, ARCHIVE = "search", "archive 1,000"

#: By name.
ACTS: dict[str, Callable[[Site], Act]] = {
    "publish": publish,
    "poll, nothing new": poll_nothing,
    "poll 100, a million behind": poll_far_behind,
    "poll 100, new agent": poll_new,
    "ack": ack,
    "claim": claim,
    "read a conversation of 20": read_conversation,
    SEARCH: search,
    "replay 1,000": replay,
    "export 1,000": export,
    "open": open_and_close,
    "stats": stats,
    ARCHIVE: archive,
}
