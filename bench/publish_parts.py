"""What is a publish made of? The same rows go into tables with more and more of what the bus has.

Each index and the table of numbers that were given is a page more to write in every commit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floors import TABLE, BareTable, rows_of
from measure import Contender, Options, compare, options, record, spreads, timed
from payloads import USUAL, payloads
from peers import Publish

import ackbus
from ackbus import Bus, Draft

#: How many rows are stored in a round, one commit each, and in transactions of how many.
SINGLE, BATCHES, BATCH = 3000, 10, 1000

_ID = "CREATE UNIQUE INDEX by_id ON messages (id);"
_RECIPIENT = "CREATE INDEX by_recipient ON messages (to_agent);"
_NUMBERED = TABLE.replace("INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT")

#: What makes each table.
TABLES = {
    "1 a bare table": TABLE,
    "2 and ids that are unique": f"{TABLE};{_ID}",
    "3 and an index of recipients": f"{TABLE};{_ID}{_RECIPIENT}",
    "4 and numbers that never come again": f"{_NUMBERED};{_ID}{_RECIPIENT}",
    "5 the schema: rules, triggers": (Path(ackbus.__file__).parent / "schema/schema.sql").read_text(
        "utf-8"
    ),
}

#: And at last what stands around the INSERT.
BUS = "6 ackbus: checks, JSON, ids, the write lock, the doorbell"


def in_batches(store: Publish) -> Publish:
    """Return what stores a batch after the other."""

    def store_all(items: Sequence[Any]) -> None:
        for start in range(0, len(items), BATCH):
            store(items[start : start + BATCH])

    return store_all


def published_singly(bus: Bus) -> Publish:
    """Publish to an agent that the bus knows, one commit each."""

    def publish(texts: Sequence[str]) -> None:
        for text in texts:
            bus.publish("bench.note", text, from_agent="bench", to_agent="reader")

    return publish


def published_together(bus: Bus) -> Publish:
    """The same, in one transaction."""

    def publish(texts: Sequence[str]) -> None:
        bus.publish_many(
            Draft("bench.note", text, from_agent="bench", to_agent="reader") for text in texts
        )

    return publish


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    singles = settings.scaled(SINGLE)
    many = settings.scaled(BATCHES * BATCH)
    single: dict[str, Contender] = {}
    batched: dict[str, Contender] = {}
    for number, (name, ddl) in enumerate(TABLES.items()):
        one = BareTable(folder / f"one{number}.db", ddl=ddl)
        single[name] = timed(one.insert, lambda: rows_of(payload.texts(singles)))
        all = BareTable(folder / f"all{number}.db", ddl=ddl)
        batched[name] = timed(in_batches(all.insert_many), lambda: rows_of(payload.texts(many)))
    with Bus.init(folder / "one") as bus, Bus.init(folder / "many") as other:
        for each in (bus, other):
            each.heartbeats.beat("reader")
        single[BUS] = timed(published_singly(bus), lambda: payload.texts(singles))
        batched[BUS] = timed(in_batches(published_together(other)), lambda: payload.texts(many))
        results = {
            "one commit each": spreads(compare(single, settings.rounds)),
            "1,000 a transaction": spreads(compare(batched, settings.rounds)),
        }
    record(
        "what a publish consists of: microseconds for each message",
        results,
        settings,
        conditions={"payloads": [payload.described()]},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
