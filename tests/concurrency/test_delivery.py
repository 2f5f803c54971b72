"""Publishers and readers at once: every message, to everyone it is for, in order, exactly once."""

from pathlib import Path

import pytest

from ackbus import Bus, Inbox

from ..sizes import size
from .actors import Gate, StartActor, start_together

pytestmark = pytest.mark.slow

PUBLISHERS = [f"publisher-{number}" for number in range(8)]
POLLERS = [f"poller-{number}" for number in range(8)]
MESSAGES = size(sample=100, whole=300)
ROUNDS = size(sample=200, whole=1000)


def know(bus: Bus, *agents: str) -> None:
    for agent in agents:
        bus.heartbeats.beat(agent)


def test_every_poller_gets_exactly_its_messages_in_order(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-35, M-39, M-48, M-54, promise 2: 8 publishers, 8 pollers that acknowledge, 2 readers."""
    know(bus, *POLLERS)
    everybody = start_together(
        start,
        gate,
        [
            *(("poller", bus_dir, name, 8, gate.path) for name in POLLERS),
            *(("watcher", bus_dir, 8, gate.path) for _ in range(2)),
            *(
                ("publisher", bus_dir, n, MESSAGES, ",".join(POLLERS), gate.path)
                for n in PUBLISHERS
            ),
        ],
    )
    told = [actor.end()[1] for actor in everybody]

    log = list(bus.read())
    total = 8 * (MESSAGES + 1)
    assert [message.seq for message in log] == list(range(1, total + 1))
    for publisher in PUBLISHERS:
        sent = [message.payload for message in log if message.from_agent == publisher]
        assert sent == [*range(MESSAGES), None]
    for poller, given in zip(POLLERS, told[:8], strict=True):
        mine = [message for message in log if message.to_agent in (None, poller)]
        assert given == [[one.seq, one.from_agent, one.payload] for one in mine]
        assert Inbox(bus, poller).position == mine[-1].seq
    for seen in told[8:10]:
        assert seen == list(range(1, total + 1)), "a seq came to light below one already seen"


def test_32_writers_lose_nothing_and_none_starves(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-28: the queue for the write lock is fair. The bound is loose: it trips on starvation."""
    names = [f"writer-{number}" for number in range(32)]
    know(bus, "reader")
    casts = [("publisher", bus_dir, name, 50, "reader", gate.path) for name in names]
    slowest_s = [actor.end()[1] for actor in start_together(start, gate, casts)]

    log = list(bus.read())
    assert [message.seq for message in log] == list(range(1, 32 * 51 + 1))
    for name in names:
        assert [m.payload for m in log if m.from_agent == name] == [*range(50), None]
    print(f"slowest publish of 32 writers: {max(slowest_s) * 1000:.0f} ms")
    assert max(slowest_s) < 20


def test_payloads_of_64_kb_from_8_writers_all_parse(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-10, M-88, M-93: also when several write the same blob at the same moment."""
    casts = [("heavy", bus_dir, name, 12, gate.path) for name in PUBLISHERS]
    for actor in start_together(start, gate, casts):
        actor.end()

    for name in PUBLISHERS:
        payloads = [message.payload for message in bus.read(agent=name)]
        owners = [name if number % 2 == 0 else "shared" for number in range(12)]
        assert payloads == [[owner, n, "x" * 65_536] for n, owner in enumerate(owners)]
    names = {path.name for path in (bus_dir / "blobs").iterdir()}
    assert names == set(bus.blobs), "temporary files are left"
    assert len(names) == 8 * 6 + 6


def test_batches_stay_whole_among_single_publishes(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-06, M-44: a batch stands in one piece, and a refused one leaves no trace and no gap."""
    know(bus, "reader")
    batchers, singles = PUBLISHERS[:4], PUBLISHERS[4:]
    everybody = start_together(
        start,
        gate,
        [
            *(("batcher", bus_dir, name, 15, 40, gate.path) for name in batchers),
            *(("publisher", bus_dir, name, 200, "reader", gate.path) for name in singles),
        ],
    )
    told = [actor.end() for actor in everybody]

    assert [conflicts for _, conflicts in told[:4]] == [15] * 4
    log = list(bus.read())
    assert [message.seq for message in log] == list(range(1, 4 * (15 * 40 + 1) + 4 * 201 + 1))
    for name in batchers:
        sent = [message for message in log if (message.from_agent, message.type) == (name, "batch")]
        assert [message.payload for message in sent] == [
            [b, n] for b in range(15) for n in range(40)
        ]
        for first in sent[::40]:
            batch = log[first.seq - 1 : first.seq + 39]
            assert {message.from_agent for message in batch} == {name}
    for name in singles:
        assert [m.payload for m in log if m.from_agent == name] == [*range(200), None]


def test_retries_of_one_message_by_many_store_it_once(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-41: 8 processes publish the same 100 ids; each is stored by exactly one of them."""
    casts = [("same_ids", bus_dir, name, 100, gate.path) for name in PUBLISHERS]
    told = [actor.end()[1] for actor in start_together(start, gate, casts)]

    assert [message.payload for message in bus.read()] == list(range(100))
    for number in range(100):
        receipts = [receipts[number] for receipts in told]
        assert {seq for seq, _ in receipts} == {number + 1}
        assert sorted(duplicate for _, duplicate in receipts) == [False] + [True] * 7


def test_a_waiter_that_listens_before_it_looks_is_always_woken(
    start: StartActor, gate: Gate, bus: Bus, bus_dir: Path
) -> None:
    """M-58: no message falls between the look and the wait: two players, 1,000 rounds each."""
    know(bus, "ping", "pong")
    casts = [
        ("player", bus_dir, "ping", "pong", ROUNDS, gate.path),
        ("player", bus_dir, "pong", "ping", ROUNDS, gate.path),
    ]
    assert [actor.end()[1] for actor in start_together(start, gate, casts)] == [0, 0]
    assert bus.log.newest_seq() == 2 * ROUNDS + 1
