"""What is the way from a publish to its handler made of, when both have paused before?

Each step is counted from the call that publishes. What the same calls take without a pause, when
their memory is in the processor's caches, stands beside it; and the way of a Redis stream.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from latency import CONSUMER, PAUSES_S, WARM_UP, send
from listening import Listening
from measure import Options, options, percentiles, record
from payloads import USUAL, Payload, payloads
from peers import redis_client, redis_server

from ackbus import Bus, Inbox

#: The seconds that each step took, by the step.
Steps = dict[str, list[float]]

#: An agent that notes when it is awake, when it has polled, and when it has the payload.
READER = """
import json, sys, time
from ackbus import Bus, Inbox
from ackbus.bus.doorbell import listen
waits, ended = [], False
with Bus.open(sys.argv[1]) as bus, listen(bus) as listener:
    inbox = Inbox(bus, "reader")
    print("ready", flush=True)
    while not ended:
        listener.wait(2.0)
        awake = time.monotonic_ns()
        messages = inbox.poll()
        polled = time.monotonic_ns()
        for message in messages:
            ended = message.type == "bench.end"
            if not ended:
                message.payload
                handled = time.monotonic_ns()
                waits += [each - message.headers["at"] for each in (awake, polled, handled)]
        if messages:
            inbox.ack(messages[-1])
print(json.dumps(waits))
"""

#: What it notes, in order.
NOTED = ("2 the reader is awake", "3 it has polled", "4 it has the payload")


def hot(folder: Path, payload: Payload, count: int) -> Steps:
    """Publish, poll and acknowledge in one process, without a pause: what each takes by itself."""
    steps: Steps = {"publish": [], "poll of one": [], "acknowledge": []}
    with Bus.init(folder) as bus:
        bus.heartbeats.beat("reader")
        inbox = Inbox(bus, "reader")
        for text in payload.texts(count + WARM_UP):
            times = [time.perf_counter()]
            headers = {"at": time.monotonic_ns()}
            receipt = bus.publish(
                "bench.note", text, from_agent="bench", to_agent="reader", headers=headers
            )
            times.append(time.perf_counter())
            inbox.poll()
            times.append(time.perf_counter())
            inbox.ack(receipt.seq)
            times.append(time.perf_counter())
            for step, (began, ended) in zip(steps, pairwise(times), strict=True):
                steps[step].append(ended - began)
    return {step: seconds[WARM_UP:] for step, seconds in steps.items()}


def ours(folder: Path, payload: Payload, count: int) -> Steps:
    """Publish for a reader in another process, at random times."""
    published: list[float] = []
    with Bus.init(folder) as bus:
        bus.heartbeats.beat("reader")

        def publish(text: str) -> None:
            headers = {"at": time.monotonic_ns()}
            bus.publish("bench.note", text, from_agent="bench", to_agent="reader", headers=headers)
            published.append((time.monotonic_ns() - headers["at"]) / 1e9)

        listener = Listening(READER, bus.layout.directory)
        send(listener, publish, payload, count)
        bus.publish("bench.end", from_agent="bench")
        noted = listener.end(WARM_UP * len(NOTED))
    steps = {"1 publish has returned": published[WARM_UP:]}
    return steps | {step: noted[place :: len(NOTED)] for place, step in enumerate(NOTED)}


def with_redis(address: str, payload: Payload, count: int) -> Steps:
    """Add to a stream for a reader in another process, at random times."""
    added: list[float] = []
    with redis_client(address) as client:
        client.delete("tick")

        def add(text: str) -> None:
            at = time.monotonic_ns()
            client.xadd("tick", {"body": text, "at": at})
            added.append((time.monotonic_ns() - at) / 1e9)

        listener = Listening(CONSUMER, address)
        send(listener, add, payload, count)
        client.xadd("tick", {"end": "1"})
        read = listener.end(WARM_UP)
    return {"1 XADD has returned": added[WARM_UP:], "2 XREAD has returned": read}


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    count = settings.scaled(400, least=5)
    with ExitStack() as stack:
        address = stack.enter_context(redis_server(folder))
        ways: dict[str, Callable[[int], Steps]] = {
            "ackbus, after a pause": lambda n: ours(folder / f"cold{n}", payload, count),
            "ackbus, without a pause, each by itself": lambda n: hot(
                folder / f"hot{n}", payload, count
            ),
        }
        if address is not None:
            ways["redis, after a pause"] = lambda n: with_redis(address, payload, count)
        rounds: dict[str, list[Steps]] = {name: [] for name in ways}
        for number in range(settings.rounds):
            for name, way in ways.items():
                rounds[name].append(way(number))
    record(
        "from publish to handler, step by step: milliseconds since the call",
        {
            name: {
                step: percentiles([each for steps in all for each in steps[step]])
                for step in all[0]
            }
            for name, all in rounds.items()
        },
        settings,
        conditions={
            "payloads": [payload.described()],
            "pauses, in seconds": list(PAUSES_S),
            "messages a round": count,
        },
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
