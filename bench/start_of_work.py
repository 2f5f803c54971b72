"""How soon does a handler start, in another process that has nothing else to do?

From the call that publishes to the call of the handler, after the worker was idle for a few
milliseconds and for longer (a processor that slept is slow at first), against XADD and
XREADGROUP BLOCK through redis-py. Then without the doorbell (a program with its own SQL never
rings): a worker looks for itself every 250 ms. And how much does `bus run` add to its command?
"""

from __future__ import annotations

import json
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import apsw
from listening import Listening
from measure import Options, options, percentiles, record
from peers import redis_client, redis_server

from ackbus import Bus, Draft
from ackbus.schema.queries import file_of

#: How long each contender is idle before a message: the shortest pause and the step between them,
#: in seconds.
IDLE = {"1 to 4 ms": (0.001, 0.0005), "20 to 80 ms": (0.02, 0.01)}

#: A worker whose handler notes how long ago the message was published; it ends with the input.
WORKER = """
import json, sys, threading, time
from ackbus import Bus, Worker
waits = []
with Bus.open(sys.argv[1]) as bus:
    worker = Worker(bus, "tick.work")
    threading.Thread(target=lambda: (sys.stdin.read(), worker.stop()), daemon=True).start()
    def handle(message):
        waits.append(time.monotonic_ns() - int(message.headers.get("at") or message.payload))
        print(len(waits), flush=True)
    worker.run(handle)
print(json.dumps(waits))
"""

#: The same for a Redis stream.
CONSUMER = """
import json, sys, threading, time
import redis
client = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=None)
waits, ended = [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    for _, entries in client.xreadgroup("group", "one", {"tick": ">"}, count=1, block=250) or ():
        for id, fields in entries:
            waits.append(time.monotonic_ns() - int(fields[b"at"]))
            client.xack("tick", "group", id)
            print(len(waits), flush=True)
print(json.dumps(waits))
"""

#: A message by plain SQL: nobody rings.
RAW_INSERT = """
INSERT INTO messages (id, ts_ms, from_agent, type, headers) VALUES (?, ?, 'bench', 'tick.work', ?)
"""


def serve(
    worker: Listening, send: Callable[[], object], count: int, pause_s: float, step_s: float
) -> None:
    """Send so many, each some time after the one before has arrived."""
    for number in range(count):
        send()
        worker.next_line()
        time.sleep(pause_s + number % 7 * step_s)


def ours(folder: Path, count: int, pause_s: float, step_s: float) -> list[float]:
    """Publish for a worker."""
    with Bus.init(folder / "bus") as bus:
        worker = Listening(WORKER, bus.layout.directory)

        def send() -> None:
            bus.publish("tick.work", time.monotonic_ns(), from_agent="bench")

        serve(worker, send, count + 3, pause_s, step_s)
        return worker.end(3)


def with_redis(address: str, count: int, pause_s: float, step_s: float) -> list[float]:
    """Add to a stream."""
    client = redis_client(address)
    client.delete("tick")
    client.xgroup_create("tick", "group", id="0", mkstream=True)
    consumer = Listening(CONSUMER, address)

    def send() -> None:
        client.xadd("tick", {"at": time.monotonic_ns()})

    serve(consumer, send, count + 3, pause_s, step_s)
    return consumer.end(3)


def without_the_bell(folder: Path, count: int) -> list[float]:
    """Insert by plain SQL."""
    with Bus.init(folder / "silent") as bus:
        raw = apsw.Connection(bus.layout.database)
        raw.execute("PRAGMA busy_timeout = 5000").fetchall()
        worker = Listening(WORKER, bus.layout.directory)

        def send() -> None:
            at = time.monotonic_ns()
            raw.execute(RAW_INSERT, (str(at), time.time_ns() // 1_000_000, json.dumps({"at": at})))

        serve(worker, send, count + 1, 0.01, 0.017)
        raw.close()
        return worker.end(1)


def run_adds(folder: Path, count: int) -> float:
    """Return how much longer a job of `bus run -- true` takes than `true` alone, in seconds.

    From the first claim to the last end, so that the start of the program is not counted.
    """
    with Bus.init(folder / "run") as bus:
        type = f"at{time.monotonic_ns()}.work"
        bus.publish_many(Draft(type, from_agent="bench") for _ in range(count))
        command = [f"{sysconfig.get_path('scripts')}/bus", "run", "--type", type, "--drain"]
        command += ["--dir", bus.layout.directory, "--", "true"]
        subprocess.run(command, check=True)
        ((first, last),) = file_of(bus).rows(
            "SELECT min(claimed_at_ms), max(ended_at_ms) FROM claims"
            " WHERE queue_id = (SELECT id FROM queues WHERE name = ?)",
            (type,),
        )
    started = time.perf_counter()
    for _ in range(count):
        subprocess.run(["true"], check=True, capture_output=True, input=b"")
    alone = (time.perf_counter() - started) / count
    return (last - first) / 1e3 / count - alone


def measure(settings: Options) -> dict[str, object]:
    """Return the results."""
    count = settings.scaled(100, least=3)
    results: dict[str, object] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ackbus-bench-")))
        address = stack.enter_context(redis_server(folder))
        for idle, (pause_s, step_s) in IDLE.items():
            here: list[float] = []
            there: list[float] = []
            for _ in range(settings.rounds):
                here += ours(folder, count, pause_s, step_s)
                if address is not None:
                    there += with_redis(address, count, pause_s, step_s)
            results[f"ackbus, idle for {idle}"] = percentiles(here)
            if address is not None:
                results[f"redis streams, idle for {idle}"] = percentiles(there)
        silent = without_the_bell(folder, settings.scaled(60, least=3))
        results["ackbus, without the doorbell"] = percentiles(silent)
        added = [run_adds(folder, settings.scaled(200)) for _ in range(settings.rounds)]
        results["bus run adds to each command"] = percentiles(added)
    return results


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    record("the start of work: milliseconds", measure(chosen), chosen)
