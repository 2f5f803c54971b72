"""How much of a processor do 100 subscribers use that have nothing to do?

Each is a process of its own that runs its inbox. Their time on a processor is read from the
system before and after a while; then each is sent a message, which shows that it was listening.
Beside them, as many that block on a Redis stream.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from listening import Listening
from measure import Options, at_most, options, record, summary, tell
from peers import redis_client, redis_server

from ackbus import Bus

#: How many subscribers there are.
SUBSCRIBERS = 100

#: How long they are watched in a round, in seconds.
WATCHED_S = 10.0

#: Waits for messages, and ends with the first.
INBOX = """
import sys
from ackbus import Bus, Inbox
with Bus.open(sys.argv[1]) as bus:
    inbox = Inbox(bus, sys.argv[2])
    print("ready", flush=True)
    inbox.run(lambda message: inbox.stop())
print([1])
"""

#: The same for a Redis stream.
CONSUMER = """
import sys
import redis
client = redis.Redis(unix_socket_path=sys.argv[1], socket_timeout=None)
client.ping()
print("ready", flush=True)
client.xread({"bench": "$"}, block=0)
print([1])
"""


def cpu_s(pid: int) -> float:
    """Return the time that all threads of a process were on a processor."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


class Idle:
    """Processes that wait.

    Attributes:
        percents: for each round, how much of one processor they all used.
    """

    def __init__(self, listeners: Sequence[Listening]) -> None:
        for listener in listeners:
            listener.next_line()
        self._listeners = listeners
        self._before = 0.0
        self.percents: list[float] = []

    def begin(self) -> None:
        """Begin a round."""
        self._before = self._used()

    def finish(self, seconds: float) -> None:
        """End a round that took so long."""
        self.percents.append((self._used() - self._before) / seconds * 100)

    def wake(self, publish: Callable[[], object]) -> None:
        """Show that all of them were listening: each ends with what is published."""
        publish()
        for listener in self._listeners:
            assert listener.end(), "a subscriber had ended before"

    def _used(self) -> float:
        return sum(cpu_s(listener.pid) for listener in self._listeners)


def watch(groups: dict[str, Idle], rounds: int, seconds: float) -> None:
    """Watch all of them at the same time: an idle process disturbs no other."""
    time.sleep(min(seconds, 3.0))  # what they do at their start is over
    for _ in range(rounds):
        started = time.monotonic()
        for idle in groups.values():
            idle.begin()
        time.sleep(seconds)
        for idle in groups.values():
            idle.finish(time.monotonic() - started)


def measure(folder: Path, settings: Options) -> None:
    """Ask, and write the record."""
    count = settings.scaled(SUBSCRIBERS, least=3)
    seconds = max(0.5, WATCHED_S * settings.size)
    with ExitStack() as stack:
        bus = stack.enter_context(Bus.init(folder / "bus"))
        directory = bus.layout.directory
        address = stack.enter_context(redis_server(folder))

        def listening(program: str, *arguments: str) -> Listening:
            listener = Listening(program, *arguments)
            stack.callback(listener.kill)
            return listener

        inboxes = Idle([listening(INBOX, directory, f"reader-{n}") for n in range(count)])
        groups = {"ackbus": inboxes}
        if address is not None:
            groups["redis"] = Idle([listening(CONSUMER, address) for _ in range(count)])
        watch(groups, settings.rounds, seconds)
        inboxes.wake(lambda: bus.publish("bench.end", from_agent="bench"))
        if address is not None:
            client = redis_client(address)
            groups["redis"].wake(lambda: client.xadd("bench", {"end": "1"}))
    used = {name: summary(idle.percents) for name, idle in groups.items()}
    record(
        f"{count} idle subscribers: all together, in percent of one processor",
        used,
        settings,
        targets=[at_most(f"{count} idle subscribers", 1, used["ackbus"], "% of one processor")],
        conditions={"watched for, in seconds": seconds},
    )


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    if not Path("/proc/self/task").is_dir():
        raise SystemExit(tell("no /proc here: nobody can tell what idle processes use"))
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as directory:
        measure(Path(directory), chosen)
