"""How many events a second reach 50 SSE clients from one publisher, and how soon?

The publisher, the server and the clients are processes of their own. Every client checks that no
event is lost, doubled or out of order; one that finds such a thing ends the run. Paced, the
publisher sends 10,000 messages a second in commits of 100; else it sends as fast as it can.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from listening import Listening
from measure import Options, at_least, at_most, options, percentiles, record, summary
from payloads import SIZES, Payload, payloads

from ackbus import Bus

CLIENTS = 50
#: What the publisher is to reach, in messages a second, and how many it commits at once.
RATE, AT_ONCE = 10_000, 100
#: Of how many messages one is asked how long it was on its way.
SAMPLED = 50

SERVER = "import sys; sys.argv[0] = 'bus'; from ackbus.cli import main; main()"

#: Prints when it began and ended, and for every sampled message its seq and when it was sent.
PUBLISHER = """
import json, sys, time
from ackbus import Bus, Draft
directory, count, rate, at_once, sampled, text = sys.argv[1:]
count, rate, at_once, sampled = int(count), float(rate), int(at_once), int(sampled)
sent = []
with Bus.open(directory) as bus:
    started = time.monotonic()
    for number in range(0, count, at_once):
        if rate:
            time.sleep(max(0, started + number / rate - time.monotonic()))
        drafts = [Draft("bench.note", text, from_agent="bench") for _ in range(at_once)]
        at = time.monotonic_ns()
        receipts = bus.publish_many(drafts)
        sent += [(each.seq, at) for each in receipts if each.seq % sampled == 0]
    print(json.dumps({"seconds": time.monotonic() - started, "sent": sent}))
"""

#: Prints when each client had got how far, and how far out of order or short it was, if at all.
CLIENTS_PROGRAM = """
import json, re, selectors, socket, sys, time
port, clients, last = map(int, sys.argv[1:])
ids = re.compile(rb"id: ([0-9]+)\\nevent")
expected = [b"%d" % seq for seq in range(last + 1)]
sockets = selectors.DefaultSelector()
rests, nexts, marks = {}, {}, {}
for number in range(clients):
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"GET /v1/events?after=0 HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n")
    head = b""
    while b"retry:" not in head:
        head += client.recv(65536)
    assert b" 200 " in head, head
    sockets.register(client, selectors.EVENT_READ, number)
    rests[number], nexts[number], marks[number] = head.partition(b"retry:")[2], 1, []
print("ready", flush=True)
while sockets.get_map():
    for key, _ in sockets.select():
        number = key.data
        data = key.fileobj.recv(1 << 18)
        assert data, "the server has ended the stream"
        at = time.monotonic_ns()
        whole, mark, rest = (rests[number] + data).rpartition(b"\\n\\n")
        rests[number] = rest
        found = ids.findall(whole)
        begin = nexts[number]
        end = nexts[number] = begin + len(found)
        assert found == expected[begin:end], (number, begin, found[:9])
        if found:
            marks[number].append((end - 1, at))
            if end > last:
                sockets.unregister(key.fileobj)
                key.fileobj.close()
print(json.dumps(list(marks.values())), flush=True)
"""


@dataclass(frozen=True)
class Run:
    """What one run measured: what was published and received a second, and the waits."""

    published_a_s: float
    received_a_s: float
    waits_s: list[float]
    memory_before_mb: float
    memory_most_mb: float
    server_cpu: float


@contextmanager
def server(directory: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server of a bus; gives its port and its process."""
    command = [sys.executable, "-c", SERVER, "serve", "--json", "--port", "0", "--dir"]
    process = subprocess.Popen([*command, directory], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        try:
            yield int(url.rpartition(":")[2]), process
        finally:
            process.terminate()


def run(directory: Path, payload: Payload, count: int, rate: float) -> Run:
    """Publish to all clients, and wait until each has everything."""
    Bus.init(directory).close()
    with server(directory) as (port, process):
        clients = Listening(CLIENTS_PROGRAM, str(port), str(CLIENTS), str(count))
        try:
            assert clients.next_line() == "ready\n"
            before, cpu = memory_mb(process.pid, "VmRSS"), cpu_s(process.pid)
            published = publish(directory, payload, count, rate)
            marks = json.loads(clients.next_line())
        finally:
            clients.kill()
        sent: list[tuple[int, int]] = published["sent"]
        first = sent[0][1]
        last = max(marks_of[-1][1] for marks_of in marks)
        seconds = (last - first) / 1e9
        return Run(
            count / published["seconds"],
            count / seconds,
            list(waits(sent, marks)),
            before,
            memory_mb(process.pid, "VmHWM"),
            (cpu_s(process.pid) - cpu) / seconds,
        )


def publish(directory: Path, payload: Payload, count: int, rate: float) -> dict[str, Any]:
    """Let another process publish, and return what it tells."""
    given = [directory, count, rate, AT_ONCE, SAMPLED, payload.text]
    command = [sys.executable, "-c", PUBLISHER, *map(str, given)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def waits(sent: list[tuple[int, int]], marks: list[list[tuple[int, int]]]) -> Iterator[float]:
    """Yield how long each sampled message took to each client, in seconds."""
    for marks_of in marks:
        for seq, at in sent:
            reached = bisect_left(marks_of, seq, key=lambda mark: mark[0])
            yield (marks_of[reached][1] - at) / 1e9


def memory_mb(pid: int, which: str) -> float:
    """Return a figure of a process's memory."""
    for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    raise LookupError(which)


def cpu_s(pid: int) -> float:
    """Return how long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def told(runs: list[Run]) -> dict[str, object]:
    """Return the answers of some runs."""
    return {
        "published a second": summary([each.published_a_s for each in runs]),
        "received by every client, a second": summary([each.received_a_s for each in runs]),
        "publish to client": percentiles([wait for each in runs for wait in each.waits_s]),
        "memory of the server before, MB": summary([each.memory_before_mb for each in runs]),
        "memory of the server at most, MB": summary([each.memory_most_mb for each in runs]),
        "processor time of the server a second": summary([each.server_cpu for each in runs]),
    }


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[next(iter(SIZES))]
    count = settings.scaled(100_000, least=2 * AT_ONCE) // AT_ONCE * AT_ONCE
    rates = {"paced": float(RATE), "as fast as possible": 0.0}
    runs: dict[str, list[Run]] = {name: [] for name in rates}
    for number in range(settings.rounds):
        for name, rate in rates.items():
            runs[name].append(run(folder / f"{name}{number}", payload, count, rate))
    grown = [each.memory_most_mb - each.memory_before_mb for all in runs.values() for each in all]
    paced = summary([each.received_a_s / each.published_a_s for each in runs["paced"]])
    record(
        f"from one publisher to {CLIENTS} SSE clients: a second, milliseconds, MB",
        {name: told(of_rate) for name, of_rate in runs.items()},
        settings,
        targets=[
            at_least("received, as a part of what was published, paced", 0.97, paced),
            at_least(
                "events a second to every client, as fast as possible",
                RATE,
                summary([each.received_a_s for each in runs["as fast as possible"]]),
            ),
            at_most("memory that the server took meanwhile", 100, summary(grown), "MB"),
        ],
        conditions={
            "payloads": [payload.described()],
            "messages a round": count,
            "in a commit": AT_ONCE,
            "paced": f"{RATE:,} a second",
            "load of the machine": f"{statistics.mean(load()):.1f}",
        },
    )


def load() -> tuple[float, ...]:
    """Return how many processes wanted to run in the last minute."""
    import os

    return os.getloadavg()[:1]


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
