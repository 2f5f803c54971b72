"""A disk that becomes full at each write of each act: with room for no page, one, two, and so on.

Of each act it is asked: one error that says what to do; a log as it was; and as soon as there is
room the act is done, with no repair.
"""

import io
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Claim, Draft, Exporter, Inbox, Queue
from ackbus.bus.maintenance import Maintenance
from ackbus.errors import BusUnusable
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.sqlite.upgrade import upgrade

from ..migration.made_up import OLDER, make_older, rows, upgradable, version_of
from ..programs import connect
from ..sizes import case, size
from .conftest import SmallDisk
from .evidence import raw_rows

pytestmark = pytest.mark.slow

#: Room for more than any of these acts needs, in pages.
ENOUGH = 500

#: Who does what an act needs somebody for.
AGENT = "ann"


@dataclass(frozen=True)
class Scene:
    """A bus in use, on a disk that is soon full."""

    disk: SmallDisk
    bus_dir: Path
    claim: Claim

    @classmethod
    def on(cls, disk: SmallDisk) -> "Scene":
        bus_dir = disk.path / "bus"
        with Bus.init(bus_dir) as bus:
            bus.heartbeats.beat(AGENT)
            bus.publish_many(
                [Draft("work", [n, "y" * 200], from_agent="bob", to_agent=AGENT) for n in range(60)]
            )
            bus.publish("work", "z" * 6000, from_agent="bob")
            Inbox(bus, AGENT).ack(3)
            queue = Queue.create(bus, "work", addressed="*")
            (claim,) = queue.claim("worker", lease_s=600)
        return cls(disk, bus_dir, claim)

    def lines(self) -> list[bytes]:
        """The log, as readers see it."""
        with Bus.open(self.bus_dir) as bus:
            return [message.to_line() for message in bus.read()]

    def tables(self) -> dict[str, list[Any]]:
        with closing(connect(self.bus_dir)) as connection:
            return rows(connection)


def publish(bus: Bus, scene: Scene) -> None:
    bus.publish("note", "p", from_agent="bob")


def publish_a_blob(bus: Bus, scene: Scene) -> None:
    bus.publish("note", "p" * 9000, from_agent="bob")


def publish_many(bus: Bus, scene: Scene) -> None:
    bus.publish_many([Draft("note", "q" * 900, from_agent="bob") for _ in range(30)])


def acknowledge(bus: Bus, scene: Scene) -> None:
    assert Inbox(bus, AGENT).ack(10) == 10


def complete_a_message(bus: Bus, scene: Scene) -> None:
    inbox = Inbox(bus, AGENT)
    inbox.complete(inbox.poll(1)[0], Draft("reply", "r" * 3000, from_agent=AGENT))


def claim_a_job(bus: Bus, scene: Scene) -> None:
    assert len(Queue.open(bus, "work").claim("another")) == 1


def complete_a_job(bus: Bus, scene: Scene) -> None:
    reply = Draft("reply", "r" * 3000, from_agent="worker")
    assert len(Queue.open(bus, "work").complete(scene.claim, reply)) == 1


def acquire_a_lease(bus: Bus, scene: Scene) -> None:
    assert bus.leases.acquire("task", AGENT) is not None


def reserve_a_file(bus: Bus, scene: Scene) -> None:
    assert bus.reservations.reserve(["src/**"], AGENT).granted


def beat(bus: Bus, scene: Scene) -> None:
    bus.heartbeats.beat("newcomer")


WHOLE: list[Callable[[Bus, Scene], None]] = [
    publish,
    publish_a_blob,
    publish_many,
    acknowledge,
    complete_a_message,
    claim_a_job,
    complete_a_job,
    acquire_a_lease,
    reserve_a_file,
    beat,
]


def export(bus: Bus, scene: Scene) -> None:
    Exporter(bus).export_once()
    assert (scene.bus_dir / "bus.jsonl").read_bytes().splitlines() == scene.lines()


def rebuild(bus: Bus, scene: Scene) -> None:
    Exporter(bus).rebuild()
    assert (scene.bus_dir / "bus.jsonl").read_bytes().splitlines() == scene.lines()


def rotate(bus: Bus, scene: Scene) -> None:
    Exporter(bus).rotate(4096)
    files = [*sorted(scene.bus_dir.glob("bus-*.jsonl")), scene.bus_dir / "bus.jsonl"]
    assert len(files) > 3
    assert b"".join(file.read_bytes() for file in files).splitlines() == scene.lines()


def archive(bus: Bus, scene: Scene) -> None:
    with Archiver(bus) as archiver:
        archiver.archive(40)
    assert [bus.archive.state_of(segment) for segment in bus.archive.segments()] == ["ok"]
    assert not list((scene.bus_dir / "archive").glob("*.new"))


def search(bus: Bus, scene: Scene) -> None:
    assert len(bus.search("yyy*", limit=100)) == 60
    assert not list(scene.bus_dir.glob("search.db.new*"))


def backup(bus: Bus, scene: Scene) -> None:
    target = scene.disk.path / "saved"
    assert not target.exists(), "what failed has not the name of a backup"
    back_up(bus, target)
    with Bus.open(target) as saved:
        assert [message.to_line() for message in saved.read()] == scene.lines()


