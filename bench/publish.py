"""How long does it take to publish a message, one commit each?

Against the bare INSERT of the same row and every peer, for four sizes of payload; then once more
where each message must survive a power loss.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from floors import BareTable, rows_of
from measure import Contender, Options, at_least, compare, options, ratio, record, spreads, timed
from payloads import USUAL, Payload, payloads
from peers import DURABILITY, Publish, publishers

from ackbus import Bus

#: How many messages a contender stores in a round; large ones are synced to disk as blobs.
COUNTS = {"40 bytes": 2000, "300 bytes": 2000, "4 KB": 1000, "8 KB": 100}

#: The same where each commit is synced.
SYNCED_COUNT = 100

#: How many times as fast as each the bus should be at least.
ASKED = {"bare INSERT": 0.6, "redis": 2.5, "litequeue": 1.2, "simplebroker": 5.0}


def ours(stack: ExitStack, folder: Path, durability: str) -> Publish:
    """Publish to an agent that the bus knows."""
    bus = stack.enter_context(Bus.init(folder / f"bus-{durability}", durability=durability))
    bus.heartbeats.beat("reader")

    def publish(texts: Sequence[str]) -> None:
        for text in texts:
            bus.publish("bench.note", text, from_agent="bench", to_agent="reader")

    return publish


def everyone(stack: ExitStack, folder: Path, synchronous: str) -> dict[str, Publish]:
    """Return the bus, and the peers."""
    return {"ackbus": ours(stack, folder, synchronous.lower())} | publishers(
        stack, folder, synchronous
    )


def asked(
    peers: dict[str, Publish], floor: BareTable, payload: Payload, count: int
) -> dict[str, Contender]:
    """Return what to compare for one payload."""
    contenders = {
        name: timed(publish, lambda: payload.texts(count)) for name, publish in peers.items()
    }
    contenders["bare INSERT"] = timed(floor.insert, lambda: rows_of(payload.texts(count)))
    return contenders


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    sizes = payloads()
    results: dict[str, object] = {}
    targets = []
    with ExitStack() as stack:
        peers = everyone(stack, folder, "NORMAL")
        floor = BareTable(folder / "bare.db")
        for size, count in COUNTS.items():
            contenders = asked(peers, floor, sizes[size], settings.scaled(count))
            times = compare(contenders, settings.rounds)
            results[size] = spreads(times)
            targets += [
                at_least(f"{size}: of {peer}", least, ratio(times, "ackbus", peer))
                for peer, least in ASKED.items()
            ]
    with ExitStack() as stack:
        peers = everyone(stack, folder, "FULL")
        floor = BareTable(folder / "bare-full.db", "FULL")
        count = settings.scaled(SYNCED_COUNT, least=3)
        times = compare(asked(peers, floor, sizes[USUAL], count), settings.rounds)
        results[f"{USUAL}, each synced to disk"] = spreads(times)
    record(
        "publish, one commit each: microseconds for each message",
        results,
        settings,
        targets=targets,
        conditions={
            "payloads": [payload.described() for payload in sizes.values()],
            "durability": DURABILITY["NORMAL"],
            "durability, each synced to disk": DURABILITY["FULL"],
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
