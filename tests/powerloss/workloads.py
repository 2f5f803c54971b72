"""The uses of a bus while it is recorded, by the public interface.

Whenever a call has returned, the record says what the caller was told by that.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import apsw

from ackbus import Bus, Draft, Exporter, Inbox, Message, Queue
from ackbus.bus.maintenance import Maintenance
from ackbus.errors import Refused
from ackbus.export.archive_writer import Archiver, segments_upto
from ackbus.export.archive_writer import discard as discard_segments
from ackbus.export.backup import back_up
from ackbus.export.jsonl import exporter as exporting
from ackbus.schema.message.canonical_json import encode
from ackbus.schema.sqlite import versions
from ackbus.schema.sqlite.database import SCHEMA_VERSION
from ackbus.schema.sqlite.upgrade import upgrade

#: Where in the recorded folder the bus is, and where its backup goes.
BUS, SAVED = "project/.worker-state", "saved"

#: A made-up version before this one lacks an index; this leads on from it.
ADD_INDEX = f"""
CREATE INDEX idx_messages_payload_ref ON messages (payload_ref) WHERE payload_ref IS NOT NULL;
UPDATE meta SET value = '{SCHEMA_VERSION}' WHERE key = 'schema_version';
"""

#: A payload that becomes a blob.
LARGE = "x" * 5000

#: The size over which `bus.jsonl` is cut, in bytes.
PART_BYTES = exporting.MIN_ROTATE_BYTES = 4096


@dataclass
class Scene:
    """A workload's bus, and the one to whom it tells what it was told."""

    root: str
    durability: str
    tell: Callable[..., None] = lambda *fact, firmly=False: None

    @property
    def directory(self) -> str:
        return os.path.join(self.root, BUS)

    def open(self) -> Bus:
        return Bus.open(self.directory, durability=self.durability)

    def publish(self, bus: Bus, id: str, payload: Any = None, **fields: Any) -> None:
        fields = {"from_agent": "lead", "to_agent": "worker"} | fields
        receipt = bus.publish(fields.pop("type", "task"), payload, id=id, **fields)
        if not receipt.duplicate:
            self.tell("message", receipt.seq, id)

    def ack(self, inbox: Inbox, message: Message) -> None:
        inbox.ack(message)
        self.tell("cursor", inbox.agent, message.seq)


def make(scene: Scene) -> None:
    """Make a bus with three messages, and a queue."""
    with Bus.init(scene.directory, durability=scene.durability) as bus:
        for number in range(3):
            scene.publish(bus, f"first-{number}", number)
        Queue.create(bus, "task", addressed="*")  # and stays the mail of its recipient
        Inbox(bus, "worker").ack(1)


def init(scene: Scene) -> None:
    with Bus.init(scene.directory, durability=scene.durability) as bus:
        scene.tell("bus", firmly=True)
        scene.publish(bus, "m-1")


