"""The actors of these tests: `python roles.py ROLE ARGUMENT…`. Knows nothing of pytest."""

import fcntl
import json
import mmap
import os
import random
import signal
import sys
import time

from ackbus import Bus, Draft, Inbox, Lease
from ackbus.bus.doorbell import listen
from ackbus.errors import IdConflict
from ackbus.subscribers.queues.queue import Queue

#: Rounds of `player` with one listener: the kernel takes milliseconds to close each.
ROUNDS_A_LISTENER = 5


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def pass_gate(path: str) -> None:
    tell("ready")
    with open(path) as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)


def publisher(directory: str, name: str, messages: str, recipients: str, gate: str) -> None:
    """Publishes messages 0, 1, …: the even ones to all, the odd ones to one agent after another.

    The last one is followed by a broadcast of type `last`. Tells its slowest publish, in seconds.
    """
    names = recipients.split(",")
    with Bus.open(directory) as bus:
        pass_gate(gate)
        slowest = 0.0
        for number in range(int(messages)):
            to = None if number % 2 == 0 else names[number // 2 % len(names)]
            began = time.monotonic()
            bus.publish("work", number, from_agent=name, to_agent=to)
            slowest = max(slowest, time.monotonic() - began)
        bus.publish("last", from_agent=name)
    tell(slowest)


def poller(directory: str, name: str, publishers: str, gate: str) -> None:
    """Polls and acknowledges until each publisher's last message came; tells all it was given."""
    given: list[tuple[int, str, object]] = []
    running = int(publishers)
    with Bus.open(directory) as bus, listen(bus) as listener:
        inbox = Inbox(bus, name)
        pass_gate(gate)
        while running:
            messages = inbox.poll(50)
            for message in messages:
                given.append((message.seq, message.from_agent, message.payload))
                running -= message.type == "last"
                inbox.ack(message)
            if not messages:
                listener.wait(2)
    tell(given)


def watcher(directory: str, publishers: str, gate: str) -> None:
    """Reads the log from where it last ended, over and over; tells the seqs in order of sight."""
    seen: list[int] = []
    running = int(publishers)
    with Bus.open(directory) as bus:
        pass_gate(gate)
        while running:
            for message in bus.read(after_seq=seen[-1] if seen else 0):
                seen.append(message.seq)
                running -= message.type == "last"
    tell(seen)


def racer(directory: str, name: str, *gates: str) -> None:
    """Behind each gate, asks for that round's lease; tells its token, or null."""
    with Bus.open(directory) as bus:
        for number, gate in enumerate(gates):
            pass_gate(gate)
            lease = bus.leases.acquire(f"job-{number}", name)
            tell(lease and lease.token)


def cranker(directory: str, name: str, turns: str, counter: str, gate: str) -> None:
    """Under a lease that all want, adds one to a number in a file, in two steps, `turns` times.

    Tells its tokens.
    """
    tokens: list[int] = []
    with Bus.open(directory) as bus, listen(bus) as listener:
        pass_gate(gate)
        while len(tokens) < int(turns):
            lease = bus.leases.acquire("crank", name)
            if lease is None:
                listener.wait(0.002)
                continue
            _crank(bus, lease, counter)
            tokens.append(lease.token)
    tell(tokens)


def _crank(bus: Bus, lease: Lease, counter: str) -> None:
    with open(counter) as file:
        number = int(file.read())
    lease = bus.leases.renew(lease)
    with open(counter, "w") as file:
        file.write(str(number + 1))
    bus.leases.release(lease)


def renewer(directory: str, name: str, renewals: str, gate: str) -> None:
    """Holds a lease of its own and renews it; asks for everybody else's between. Tells thefts."""
    thefts = 0
    with Bus.open(directory) as bus:
        lease = bus.leases.acquire(name, name)
        assert lease is not None
        pass_gate(gate)
        for number in range(int(renewals)):
            lease = bus.leases.renew(lease)
            thefts += bus.leases.acquire(f"holder-{number % 8}", name) is not None
    tell(thefts)


def heavy(directory: str, name: str, messages: str, gate: str) -> None:
    """Publishes payloads of 64 KB: even ones of its own, odd ones that all heavy actors share."""
    with Bus.open(directory) as bus:
        pass_gate(gate)
        for number in range(int(messages)):
            owner = name if number % 2 == 0 else "shared"
            bus.publish("heavy", [owner, number, "x" * 65_536], from_agent=name)


def batcher(directory: str, name: str, batches: str, size: str, gate: str) -> None:
    """Publishes batches; after each, one that a conflict at its end must undo. Tells conflicts."""
    conflicts = 0
    with Bus.open(directory) as bus:
        taken = bus.publish("taken", from_agent=name).id
        pass_gate(gate)
        for batch in range(int(batches)):
            drafts = [Draft("batch", [batch, n], from_agent=name) for n in range(int(size))]
            bus.publish_many(drafts)
            try:
                bus.publish_many([*drafts, Draft("other", from_agent=name, id=taken)])
            except IdConflict:
                conflicts += 1
    tell(conflicts)


def same_ids(directory: str, name: str, messages: str, gate: str) -> None:
    """Publishes what every such actor publishes, ids included; tells [[seq, duplicate], …]."""
    with Bus.open(directory) as bus:
        pass_gate(gate)
        receipts = [
            bus.publish("shared", number, from_agent="all", id=f"shared-{number}")
            for number in range(int(messages))
        ]
    tell([[receipt.seq, receipt.duplicate] for receipt in receipts])


def player(directory: str, name: str, other: str, rounds: str, gate: str) -> None:
    """Ping-pong: waits for the other's message and answers it.

    Tells how many waits ran out although the message was there.
    """
    missed = 0
    chance = random.Random(name)
    with Bus.open(directory) as bus:
        inbox = Inbox(bus, name)
        pass_gate(gate)
        if name == "ping":
            bus.publish("ball", from_agent=name, to_agent=other)
        for _ in range(int(rounds) // ROUNDS_A_LISTENER):
            # The answer takes about as long: it comes before, between and after what follows.
            _pause(chance)
            with listen(bus) as listener:
                for _ in range(ROUNDS_A_LISTENER):
                    while not (balls := inbox.poll(1)):
                        rung = listener.wait(2.0)
                        missed += not rung and bool(inbox.poll(1))
                    inbox.ack(balls[0])
                    bus.publish("ball", from_agent=name, to_agent=other)
                    _pause(chance)
    tell(missed)


def _pause(chance: random.Random) -> None:
    time.sleep(chance.random() * 0.0008)


def claimer(directory: str, name: str, most: str, gate: str) -> None:
    """Claims jobs one by one and completes each with a reply, up to `most`; tells their seqs."""
    done: list[int] = []
    with Bus.open(directory) as bus:
        queue = Queue.open(bus, "job")
        pass_gate(gate)
        while len(done) < int(most) and (claims := queue.claim(name)):
            for claim in claims:
                queue.complete(claim, Draft("job.done", claim.message.seq, from_agent=name))
                done.append(claim.message.seq)
    tell(done)


def server(directory: str, name: str, gate: str) -> None:
    """Takes jobs as they come until it is given the payload "stop".

    Tells how many waits ran out although there was work, and the payloads.
    """
    missed = 0
    given: list[object] = []
    with Bus.open(directory) as bus, listen(bus) as listener:
        queue = Queue.open(bus, "job")
        pass_gate(gate)
        while given[-1:] != ["stop"]:
            claims = queue.claim(name)
            if not claims:
                rung = listener.wait(2.0)
                claims = [] if rung else queue.claim(name)
                missed += bool(claims)
            for claim in claims:
                queue.complete(claim)
                given.append(claim.message.payload)
    tell([missed, given])


def answerer(directory: str, name: str, parent: str, messages: str, gate: str) -> None:
    """Publishes replies to one message: each reads its parent before it writes."""
    with Bus.open(directory) as bus:
        pass_gate(gate)
        for number in range(int(messages)):
            bus.publish("answer", number, from_agent=name, in_reply_to=parent)


def holder(directory: str, name: str) -> None:
    """Claims a job under a short lease, tells its seq, and is at it until it is killed."""
    with Bus.open(directory) as bus:
        (claim,) = Queue.open(bus, "job").claim(name, lease_s=0.2)
        tell(claim.message.seq)
        signal.pause()


def reserver(directory: str, name: str, place: str, rounds: str, board: str, gate: str) -> None:
    """Reserves a path in each round, together with all others; tells the rounds that it won.

    The board has a byte for each reserver, at its place: the round that it has reached.
    """
    won = []
    with Bus.open(directory) as bus, open(board, "r+b") as file:
        reached = mmap.mmap(file.fileno(), 0)
        pass_gate(gate)
        for number in range(1, int(rounds) + 1):
            reached[int(place)] = number
            while min(reached[:]) < number:
                pass  # both begin a round in the same microsecond
            if bus.reservations.reserve([f"r{number}/{name}*", f"r{number}/*.py"], name).granted:
                won.append(number)
    tell(won)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
