"""Programs that use a bus for ever, each in one way, until it refuses: `python users.py ROLE BUS`.

They tell what they have done, as it is done, and at their end [the error's name, its text].
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from ackbus import AckbusError, Bus, Exporter, Inbox, Queue

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
    """Looks in vain."""
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
    for message in bus.follow(from_seq=1):
        tell(message.seq)


def claimer(bus: Bus) -> None:
    queue = Queue.create(bus, "note")
    while True:
        for claim in queue.claim("claimer"):
            queue.complete(claim)
            tell(claim.message.seq)
        time.sleep(PAUSE_S)


def leaser(bus: Bus) -> None:
    for number in count():
        tell(bus.leases.acquire(f"task-{number}", "leaser") is not None)
        time.sleep(PAUSE_S)


def exporter(bus: Bus) -> None:
    tell("ready")
    Exporter(bus).follow()


if __name__ == "__main__":
    with Bus.open(sys.argv[2]) as opened:
        try:
            globals()[sys.argv[1]](opened)
        except AckbusError as error:
            tell([type(error).__name__, str(error)])
