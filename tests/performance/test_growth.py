"""The cost of an act does not depend on the length of the log: counted in steps of SQLite."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.bus.log.catalog import BLOCK_SEQS
from ackbus.subscribers.inboxes.failed_deliveries import Cursors
from ackbus.subscribers.overview.retention import Retention

from ..costs import Cost, counting

#: Two lengths of a log, which end equally far into a block of the catalog.
SHORT, LONG = 4_000, 4_000 + 10 * BLOCK_SEQS
AGENTS = 20

#: Is given a bus, and returns what is to be counted.
Begin = Callable[[Bus], Callable[[], object]]


def polling(bus: Bus, agent: str, newest: int | None = None) -> Callable[[], object]:
    inbox = Inbox(bus, agent)
    if newest is not None:
        inbox.ack(newest)
    return inbox.poll


def claiming(bus: Bus) -> Callable[[], object]:
    queue = Queue.create(bus, "review.request")
    queue.claim("worker")  # takes a page of messages in
    return lambda: queue.claim("worker")


def exporting(bus: Bus) -> Callable[[], object]:
    Exporter(bus).export_once()
    publish(bus, bus.log.newest_seq(), 100)
    return Exporter(bus).export_once


ACTS: dict[str, Begin] = {
    "publish": lambda bus: lambda: bus.publish("note", from_agent="agent-1", to_agent="agent-2"),
    "reply": lambda bus: lambda: bus.publish("note", from_agent="agent-1", in_reply_to="message-7"),
    "poll, nothing new": lambda bus: polling(bus, "idle", bus.log.newest_seq()),
    "poll, some way behind": lambda bus: polling(bus, "agent-3", bus.log.newest_seq() - 2_000),
    "poll, new agent": lambda bus: polling(bus, "newcomer"),
    "count what waits": lambda bus: lambda: Cursors.of(bus).count_unread("agent-3", 100),
    "ack": lambda bus: lambda: Inbox(bus, "agent-4").ack(1_000),
    "get": lambda bus: lambda: bus.get("message-77"),
    "read a conversation": lambda bus: lambda: list(bus.read(conversation="conversation-9")),
    "answer of a conversation": lambda bus: lambda: bus.answer("conversation-9"),
    "replay": lambda bus: lambda: list(bus.read(after_seq=1_000, upto_seq=2_000)),
    "newest": lambda bus: lambda: bus.log.newest(10),
    "export": exporting,
    "names of agents": lambda bus: bus.agents.names,
    "plan an archive": lambda bus: lambda: Retention(bus).plan(100),
    "claim": claiming,
}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Bus]]:
    """A short log and a long one, both counted in their catalogs."""
    folder = tmp_path_factory.mktemp("growth")
    found = [filled(folder / str(length), length) for length in (SHORT, LONG)]
    yield found
    for bus in found:
        bus.close()


def filled(directory: Path, length: int) -> Bus:
    bus = Bus.init(directory)
    for number in range(AGENTS):
        bus.heartbeats.beat(f"agent-{number}")
    publish(bus, 0, length)
    bus.stats()
    return bus


def publish(bus: Bus, start: int, count: int) -> None:
    bus.publish_many(
        Draft(
            ("review.request", "review.done", "note")[number % 3],
            id=f"message-{number}",
            from_agent=f"agent-{number % AGENTS}",
            to_agent=None if number % 10 == 0 else f"agent-{number * 7 % AGENTS}",
            correlation_id=f"conversation-{number // 20}",
        )
        for number in range(start, start + count)
    )


def cost(bus: Bus, begin: Begin) -> Cost:
    act = begin(bus)
    bus.stats()  # counts what has come since
    with counting(bus) as found:
        act()
    return found


@pytest.mark.parametrize("name", ACTS)
def test_act_costs_the_same_however_long_the_log_is(logs: list[Bus], name: str) -> None:
    """M-16, M-48, P-14: six times the messages, not one step more."""
    short, long = (cost(bus, ACTS[name]) for bus in logs)
    assert short == long
    assert short.steps > 0
