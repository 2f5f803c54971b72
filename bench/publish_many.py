"""How long does a message take, of 1,000 that are published in one transaction?

Against executemany of the same rows into a bare table, and a pipeline of XADDs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from floors import BareTable, rows_of
from measure import (
    Contender,
    Options,
    at_least,
    compare,
    options,
    ratio,
    record,
    spreads,
    timed,
)
from payloads import Payload, payloads
from peers import DURABILITY, Publish, redis_client, redis_server

from ackbus import Bus, Draft

#: How many messages a transaction or a pipeline has.
BATCH = 1000

#: How many of those a contender stores in a round; large ones are synced to disk as blobs.
BATCHES = {"40 bytes": 20, "300 bytes": 20, "4 KB": 5, "8 KB": 1}

#: How many times as fast as each the bus should be at least.
ASKED = {"bare executemany": 0.6, "redis pipeline": 2.0}


def batched(store: Callable[[Sequence[Any]], object]) -> Callable[[Sequence[Any]], None]:
    """Return what stores a batch after the other."""

    def store_all(items: Sequence[Any]) -> None:
        for start in range(0, len(items), BATCH):
            store(items[start : start + BATCH])

    return store_all


def ours(bus: Bus) -> Publish:
    """Publish to an agent that the bus knows."""
    bus.heartbeats.beat("reader")

    def publish(texts: Sequence[str]) -> None:
        bus.publish_many(
            Draft("bench.note", text, from_agent="bench", to_agent="reader") for text in texts
        )

    return publish


def pipelined(address: str) -> Publish:
    """Add to a stream, all in one round trip."""
    client = redis_client(address)

    def publish(texts: Sequence[str]) -> None:
        pipeline = client.pipeline(transaction=False)
        for text in texts:
            pipeline.xadd("bench", {"body": text})
        pipeline.execute()

    return publish


def asked(
    publishers: dict[str, Publish], floor: BareTable, payload: Payload, count: int
) -> dict[str, Contender]:
    """Return what to compare for one payload."""
    contenders = {
        name: timed(batched(publish), lambda: payload.texts(count))
        for name, publish in publishers.items()
    }
    rows = batched(floor.insert_many)
    contenders["bare executemany"] = timed(rows, lambda: rows_of(payload.texts(count)))
    return contenders


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    sizes = payloads()
    results: dict[str, object] = {}
    targets = []
    with ExitStack() as stack:
        publishers = {"ackbus": ours(stack.enter_context(Bus.init(folder / "bus")))}
        address = stack.enter_context(redis_server(folder))
        if address is not None:
            publishers["redis pipeline"] = pipelined(address)
        floor = BareTable(folder / "bare.db")
        for size, batches in BATCHES.items():
            count = settings.scaled(batches * BATCH)
            times = compare(asked(publishers, floor, sizes[size], count), settings.rounds)
            results[size] = spreads(times)
            targets += [
                at_least(f"{size}: of {peer}", least, ratio(times, "ackbus", peer))
                for peer, least in ASKED.items()
            ]
    durable = DURABILITY["NORMAL"]
    record(
        "publish, 1,000 a transaction: microseconds for each message",
        results,
        settings,
        targets=targets,
        conditions={
            "payloads": [payload.described() for payload in sizes.values()],
            "durability": {name: durable[name] for name in ("ackbus", "bare INSERT", "redis")},
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