def publish(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(12):
            scene.publish(bus, f"m-{number}", {"n": number, "text": "y" * 100 * number})
    with scene.open() as bus:
        scene.publish(bus, "reply", in_reply_to="m-1", from_agent="worker", to_agent="lead")
        scene.publish(bus, "m-1", {"n": 1, "text": "y" * 100})  # once more


def publish_blob(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(4):
            scene.publish(bus, f"large-{number}", LARGE + str(number))
        scene.publish(bus, "large-again", LARGE + "1")
        scene.publish(bus, "small", 1)


def publish_broken_off_blob(scene: Scene) -> None:
    """The same content comes again, after one was broken off before its name was on the disk."""
    fsync = os.fsync

    def fail(fd: int) -> None:
        os.fsync = fsync if os.path.isdir(f"/proc/self/fd/{fd}") else fail
        if os.fsync is fsync:
            raise OSError(5, "the disk failed once")
        fsync(fd)

    with scene.open() as bus:
        os.fsync = fail
        try:
            scene.publish(bus, "broken-off", LARGE)
        except Exception:
            scene.publish(bus, "once-more", LARGE)
        else:
            raise AssertionError("the blob was not broken off")


def publish_many(scene: Scene) -> None:
    with scene.open() as bus:
        for batch in range(3):
            ids = [f"m-{batch}-{number}" for number in range(30)]
            drafts = [Draft("note", LARGE[:300], from_agent="lead", id=id) for id in ids]
            receipts = bus.publish_many(drafts)
            for receipt in receipts:
                scene.tell("message", receipt.seq, receipt.id)


def acknowledge(scene: Scene) -> None:
    with scene.open() as bus:
        inbox = Inbox(bus, "worker", max_deliveries=2)
        for number in range(6):
            scene.publish(bus, f"m-{number}", number)
        for message in inbox.poll(4):
            scene.ack(inbox, message)
        (bad,) = inbox.poll(1)
        for _ in range(2):
            inbox.fail(bad, "no good")
        scene.tell("cursor", "worker", bad.seq)
        for message in inbox.poll():
            reply = Draft("done", 1, from_agent="worker", id=f"re-{message.id}")
            inbox.complete(message, reply)
            scene.tell("completed", "worker", message.seq, f"re-{message.id}")


def work(scene: Scene) -> None:
    with scene.open() as bus:
        queue = Queue.open(bus, "task")
        for number in range(4):
            scene.publish(bus, f"m-{number}", number)
        for turn in range(7):
            (claim,) = queue.claim("w-1")
            scene.tell("claimed", claim.token)
            queue.renew(claim)
            if turn == 2:
                queue.fail(claim, "no good", retry=False)
            else:
                reply = Draft("task.done", turn, from_agent="w-1", id=f"re-{turn}")
                queue.complete(claim, reply, result={"turn": turn})
                scene.tell("succeeded", "task", claim.message.seq, f"re-{turn}")


def lease(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(4):
            held = bus.leases.acquire(f"job-{number % 2}", "worker", lease_s=60)
            assert held is not None
            scene.tell("granted", held.token)
            bus.leases.renew(held)
            bus.leases.release(held)
            bus.reservations.reserve([f"src/{number}.py", "docs/*.md"], "worker")
            bus.heartbeats.beat("worker", "working")


def export(scene: Scene) -> None:
    with scene.open() as bus:
        for turn in range(4):
            for number in range(3):
                scene.publish(bus, f"m-{turn}-{number}", "z" * 150)
            Exporter(bus).export_once()
            scene.tell("exported", bus.log.newest_seq())


def export_following(scene: Scene) -> None:
    with scene.open() as bus, Exporter(bus) as exporter:
        for number in range(8):
            scene.publish(bus, f"m-{number}", "z" * 700)
            wait_until(lambda: exporter.position == bus.log.newest_seq())
            scene.tell("exported", bus.log.newest_seq())


def rotate(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(10):
            scene.publish(bus, f"m-{number}", "z" * 700)
        Exporter(bus).export_once()
        Exporter(bus).rotate(PART_BYTES)
        for number in range(10):
            scene.publish(bus, f"more-{number}", "z" * 700)
            Exporter(bus).export_once()
            scene.tell("exported", bus.log.newest_seq())
        Exporter(bus).rebuild()
        Exporter(bus).rotate(0)


def archive(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(9):
            scene.publish(bus, f"m-{number}", LARGE if number == 3 else number)
        for upto in (5, 11):
            with Archiver(bus) as archiver:
                archiver.archive(upto)
            scene.tell("archived", upto)
        Maintenance(bus).give_back()
        Maintenance(bus).checkpoint()
        scene.publish(bus, "last")
        Exporter(bus).export_once()


def discard(scene: Scene) -> None:
    """Segments are deleted for good, in two steps."""
    with scene.open() as bus:
        for number in range(9):
            bus.publish("note", LARGE if number == 3 else number, from_agent="lead")
        for upto in (4, 7):
            with Archiver(bus) as archiver:
                archiver.archive(upto)
        for upto in (4, 7):
            with Archiver(bus):
                discard_segments(bus, segments_upto(bus, upto))
            scene.tell("discarded", upto, firmly=True)
        scene.publish(bus, "last")


def collect(scene: Scene) -> None:
    """Blobs that no message names are removed, and come again."""
    with scene.open() as bus:
        for turn in range(3):
            bus.blobs.put(encode(LARGE + "again", "payload"))
            scene.publish(bus, f"large-{turn}", LARGE + str(turn))
            bus.collect_blobs(older_than_s=-1)
        scene.publish(bus, "again", LARGE + "again")
        bus.collect_blobs(older_than_s=-1)


def bring_in(scene: Scene) -> None:
    """Import lines, a blob among them, and export them."""
    lines = b"".join(
        encode({"id": f"in-{number}", "type": "note", "from": "bob", "payload": payload}, "")
        + b"\n"
        for number, payload in enumerate(["a", LARGE, 3, LARGE])
    )
    with scene.open() as bus:
        for _ in range(2):
            bus.import_jsonl(io.BytesIO(lines))
        for number in range(4):
            scene.tell("message", 4 + number, f"in-{number}")
        Exporter(bus).export_once()


def make_harmed(scene: Scene) -> None:
    """Make a bus that a power loss has hit: its log and its export end in the middle."""
    make(scene)
    with scene.open() as bus:
        for number in range(6):
            scene.publish(bus, f"before-{number}", "z" * 300)
        Exporter(bus).export_once()
    for name, lost_bytes in (("bus.db-wal", 6000), ("bus.jsonl", 100)):
        path = os.path.join(scene.directory, name)
        os.truncate(path, os.stat(path).st_size - lost_bytes)


def go_on(scene: Scene) -> None:
    """The recovery of a bus after a power loss is cut off by the next one."""
    with scene.open() as bus:
        newest = bus.log.newest_seq()
        scene.publish(bus, "after", "y" * 500)
        try:
            Exporter(bus).export_once()
        except Refused:
            with open(bus.layout.jsonl, "rb") as stream:
                bus.import_jsonl(stream)
            Exporter(bus).export_once()
        scene.tell("exported", newest)
        inbox = Inbox(bus, "worker")
        for message in inbox.poll():
            scene.ack(inbox, message)


def search(scene: Scene) -> None:
    with scene.open() as bus:
        for number in range(6):
            scene.publish(bus, f"m-{number}", f"the word{number} and more")
            assert bus.search("word*") or not number
        scene.publish(bus, "last", "a last word")


def checkpoint(scene: Scene) -> None:
    """The thread that checkpoints, checkpoints by hand, and those at the end."""
    with scene.open() as bus:
        for number in range(40):
            scene.publish(bus, f"m-{number}", "y" * 500)
            if number % 20 == 19:
                Maintenance(bus).checkpoint()
    for number in range(3):
        with scene.open() as bus:
            scene.publish(bus, f"late-{number}", "y" * 20 * 4096)


def upgraded(scene: Scene) -> None:
    upgrade_older(scene.directory)
    scene.tell("version", firmly=True)
    with scene.open() as bus:
        for number in range(3):
            scene.publish(bus, f"new-{number}", number)


def upgrade_older(directory: str) -> None:
    """Upgrade a bus of the version before this one."""
    with TemporaryDirectory() as folder:
        Path(folder, f"{SCHEMA_VERSION:04}_add_index.sql").write_text(ADD_INDEX)
        with patch.object(versions, "MIGRATIONS", folder):
            upgrade(directory)


def make_old(scene: Scene) -> None:
    """Make a bus of the version before this one, with a message that names a blob."""
    make(scene)
    with scene.open() as bus:
        scene.publish(bus, "old", LARGE)
    connection = apsw.Connection(os.path.join(scene.directory, "bus.db"))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("DROP INDEX idx_messages_payload_ref")
    older = str(SCHEMA_VERSION - 1)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (older,))
    connection.close()


def backup(scene: Scene) -> None:
    with scene.open() as bus:
        scene.publish(bus, "large", LARGE)
        with Archiver(bus) as archiver:
            archiver.archive(2)
        scene.publish(bus, "m-1")
        for turn in range(2):
            saved = back_up(bus, os.path.join(scene.root, SAVED), replace=turn > 0)
            scene.tell("saved", saved.newest_seq, firmly=True)
            scene.publish(bus, f"saved-{turn}")


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as something is so; fail when that takes long."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, condition
        time.sleep(0.001)


#: Each with what is there before it.
WORKLOADS: dict[str, tuple[Callable[[Scene], None] | None, Callable[[Scene], None]]] = {
    "init": (None, init),
    "publish": (make, publish),
    "publish with blob": (make, publish_blob),
    "publish with a blob broken off": (make, publish_broken_off_blob),
    "publish many": (make, publish_many),
    "ack": (make, acknowledge),
    "claim and complete": (make, work),
    "lease": (make, lease),
    "export": (make, export),
    "export, following": (make, export_following),
    "rotate": (make, rotate),
    "archive": (make, archive),
    "discard": (make, discard),
    "collect": (make, collect),
    "import": (make, bring_in),
    "search": (make, search),
    "checkpoint": (make, checkpoint),
    "upgrade": (make_old, upgraded),
    "backup": (make, backup),
    "after a power loss": (make_harmed, go_on),
}