def count_everything(bus: Bus, scene: Scene) -> None:
    assert bus.stats().messages == 61


def checkpoint(bus: Bus, scene: Scene) -> None:
    assert Maintenance(bus).checkpoint()[1] == 0


def collect_blobs(bus: Bus, scene: Scene) -> None:
    assert bus.collect_blobs(older_than_s=0) == (0, 0)


IN_STEPS: list[Callable[[Bus, Scene], None]] = [
    export,
    rebuild,
    rotate,
    archive,
    search,
    backup,
    count_everything,
    checkpoint,
    collect_blobs,
]


#: Each check tries every act: on a bus that was open before the disk was full, or is opened then.
CASES = [
    case(act, stays, id=f"{act.__name__}-{when}", by_day=number % 2 == stays)
    for number, act in enumerate(WHOLE + IN_STEPS)
    for stays, when in ((True, "opened before"), (False, "opened then"))
]


@pytest.mark.parametrize(("act", "stays"), CASES)
def test_an_act_that_finds_the_disk_full_at_any_write_can_be_done_later(
    act: Callable[[Bus, Scene], None], stays: bool, small_disk: SmallDisk
) -> None:
    """M-06, M-29, M-37, M-90, promises 1, 7, 8, 11."""
    scene = Scene.on(small_disk)
    lines, tables = scene.lines(), scene.tables()
    kept = Bus.open(scene.bus_dir)
    if stays:
        kept.heartbeats.beat(AGENT)
        tables = scene.tables()
    else:
        kept.close()
    for pages in count(step=size(sample=5, whole=1)):
        small_disk.leave(pages)
        try:
            if stays:
                act(kept, scene)
            else:
                with Bus.open(scene.bus_dir) as bus:
                    act(bus, scene)
            break
        except BusUnusable as error:
            assert_says_what_to_do(error)
        small_disk.make_room()
        assert scene.lines() == lines
        if act in WHOLE:
            assert scene.tables() == tables, "all of it or nothing"
        assert pages < ENOUGH
    assert pages > 0 or act in (checkpoint, collect_blobs, acknowledge, count_everything)
    small_disk.make_room()
    kept.close()
    assert scene.lines()[: len(lines)] == lines
    raw_rows(scene.bus_dir)


def assert_says_what_to_do(error: BusUnusable) -> None:
    text = str(error)
    assert "the disk under " in text
    assert " is full" in text
    assert text.endswith("make room, then try again")
    assert "\n" not in text


def test_an_import_that_finds_the_disk_full_at_any_write_goes_on_later(
    small_disk: SmallDisk,
) -> None:
    """Messages stored before stay, and are known when they come again."""
    scene = Scene.on(small_disk)
    lines = [message_line(number) for number in range(2000)]
    with Bus.open(scene.bus_dir) as bus:
        stored: list[str] = []
        for pages in count(step=7):
            small_disk.leave(pages)
            try:
                bus.import_jsonl(io.BytesIO(b"".join(lines)))
                break
            except BusUnusable as error:
                assert_says_what_to_do(error)
            small_disk.make_room()
            earlier, stored = stored, [message.id for message in bus.read(after_seq=61)]
            assert stored[: len(earlier)] == earlier
            assert len(stored) in (0, 1000), "whole transactions"
            assert pages < ENOUGH
        assert pages > 20
        small_disk.make_room()
        ids = [message.id for message in bus.read(after_seq=61)]
        assert ids == [f"m-{number}" for number in range(2000)]


def message_line(number: int) -> bytes:
    fields = {"id": f"m-{number}", "from": "bob", "type": "note", "payload": "x" * 300}
    return json.dumps(fields | {"ts": "2026-01-02T03:04:05.678Z"}).encode() + b"\n"


def test_an_upgrade_that_finds_the_disk_full_at_any_write_changes_nothing(
    small_disk: SmallDisk, tmp_path: Path
) -> None:
    """Promise 22."""
    bus_dir = make_older(small_disk.path / "bus")
    with closing(connect(bus_dir)) as connection:
        before = rows(connection)
    for pages in count():
        small_disk.leave(pages)
        try:
            with upgradable(tmp_path / str(pages)):
                upgrade(bus_dir)
            break
        except BusUnusable as error:
            assert_says_what_to_do(error)
        small_disk.make_room()
        assert version_of(bus_dir) == str(OLDER)
        with closing(connect(bus_dir)) as connection:
            assert rows(connection) == before
        assert pages < ENOUGH
    assert pages > 10
    with Bus.open(bus_dir) as bus:
        small_disk.make_room()
        bus.publish("note", from_agent="ann")


def test_making_a_bus_where_there_is_no_room_leaves_nothing_in_the_way(
    small_disk: SmallDisk,
) -> None:
    bus_dir = small_disk.path / "bus"
    for pages in count():
        small_disk.leave(pages)
        try:
            Bus.init(bus_dir).close()
            break
        except BusUnusable as error:
            assert_says_what_to_do(error)
        assert pages < ENOUGH
    assert pages > 10
    small_disk.make_room()
    with Bus.open(bus_dir) as bus:
        assert bus.publish("note", from_agent="ann").seq == 1
