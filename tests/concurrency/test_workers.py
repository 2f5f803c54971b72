"""Workers that die at any moment: every message is done, once, and nothing is hushed up."""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.subscribers.queues.queue import Queue

from ..programs import raw_sql
from ..sizes import size
from .actors import Actor, StartActor, actor_starter

#: How many messages: `WORKER_MESSAGES=100000 pytest --timeout 3600 …` for a longer run.
MESSAGES = int(os.environ.get("WORKER_MESSAGES", size(sample=1500, whole=5000)))

#: The workers, by role and concurrency.
CAST = [*[("python", 1)] * 4, *[("python", 4)] * 2, ("shell", 1), ("shell", 3)]

QUEUE = "x.request"
#: As short as a busy machine with eight workers allows.
LEASE_S = 1.0
#: Why claims were lost.
RAN_OUT, HANDED_BACK = "the lease ran out", "handed back by its worker"
#: Seconds between two kills: workers need some to start.
KILL_EVERY_S = 0.1


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartActor]:
    """Starts a role of work_roles.py in a process of its own."""
    yield from actor_starter(Path(__file__).with_name("work_roles.py"), tmp_path)


class Crowd:
    """Eight workers; whoever is killed is followed by another of the same kind."""

    def __init__(self, start: StartActor, bus_dir: Path) -> None:
        self._start = start
        self._bus_dir = bus_dir
        self.workers = [self._new(*cast) for cast in CAST]
        #: [seq, token] of all that handlers in Python have begun.
        self.begun: list[Any] = []
        #: The claims that the killed ones held.
        self.orphans: set[int] = set()

    def kill_one(self, chance: random.Random) -> None:
        number = chance.randrange(len(CAST))
        worker = self.workers[number]
        self.begun += worker.kill()
        # An instance is named after its group and its process, which is gone for good.
        held = raw_sql(
            self._bus_dir,
            "SELECT token FROM claims WHERE status = 'active'"
            f" AND worker_instance LIKE '{QUEUE}-worker-{worker.process.pid}-%'",
        )
        self.orphans |= {token for (token,) in held}
        self.workers[number] = self._new(*CAST[number])

    def end(self) -> None:
        for worker in self.workers:
            self.begun += worker.kill()

    def _new(self, role: str, concurrency: int) -> Actor:
        return self._start(role, self._bus_dir, QUEUE, LEASE_S, concurrency)


def publish_requests(bus: Bus) -> None:
    for first in range(0, MESSAGES, 1000):
        numbers = range(first, min(first + 1000, MESSAGES))
        bus.publish_many([Draft(QUEUE, {"n": n}, from_agent="boss") for n in numbers])


@pytest.mark.slow
def test_every_message_has_one_success_and_one_reply_whoever_is_killed(
    bus: Bus, bus_dir: Path, start_worker: StartActor
) -> None:
    """P-27, K-06, D-17: 8 workers of three kinds; a random one is killed ten times a second."""
    Queue.create(bus, QUEUE, max_attempts=1000)
    bus.heartbeats.beat("boss")
    publish_requests(bus)
    bus.close()

    chance = random.Random(MESSAGES)
    crowd = Crowd(start_worker, bus_dir)
    while raw_sql(bus_dir, "SELECT count(*) FROM jobs WHERE state = 'succeeded'") != [[MESSAGES]]:
        crowd.kill_one(chance)
        time.sleep(KILL_EVERY_S)  # the pace of the harm, not a wait for anything
    crowd.end()

    assert raw_sql(bus_dir, "PRAGMA integrity_check") == [["ok"]]
    check_claims(bus_dir, crowd)
    check_replies(bus_dir)


def check_claims(bus_dir: Path, crowd: Crowd) -> None:
    """One completed claim for each message, all others lost, and none without a record."""
    jobs = dict(raw_sql(bus_dir, "SELECT seq, attempt FROM jobs WHERE state = 'succeeded'"))
    assert sorted(jobs) == list(range(1, MESSAGES + 1))
    assert raw_sql(bus_dir, "SELECT count(*) FROM jobs") == [[MESSAGES]]

    claims = raw_sql(
        bus_dir,
        "SELECT seq, token, attempt, status, error, ended_at_ms, lease_until_ms FROM claims"
        " ORDER BY token",
    )
    history: dict[int, list[str]] = {seq: [] for seq in jobs}
    ran_out: set[int] = set()
    handed_back: set[int] = set()
    for seq, token, attempt, status, error, ended_at_ms, lease_until_ms in claims:
        assert attempt == 1 + history[seq].count(RAN_OUT), "what was handed back does not count"
        history[seq].append(error or status)
        is_expired = ended_at_ms >= lease_until_ms
        assert (status, error, is_expired) in [
            ("completed", None, False),
            ("lost", HANDED_BACK, False),
            ("lost", RAN_OUT, True),
        ]
        if status == "lost":
            (ran_out if error == RAN_OUT else handed_back).add(token)
    for seq, ends in history.items():
        assert ends.index("completed") == len(ends) - 1, "a success is the last thing"
        assert jobs[seq] == 1 + ends.count(RAN_OUT)
    assert ran_out >= crowd.orphans, "a worker died, and its claim is not on record as lost"
    assert crowd.orphans, "no kill met any work: this test has shown nothing"

    begun = Counter(token for _, token in crowd.begun)
    assert set(begun.values()) == {1}, "a claim was worked on twice"
    assert not handed_back & set(begun), "work was begun, and then handed back"
    by_token = {token: seq for seq, token, *_ in claims}
    assert all(by_token[token] == seq for seq, token in crowd.begun)


def check_replies(bus_dir: Path) -> None:
    """One answer for each request, in its conversation, with what it said."""
    answers = raw_sql(
        bus_dir,
        "SELECT asked.seq, answer.type, answer.to_agent, answer.correlation_id = asked.id,"
        "       answer.payload ->> 'n'"
        "  FROM messages AS answer LEFT JOIN messages AS asked ON asked.id = answer.in_reply_to"
        f" WHERE answer.seq > {MESSAGES} ORDER BY asked.seq",
    )
    assert [row[:4] for row in answers] == [
        [seq, "x.done", "boss", 1] for seq in range(1, MESSAGES + 1)
    ]
