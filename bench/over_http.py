"""How long does a message take over HTTP, from a client that keeps its connection?

Beside the same call in a process that opens the file, which needs no server.
"""

from __future__ import annotations

import json
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from measure import Options, at_most, options, percentiles, record, summary
from payloads import USUAL, payloads

from ackbus import Bus

#: How many calls come before those that count.
WARM_UP = 20


@contextmanager
def served(directory: Path) -> Iterator[HTTPConnection]:
    """A connection to a server of a bus."""
    bus = Path(sysconfig.get_path("scripts"), "bus")
    command: list[str | Path] = [bus, "serve", "--json", "--port", "0", "--dir", directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        assert url.hostname is not None
        connection = HTTPConnection(url.hostname, url.port)
        try:
            yield connection
        finally:
            connection.close()
            process.terminate()


def ask(connection: HTTPConnection, method: str, path: str, body: object = None) -> None:
    """Ask, and read the answer."""
    headers = {"Content-Type": "application/json"}
    content = None if body is None else json.dumps(body)
    connection.request(method, path, content, headers)
    response = connection.getresponse()
    response.read()
    assert response.status < 300, response.status


def times(act: Callable[[int], object], count: int) -> list[float]:
    """Return how long each of some calls took, in seconds."""
    found = []
    for n in range(-WARM_UP, count):
        begin = time.perf_counter()
        act(n)
        if n >= 0:
            found.append(time.perf_counter() - begin)
    return found


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    payload = payloads()[USUAL]
    texts = list(payload.texts(64))
    count = settings.scaled(1000, least=5)
    directory = folder / "bus"
    with Bus.init(directory) as bus, served(directory) as connection:

        def publish(n: int) -> None:
            body = {"type": "bench.note", "from": "bench", "payload": texts[n % len(texts)]}
            ask(connection, "POST", "/v1/messages", body)

        def directly(n: int) -> None:
            bus.publish("bench.note", texts[n % len(texts)], from_agent="bench")

        contenders: dict[str, Callable[[int], object]] = {
            "publish": publish,
            "show a message": lambda n: ask(connection, "GET", "/v1/messages/1"),
            "read 100 messages": lambda n: ask(connection, "GET", "/v1/messages"),
            "publish without a server": directly,
        }
        directly(0)
        found: dict[str, list[list[float]]] = {name: [] for name in contenders}
        for _ in range(settings.rounds):
            for name, act in contenders.items():
                found[name].append(times(act, count))
    medians = [percentiles(each)["p50_ms"] for each in found["publish"]]
    record(
        "a call over HTTP: milliseconds",
        {
            name: percentiles([each for round in rounds for each in round])
            for name, rounds in found.items()
        },
        settings,
        targets=[at_most("p50 of a publish over HTTP, in ms", 3.0, summary(medians))],
        conditions={"payloads": [payload.described()], "calls a round": count},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as name:
        measure(Path(name), chosen)
