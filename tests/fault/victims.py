"""Programs that are killed, frozen, or starved: `python victims.py ROLE ARGUMENT…`."""

import json
import os
import resource
import sys
import time
from contextlib import suppress
from itertools import count

from ackbus import Bus, Draft, Exporter, Inbox, Message
from ackbus.errors import AckbusError
from ackbus.export.jsonl.automatic import export_briefly
from ackbus.export.jsonl.exporter import BackgroundExporter


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def publisher(directory: str, name: str, large: str) -> None:
    """Publishes for ever, every fifth time a large payload if asked; tells each id, when it is in.

    The payload is [name, number, …].
    """
    filler = "x" * int(large)
    with Bus.open(directory) as bus:
        for number in count():
            body = [name, number, filler if number % 5 == 0 else ""]
            tell(bus.publish("work", body, from_agent=name, id=f"{name}-{number}").id)


def batcher(directory: str, name: str) -> None:
    """Publishes batches of 20 for ever; tells how many are in."""
    with Bus.open(directory) as bus:
        for number in count(1):
            bus.publish_many([Draft("work", [number, n], from_agent=name) for n in range(20)])
            tell(number)


def consumer(directory: str, name: str, hang_at: str) -> None:
    """Runs the inbox loop; tells each [seq, attempt] when its handler begins.

    The handler of message number `hang_at` never ends; 0 is none.
    """
    numbers = count(1)
    with Bus.open(directory) as bus:

        def handle(message: Message) -> None:
            tell([message.seq, message.attempt])
            if next(numbers) == int(hang_at):
                time.sleep(600)

        Inbox(bus, name).run(handle)


def acker(directory: str, name: str) -> None:
    """Polls one and acknowledges it, for ever; tells each seq when ack has returned."""
    with Bus.open(directory) as bus:
        inbox = Inbox(bus, name)
        while True:
            for message in inbox.poll(1):
                inbox.ack(message)
                tell(message.seq)


def completer(directory: str, name: str) -> None:
    """Answers each message with one reply, in the transaction that acknowledges it."""
    with Bus.open(directory) as bus:
        inbox = Inbox(bus, name)
        tell("ready")
        while True:
            for message in inbox.poll(10):
                reply = Draft(
                    "reply",
                    message.payload,
                    from_agent=name,
                    to_agent=message.from_agent,
                    in_reply_to=message.id,
                )
                inbox.complete(message, reply)


def holder(directory: str) -> None:
    """Publishes inside a transaction that never ends; tells when it has the write lock."""
    with Bus.open(directory) as bus, bus.transaction():
        bus.publish("half", from_agent="holder", id="half")
        tell("locked")
        time.sleep(600)


def forking_holder(directory: str) -> None:
    """As `holder`, with a child, forked in the middle, that outlives it."""
    with Bus.open(directory) as bus, bus.transaction():
        bus.publish("half", from_agent="holder", id="half")
        child = os.fork()
        if child:
            tell(child)
        time.sleep(600)


def leaseholder(directory: str, ttl_s: str) -> None:
    with Bus.open(directory) as bus:
        lease = bus.leases.acquire("job", "leaseholder", lease_s=float(ttl_s))
        assert lease is not None
        tell(lease.token)
        time.sleep(600)


def storer(directory: str) -> None:
    """Puts blobs of 3 MB for ever, each with other bytes; tells each name, when it is stored."""
    with Bus.open(directory) as bus:
        for number in count():
            tell(bus.blobs.put(b"%08d" % number * 400_000))


def follower(directory: str) -> None:
    """Exports as long as it lives."""
    with Bus.open(directory) as bus:
        tell("ready")
        Exporter(bus).follow()


def short(directory: str, name: str) -> None:
    """Publishes and exports as short commands do, for ever; tells each id when it has ended."""
    for number in count():
        with Bus.open(directory) as bus:
            receipt = bus.publish("work", [name, number, "x" * 50], from_agent=name)
            with suppress(AckbusError):
                export_briefly(bus)
        tell(receipt.id)


def beside(directory: str) -> None:
    """Exports as a command that lives long does, until it is killed."""
    with Bus.open(directory) as bus:
        BackgroundExporter(bus).start()
        tell("ready")
        time.sleep(600)


def starved(directory: str, limit: str) -> None:
    """Opens files until no descriptor is left, then publishes; gives one back, and tries again.

    Tells what became of each try.
    """
    publish_large(directory)  # so that every module is loaded
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(limit), int(limit)))
    kept = []
    try:
        while True:
            kept.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    while kept:
        try:
            tell(["published", publish_large(directory)])
            return
        except AckbusError as error:
            tell([type(error).__name__, str(error)])
        os.close(kept.pop())


def publish_large(directory: str) -> int:
    with Bus.open(directory) as bus:
        return bus.publish("note", "x" * 5000, from_agent="starved").seq


def forker(directory: str) -> None:
    """Opens a bus and forks; the child tries the bus it inherited, opens its own, and ends."""
    bus = Bus.open(directory)
    bus.publish("note", "before", from_agent="parent")
    child = os.fork()
    if child == 0:
        try:
            bus.publish("note", "inherited", from_agent="child")
        except AckbusError as error:
            tell(type(error).__name__)
        with Bus.open(directory) as own:
            own.publish("note", "own", from_agent="child")
        bus.close()
        sys.exit(0)  # an ordinary end: what was inherited is thrown away with the interpreter
    _, status = os.waitpid(child, 0)
    bus.publish("note", "after", from_agent="parent")
    bus.close()
    tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
