"""What is a publish made of? The same rows go into tables with more and more of what the bus has.

Each index and the table of numbers that were given is a page more to write in every commit.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import publish
import publish_many
from floors import TABLE, BareTable, rows_of
from measure import Contender, Options, compare, options, record, spreads, timed
from payloads import USUAL, payloads
from publish_many import BATCH, batched

import ackbus
from ackbus import Bus

#: How many rows are stored in a round, one commit each, and how many transactions of `BATCH`.
SINGLE, BATCHES = 3000, 10

_ID = "CREATE UNIQUE INDEX by_id ON messages (id);"
_RECIPIENT = "CREATE INDEX by_recipient ON messages (to_agent);"
_NUMBERED = TABLE.replace("INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT")

#: What makes each table.
TABLES = {
    "1 a bare table": TABLE,
    "2 and ids that are unique": f"{TABLE};{_ID}",
    "3 and an index of recipients": f"{TABLE};{_ID}{_RECIPIENT}",
    "4 and numbers that never come again": f"{_NUMBERED};{_ID}{_RECIPIENT}",
    "5 the schema: rules, triggers": (
        Path(ackbus.__file__).parent / "schema/sqlite/schema.sql"
    ).read_text("utf-8"),
}

#: And at last what stands around the INSERT.
BUS = "6 ackbus: checks, JSON, ids, the write lock, the doorbell"


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    singles = settings.scaled(SINGLE)
    many = settings.scaled(BATCHES * BATCH)
    single: dict[str, Contender] = {}
    together: dict[str, Contender] = {}
    for number, (name, ddl) in enumerate(TABLES.items()):
        one = BareTable(folder / f"one{number}.db", ddl=ddl)
        single[name] = timed(one.insert, lambda: rows_of(payload.texts(singles)))
        all = BareTable(folder / f"all{number}.db", ddl=ddl)
        together[name] = timed(batched(all.insert_many), lambda: rows_of(payload.texts(many)))
    with ExitStack() as stack:
        singly = publish.ours(stack, folder, "normal")
        single[BUS] = timed(singly, lambda: payload.texts(singles))
        bus = stack.enter_context(Bus.init(folder / "together"))
        together[BUS] = timed(batched(publish_many.ours(bus)), lambda: payload.texts(many))
        results = {
            "one commit each": spreads(compare(single, settings.rounds)),
            "1,000 a transaction": spreads(compare(together, settings.rounds)),
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
