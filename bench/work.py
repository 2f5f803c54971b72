"""How long does a job take: claim it, run a handler that does nothing, complete it?

One worker. Against litequeue's pop and done, and XREADGROUP and XACK through redis-py, of one entry
and of as many as the worker claims at most, on a server that keeps nothing on disk (left out where
there is no redis-server).
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import litequeue
from measure import Contender, compare, options, ratio, record, spread
from peers import redis_client, redis_server

from ackbus import Bus, Draft, Worker

#: What is worked on: 300 bytes, as a message of an agent may be.
BODY = "x" * 300


def ours(folder: Path, count: int) -> Contender:
    """A Python worker of the bus."""
    bus = Bus.init(folder / "bus")
    rounds = iter(range(1_000_000))

    def run() -> float:
        type = f"round{next(rounds)}.work"  # each round is a queue of its own
        bus.publish_many(Draft(type, BODY, from_agent="bench") for _ in range(count))
        worker = Worker(bus, type, beats=False)
        started = time.perf_counter()
        done = worker.run(lambda message: None, drain=True)
        seconds = time.perf_counter() - started
        assert done == count
        return seconds / count

    return run


def one_by_one(folder: Path, count: int) -> Contender:
    """The same bus by the plain calls: a claim and a completion for each job, two transactions."""
    from ackbus import Queue

    bus = Bus.init(folder / "plain")
    rounds = iter(range(1_000_000))

    def run() -> float:
        type = f"round{next(rounds)}.work"
        bus.publish_many(Draft(type, BODY, from_agent="bench") for _ in range(count))
        queue = Queue.create(bus, type)
        started = time.perf_counter()
        for _ in range(count):
            (claim,) = queue.claim("bench")
            queue.complete(claim)
        return (time.perf_counter() - started) / count

    return run


def with_litequeue(folder: Path, count: int) -> Contender:
    """litequeue, as its README uses it."""
    queue = litequeue.LiteQueue(str(folder / "litequeue.db"))

    def run() -> float:
        for _ in range(count):
            queue.put(BODY)
        started = time.perf_counter()
        for _ in range(count):
            queue.done(queue.pop().message_id)
        return (time.perf_counter() - started) / count

    return run


def with_redis(address: str, count: int, batch: int) -> Contender:
    """A Redis stream with a consumer group, so many entries at a time."""
    client = redis_client(address)
    rounds = iter(range(1_000_000))

    def run() -> float:
        stream = f"round{next(rounds)}of{batch}"
        client.xgroup_create(stream, "group", id="0", mkstream=True)
        pipeline = client.pipeline()
        for _ in range(count):
            pipeline.xadd(stream, {"body": BODY})
        pipeline.execute()
        started = time.perf_counter()
        while found := client.xreadgroup("group", "one", {stream: ">"}, count=batch):
            ((_, entries),) = found
            client.xack(stream, "group", *(id for id, _ in entries))
        return (time.perf_counter() - started) / count

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    count = settings.scaled(3000)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-")))
        contenders = {
            "ackbus worker": ours(folder, count),
            "ackbus, job by job": one_by_one(folder, count),
            "litequeue": with_litequeue(folder, count),
        }
        address = stack.enter_context(redis_server(folder))
        if address is not None:
            contenders["redis streams"] = with_redis(address, count, 1)
            contenders["redis streams, 32 at a time"] = with_redis(address, count, 32)
        times = compare(contenders, settings.rounds)
    results: dict[str, object] = {name: spread(seconds) for name, seconds in times.items()}
    for peer in set(times) - {"ackbus worker"}:
        results[f"ackbus worker is faster than {peer} by"] = ratio(times, "ackbus worker", peer)
    record("claim, do nothing, complete: microseconds for each job", results, settings)


if __name__ == "__main__":
    main()
