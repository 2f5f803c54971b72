"""How soon is a handler called in another process, when messages come at random times?

From the call that publishes to the call of the handler. The sender never waits for the handler:
its pauses are random, so some messages meet a handler that is still busy with the one before.
Against XREAD BLOCK of one entry at a time through redis-py, which acknowledges nothing; the inbox
acknowledges each message, so `Bus.follow`, which does not, is asked too.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from listening import Listening
from measure import Options, at_most, options, percentiles, record, summary
from payloads import USUAL, Payload, payloads
from peers import redis_client, redis_server

from ackbus import Bus

#: The shortest and the longest pause between two messages, in seconds.
PAUSES_S = (0.001, 0.03)

#: How many messages are sent before those that count: processes and connections warm up.
WARM_UP = 5

#: An agent that handles its inbox.
INBOX = """
import json, sys, threading, time
from ackbus import Bus, Inbox
waits = []
with Bus.open(sys.argv[1]) as bus:
    inbox = Inbox(bus, "reader")
    threading.Thread(target=lambda: (sys.stdin.read(), inbox.stop()), daemon=True).start()
    def handle(message):
        waits.append(time.monotonic_ns() - message.headers["at"])
    print("ready", flush=True)
    inbox.run(handle)
print(json.dumps(waits))
"""

#: The same without acknowledgement; the last message ends it.
FOLLOWER = """
import json, sys, time
from ackbus import Bus
waits = []
with Bus.open(sys.argv[1]) as bus:
    messages = bus.follow(after_seq=bus.log.newest_seq())
    print("ready", flush=True)
    for message in messages:
        if message.type == "bench.end":
            break
        waits.append(time.monotonic_ns() - message.headers["at"])
print(json.dumps(waits))
"""

#: The same for a Redis stream.
CONSUMER = """
import json, sys, time
import redis
client = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=None)
waits, last = [], "0"
client.ping()
print("ready", flush=True)
while last is not None:
    for _, entries in client.xread({"tick": last}, count=1, block=0):
        for id, fields in entries:
            if b"at" not in fields:
                last = None
                break
            waits.append(time.monotonic_ns() - int(fields[b"at"]))
            last = id
print(json.dumps(waits))
"""


def send(
    listener: Listening, publish: Callable[[str], object], payload: Payload, count: int
) -> None:
    """Publish at random times."""
    pauses = random.Random(count)
    listener.next_line()
    for text in payload.texts(count + WARM_UP):
        time.sleep(pauses.uniform(*PAUSES_S))
        publish(text)
    time.sleep(0.1)  # what is on its way arrives


def ours(folder: Path, program: str, payload: Payload, count: int) -> list[float]:
    """Publish for a reader of the bus."""
    with Bus.init(folder) as bus:
        bus.heartbeats.beat("reader")

        def publish(text: str) -> None:
            headers = {"at": time.monotonic_ns()}
            bus.publish("bench.note", text, from_agent="bench", to_agent="reader", headers=headers)

        listener = Listening(program, bus.layout.directory)
        send(listener, publish, payload, count)
        bus.publish("bench.end", from_agent="bench", to_agent="bench")  # in no inbox that is timed
        return listener.end(WARM_UP)


def with_redis(address: str, payload: Payload, count: int) -> list[float]:
    """Add to a stream."""
    client = redis_client(address)
    client.delete("tick")
    listener = Listening(CONSUMER, address)
    send(
        listener,
        lambda text: client.xadd("tick", {"body": text, "at": time.monotonic_ns()}),
        payload,
        count,
    )
    client.xadd("tick", {"end": "1"})
    return listener.end(WARM_UP)


def compared(waits: dict[str, list[list[float]]], part: str) -> dict[str, float] | None:
    """Return a percentile of the inbox as a part of that of Redis, over the rounds."""
    if "redis" not in waits:
        return None
    pairs = zip(waits["ackbus inbox"], waits["redis"], strict=True)
    return summary([percentiles(here)[part] / percentiles(there)[part] for here, there in pairs])


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    count = settings.scaled(400, least=5)
    with ExitStack() as stack:
        address = stack.enter_context(redis_server(folder))
        contenders: dict[str, Callable[[int], list[float]]] = {
            "ackbus inbox": lambda n: ours(folder / f"inbox{n}", INBOX, payload, count),
            "ackbus follow": lambda n: ours(folder / f"follow{n}", FOLLOWER, payload, count),
        }
        if address is not None:
            contenders["redis"] = lambda n: with_redis(address, payload, count)
        waits: dict[str, list[list[float]]] = {name: [] for name in contenders}
        for number in range(settings.rounds):
            for name, run in contenders.items():
                waits[name].append(run(number))
    record(
        "publish to handler in another process: milliseconds",
        {
            name: percentiles([wait for round in all for wait in round])
            for name, all in waits.items()
        },
        settings,
        targets=[
            at_most("p50, as a part of that of redis", 0.6, compared(waits, "p50_ms")),
            at_most("p99, as a part of that of redis", 1.0, compared(waits, "p99_ms")),
        ],
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
