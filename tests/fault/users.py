"""Programs that use a bus for ever, each in one way, until it refuses.

`python users.py ROLE BUS [FILE]`: by how many milliseconds their clock is wrong stands in the file.
They tell what they have done, as it is done, and at their end [the error's name, its text].
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.errors import AckbusError, ClaimLost, LeaseLost

#: Between two acts of those who would else fill the disk, in seconds.
PAUSE_S = 0.002


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def publisher(bus: Bus) -> None:
    for number in count():
        tell(bus.publish("note", number, from_agent="publisher").id)
        time.sleep(PAUSE_S)


def large_publisher(bus: Bus) -> None:
    for number in count():
        tell(bus.publish("note", [number, "x" * 5000], from_agent="large").id)
        time.sleep(PAUSE_S)


def thread_publisher(bus: Bus) -> None:
    """Publishes in one thread after the other: each opens the file by its name."""
    for number in count():
        with ThreadPoolExecutor(1) as pool:
            publish = pool.submit(bus.publish, "note", number, from_agent="thread")
        tell(publish.result().id)
        time.sleep(PAUSE_S)


def poller(bus: Bus) -> None:
    """Looks, and finds nothing."""
    inbox = Inbox(bus, "poller")
    while True:
        tell(len(inbox.poll(1, type="never")))
        time.sleep(PAUSE_S)


def acknowledger(bus: Bus) -> None:
    inbox = Inbox(bus, "acknowledger")
    while True:
        for message in inbox.poll(1):
            tell(inbox.ack(message))


def loop(bus: Bus) -> None:
    Inbox(bus, "loop").run(lambda message: tell(message.seq))


def waiter(bus: Bus) -> None:
    """As `loop`, and tells only that it begins."""
    tell("ready")
    Inbox(bus, "waiter").run(lambda message: None)


def follower(bus: Bus) -> None:
    for message in bus.follow(after_seq=0):
        tell(message.seq)


def claimer(bus: Bus) -> None:
    """Answers each message; a claim that is lost to a step of the clock comes again.

    Its queue hides nothing: loops read the notes too.
    """
    queue = Queue.create(bus, "note", max_attempts=1000, backoff_s=0.01, hides="none")
    while True:
        for claim in queue.claim("claimer"):
            with suppress(ClaimLost):
                queue.complete(claim, Draft("answer", claim.message.seq, from_agent="claimer"))
                tell(claim.message.seq)
        time.sleep(PAUSE_S)


def leaser(bus: Bus) -> None:
    """Takes one lease again and again, and tells its tokens."""
    while True:
        lease = bus.leases.acquire("often", "leaser")
        if lease is not None:
            tell(lease.token)
            with suppress(LeaseLost):
                bus.leases.release(lease)
        time.sleep(PAUSE_S)


def renewer(bus: Bus) -> None:
    """Keeps a short lease for as long as it can, and tells its token each time."""
    lease = bus.leases.acquire("kept", "renewer", lease_s=3)
    assert lease is not None
    while True:
        tell(lease.token)
        lease = bus.leases.renew(lease, lease_s=3)
        time.sleep(0.05)


def stepped(offset: str) -> int:
    return time.time_ns() // 1_000_000 + int(Path(offset).read_text())


def exporter(bus: Bus) -> None:
    tell("ready")
    Exporter(bus).follow()


if __name__ == "__main__":
    clock = {"clock": partial(stepped, *sys.argv[3:])} if sys.argv[3:] else {}
    with Bus.open(sys.argv[2], **clock) as opened:
        try:
            globals()[sys.argv[1]](opened)
        except AckbusError as error:
            tell([type(error).__name__, str(error)])
