"""How long do people wait for history: searching a million messages, archiving, reading it back?

Rates of the archive and of the export are of 100,000 messages each round, on a fresh copy of the
bus. The search is for words that all, some and few messages have, and with filters.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from measure import Contender, Options, compare, options, record, spread, tell

from ackbus import Bus, Draft, Exporter
from ackbus.export.archive_writer import Archiver

#: How many different words there are beside those that every message has.
WORDS = 20_000

#: What is searched for, and with which filters.
SEARCHES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "a word of every message": (("review",), {}),
    "the same, of one type and agent": (
        ("review",),
        {"type": "review.request", "agent": "agent-7"},
    ),
    "the same, of one conversation": (("review",), {"conversation": "conversation-77"}),
    "a phrase of every message": (("review the file",), {}),
    "the same, of one agent": (("review the file",), {"agent": "agent-7"}),
    "a rare word": (("word77",), {}),
    "a rare word and a common one": (("word77", "review"), {}),
}


def filled(folder: Path, count: int) -> Bus:
    """A bus with messages of some 200 bytes, in conversations of 20."""
    random.seed(1)
    bus = Bus.init(folder)
    words = [f"word{n}" for n in range(WORDS)]
    for start in range(0, count, 5000):
        bus.publish_many(
            Draft(
                "review.request" if n % 2 else "note",
                "please review the file " + " ".join(random.choices(words, k=15)),
                from_agent=f"agent-{n % 30}",
                correlation_id=f"conversation-{n // 20}",
            )
            for n in range(start, min(count, start + 5000))
        )
    return bus


def search(bus: Bus, name: str) -> Contender:
    """One search, of an index that is up to date."""
    words, filters = SEARCHES[name]

    def run() -> float:
        started = time.perf_counter()
        assert bus.search(*words, **filters)
        return time.perf_counter() - started

    return run


class Moved:
    """A copy of a bus, which each round archives, reads back and exports anew."""

    def __init__(self, source: Path, folder: Path, count: int) -> None:
        self._source = source
        self._folder = folder
        self._count = count
        self._bus: Bus | None = None

    @property
    def bus(self) -> Bus:
        """The copy of this round."""
        assert self._bus is not None
        return self._bus

    def archive(self) -> float:
        """Move all of it."""
        if self._bus is not None:
            self._bus.close()
            shutil.rmtree(self._folder)
        shutil.copytree(self._source, self._folder)
        self._bus = Bus.open(self._folder)
        with Archiver(self.bus) as archiver:
            return self._timed(lambda: archiver.archive(self._count))

    def read(self) -> float:
        """Read it out of the archive, as lines."""
        return self._timed(lambda: sum(len(message.to_line()) for message in self.bus.read()))

    def rebuild(self) -> float:
        """Write bus.jsonl anew from the archive."""
        return self._timed(lambda: Exporter(self.bus).rebuild())

    def _timed(self, act: object) -> float:
        started = time.perf_counter()
        act()  # type: ignore[operator]
        return (time.perf_counter() - started) / self._count


def searches(folder: Path, settings: Options) -> dict[str, object]:
    """Fill a bus, index it, and search."""
    count = settings.scaled(1_000_000, least=2000)
    tell(f"publishing {count:,} messages")
    with filled(folder, count) as bus:
        started = time.perf_counter()
        bus.search("review")
        indexing = (time.perf_counter() - started) / count
        times = compare({name: search(bus, name) for name in SEARCHES}, settings.rounds)
    results: dict[str, object] = {name: spread(seconds) for name, seconds in times.items()}
    return {"messages": count, "indexing, for each message": spread([indexing]), **results}


def moves(folder: Path, settings: Options) -> dict[str, object]:
    """Fill a bus, and move it in and out of the archive."""
    count = settings.scaled(100_000)
    source = folder / "source"
    filled(source, count).close()
    moved = Moved(source, folder / "copy", count)
    contenders = {
        "archive": moved.archive,
        "read the archive": moved.read,
        "rebuild bus.jsonl from it": moved.rebuild,
    }
    times = compare(contenders, settings.rounds)
    results: dict[str, object] = {name: spread(seconds) for name, seconds in times.items()}
    return {"messages": count, **results}


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-")))
        results: dict[str, object] = {
            "search": searches(folder / "searched", settings),
            "archive, for each message": moves(folder, settings),
        }
    record("history: microseconds for a search, and for each message moved", results, settings)


if __name__ == "__main__":
    main()
