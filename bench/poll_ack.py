"""How long does a message take that is polled, looked into and acknowledged, 1,000 at a time?

Against XREADGROUP and XACK of batches of the same size. Both store the payload as JSON, and both
readers decode it.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import orjson
from measure import Contender, Options, at_least, compare, options, ratio, record, spreads
from payloads import Payload, as_stored, payloads
from peers import redis_client, redis_server

from ackbus import Bus, Draft, Inbox

#: How many messages are asked for at a time.
BATCH = 1000

#: How many of those a contender reads in a round; large payloads are blobs.
BATCHES = {"40 bytes": 20, "300 bytes": 20, "4 KB": 5, "8 KB": 1}


def ours(bus: Bus, payload: Payload, count: int) -> Contender:
    """Read an inbox that nobody has read before."""
    readers = itertools.count()

    def run() -> float:
        reader = f"{payload.size.replace(' ', '-')}-{next(readers)}"
        bus.heartbeats.beat(reader)
        bus.publish_many(
            Draft("bench.note", text, from_agent="bench", to_agent=reader)
            for text in payload.texts(count)
        )
        inbox = Inbox(bus, reader)
        used = 0
        started = time.perf_counter()
        while messages := inbox.poll(BATCH):
            for message in messages:
                used += len(message.payload)
            inbox.ack(messages[-1])
        seconds = time.perf_counter() - started
        assert used == count * len(payload.text)
        return seconds / count

    return run


def with_redis(address: str, payload: Payload, count: int) -> Contender:
    """Read a stream that nobody has read before, through a group."""
    client = redis_client(address)
    streams = itertools.count()

    def run() -> float:
        stream = f"{payload.size}-{next(streams)}"
        client.xgroup_create(stream, "group", id="0", mkstream=True)
        pipeline = client.pipeline(transaction=False)
        for text in payload.texts(count):
            pipeline.xadd(stream, {"body": as_stored(text)})
        pipeline.execute()
        used = 0
        started = time.perf_counter()
        while found := client.xreadgroup("group", "one", {stream: ">"}, count=BATCH):
            ((_, entries),) = found
            for _, fields in entries:
                used += len(orjson.loads(fields[b"body"]))
            client.xack(stream, "group", *(id for id, _ in entries))
        seconds = time.perf_counter() - started
        assert used == count * len(payload.text)
        client.delete(stream)
        return seconds / count

    return run


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    sizes = payloads()
    results: dict[str, object] = {}
    targets = []
    with ExitStack() as stack:
        bus = stack.enter_context(Bus.init(folder / "bus"))
        address = stack.enter_context(redis_server(folder))
        for size, batches in BATCHES.items():
            count = settings.scaled(batches * BATCH)
            contenders = {"ackbus": ours(bus, sizes[size], count)}
            if address is not None:
                contenders["redis"] = with_redis(address, sizes[size], count)
            times = compare(contenders, settings.rounds)
            results[size] = spreads(times)
            targets.append(at_least(f"{size}: of redis", 2.5, ratio(times, "ackbus", "redis")))
    record(
        "poll and acknowledge in batches of 1,000: microseconds for each message",
        results,
        settings,
        targets=targets,
        conditions={
            "payloads": [payload.described() for payload in sizes.values()],
            "durability": {
                "ackbus": "an acknowledgement survives a crash of any process",
                "redis": "no AOF: a crash of the server loses messages and acknowledgements",
            },
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
