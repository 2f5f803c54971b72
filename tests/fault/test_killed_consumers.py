"""kill -9 in the middle of an inbox: nothing is skipped, and at most one message comes again."""

import os
import random
from pathlib import Path

import pytest

from ackbus import Bus, Draft, Inbox

from ..concurrency.actors import StartActor
from ..sizes import size
from .evidence import raw_rows

pytestmark = pytest.mark.slow

MESSAGES = 5000
ROUNDS = size(sample=5, whole=12)


def fill(bus: Bus) -> None:
    bus.publish_many([Draft("work", number, from_agent="ours") for number in range(MESSAGES)])


def test_an_acknowledgement_that_returned_is_kept(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-37, M-50: each victim goes on where the last one was, give or take the one at hand."""
    fill(bus)
    chance = random.Random(4)
    inbox = Inbox(bus, "ann")
    for _ in range(ROUNDS):
        before = inbox.position
        victim = start("acker", bus_dir, "ann")
        victim.wait_told(chance.randrange(1, 40))
        told = victim.kill()
        assert told == list(range(before + 1, before + 1 + len(told)))
        assert inbox.position - told[-1] in (0, 1)
    raw_rows(bus_dir)


def test_a_killed_loop_skips_nothing_and_repeats_one(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-35, M-53, C-08: what each victim was handling is the first that the next one is given."""
    fill(bus)
    chance = random.Random(5)
    inbox = Inbox(bus, "ann")
    last, handled = 0, True
    for turn in range(ROUNDS):
        number = chance.randrange(1, 40)
        hangs = turn % 2 == 0  # every second victim dies inside a handler for certain
        victim = start("consumer", bus_dir, "ann", number if hangs else 0)
        victim.wait_told(number)
        told = victim.kill()
        seqs = [seq for seq, _ in told]
        first = last + 1 if handled else last
        assert seqs == list(range(first, first + len(seqs)))
        # A victim that died between two messages is taken to have died over the next one.
        assert [attempt for _, attempt in told] == [1 if turn == 0 else 2] + [1] * (len(told) - 1)
        last = seqs[-1]
        handled = inbox.position == last
        assert inbox.position in (last - 1, last)
        assert not (hangs and handled), "acknowledged before the handler had ended"
    assert inbox.parked() == [], "each message was delivered twice at most"
    rest = [message.seq for message in inbox.poll(MESSAGES)]
    assert rest == list(range(inbox.position + 1, MESSAGES + 1))


def test_completing_answers_each_message_once_whoever_dies(
    start: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-38, promise 7: acknowledgement and reply are one transaction, so no kill comes between."""
    bus.heartbeats.beat("ann")
    bus.publish_many(
        [Draft("ask", n, from_agent="ours", to_agent="ann") for n in range(1, 1001)],
    )
    chance = random.Random(6)
    inbox = Inbox(bus, "ann")
    kills = 0
    while inbox.poll(1):
        victim = start("completer", bus_dir, "ann")
        victim.wait_told(1)
        goal = inbox.position + chance.randrange(1, 100)
        while inbox.position < min(goal, 1000):
            os.sched_yield()
        victim.kill()
        kills += 1
    replies = [message.payload for message in bus.read() if message.type == "reply"]
    assert replies == list(range(1, 1001))
    assert kills > 2
