"""Looks at a bus after a power loss: is it whole, does it keep its promises, can it be used?

Everything is found through the library, as users have it. What is not as it should be raises
`Bad`, and so does any error that a user would not expect.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from disk import State
from moments import Moments, digest_of
from promises import Fact, broken, halves, last_claim, last_token
from workloads import BUS, LARGE, SAVED, upgrade_older

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.doctor.checks.bus import checks_of_bus, checks_of_work
from ackbus.doctor.checks.directory import checks_of_file
from ackbus.doctor.checks.export import checks_of_export
from ackbus.errors import AckPastEnd, IdConflict, Refused
from ackbus.export.archive_writer import Archiver
from ackbus.export.backup import back_up
from ackbus.schema.findings import examine
from ackbus.schema.queries import file_of
from ackbus.schema.sqlite.database import SCHEMA_VERSION, Database
from ackbus.subscribers.inboxes.failed_deliveries import Cursors


class Bad(AssertionError):
    """Something is not as it should be."""


@dataclass(frozen=True)
class Cut:
    """A moment at which the power failed.

    Attributes:
        index: after which event.
        told: what had been told until then, and what of it firmly.
        durability: how the bus had been opened.
        facts: all that is told in the whole record, later too.
        moments: what the tables have been.
    """

    index: int
    told: list[tuple[Fact, bool, int]]
    durability: str
    facts: list[Fact]
    moments: Moments

    def committed_until(self) -> int:
        """Return the last event up to which all that was committed must be there."""
        surely = (
            index
            for fact, is_firm, index in self.told
            if self.durability == "full" or (is_firm and fact[0] != "saved")
        )
        return max(surely, default=-1)


def write(state: State, root: str, inodes: dict[int, int]) -> dict[int, int]:
    """Make the folders and files of a state.

    Returns:
        By which inode number each was known before the power loss, by the one that it has now.
    """
    before = {}
    for path, found in state.items():
        full = os.path.join(root, path)
        if found is None:
            os.mkdir(full)
            continue
        with open(full, "wb") as file:
            file.write(found.content)
        os.utime(full, ns=(found.changed_ns, found.changed_ns))
        before[os.stat(full).st_ino] = inodes[found.number]
    return before


class _Stat:
    """The result of `os.stat`, with another inode number."""

    def __init__(self, found: os.stat_result, inode: int) -> None:
        self._found = found
        self.st_ino = inode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found, name)


@contextmanager
def inodes_kept(before: dict[int, int]) -> Iterator[None]:
    """Give files their former inode numbers: those of a real disk survive."""
    stat, fstat = os.stat, os.fstat

    def as_before(found: os.stat_result) -> Any:
        return _Stat(found, before[found.st_ino]) if found.st_ino in before else found

    os.stat = lambda *args, **options: as_before(stat(*args, **options))
    os.fstat = lambda fd: as_before(fstat(fd))
    try:
        yield
    finally:
        os.stat, os.fstat = stat, fstat


def look(root: str, cut: Cut) -> None:
    """Examine and use the bus under `root`.

    Raises:
        Bad: something is not as it should be.
    """
    directory, saved = os.path.join(root, BUS), os.path.join(root, SAVED)
    is_old = _bring_up(directory, cut)
    with Bus.open(directory, durability=cut.durability) as bus:
        if not is_old:
            told = [(fact, is_firm) for fact, is_firm, _ in cut.told]
            for trouble in broken(bus, saved, told, cut.durability):
                raise Bad(trouble)
            for trouble in halves(bus, cut.facts):
                raise Bad(trouble)
        _check_content(bus)
        _export(bus)
        _use(bus)
        _use_work(bus)
        _use_files(bus, saved)
        _export(bus)
        _check_health(bus)
        newest = bus.log.newest_seq()
    with Bus.open(directory, durability=cut.durability) as bus:
        _is("the newest after opening once more", bus.log.newest_seq(), newest)
        _check_file(file_of(bus))


def _is(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Bad(f"{what}: {found!r}, not {expected!r}")


def _bring_up(directory: str, cut: Cut) -> bool:
    """Make sure that there is a bus of this version; return whether it was an old one."""
    expected = cut.moments.at(cut.committed_until())
    has_bus = os.path.exists(os.path.join(directory, "bus.db"))
    if not has_bus and expected >= 0:
        raise Bad("there is no bus")
    if expected < 0:
        Bus.init(directory).close()
    with open(os.path.join(directory, ".gitignore"), "rb") as file:
        _is("what git must not see", {b"*", b"bus.db"}.isdisjoint(file.read().split()), False)
    if not has_bus:
        return False
    with closing(Database(directory, any_version=True)) as database:
        version = database.schema_version()
        _check_file(database)
        # The page that ends a commit may be in the log before it is written, from before the log
        # began anew: a lease that is given back leaves a page as it was.
        found = cut.moments.last(digest_of(database.connection), cut.index + 1)
    if found is None:
        raise Bad("the tables are what they have never been")
    if found < expected:
        raise Bad(f"the tables are those of moment {found}, and must be at least of {expected}")
    if version < SCHEMA_VERSION:
        if any(fact == ("version",) for fact, *_ in cut.told):
            raise Bad("the upgrade is lost")
        upgrade_older(directory)
    return version < SCHEMA_VERSION


def _check_file(database: Database) -> None:
    for finding in examine(checks_of_file(database, full=True)):
        # An older schema is brought up to date; and what the log has after its last whole commit,
        # which nobody was told of, looks like damage to who can't know of the power loss.
        if finding.state == "bad" and finding.check not in ("schema", "log"):
            raise Bad(f"{finding.check}: {finding.text}")


def _check_health(bus: Bus) -> None:
    rooms = (checks_of_bus(bus, full=True), checks_of_work(bus), checks_of_export(bus, full=True))
    for checks in rooms:
        for finding in examine(checks):
            if finding.state == "bad":
                raise Bad(f"{finding.check}: {finding.text}")
    _check_file(file_of(bus))


def _check_content(bus: Bus) -> None:
    """Everything can be read, in order; nothing is named that isn't there (promises 2, 3, 4, 9)."""
    messages = list(bus.read())
    seqs = [message.seq for message in messages]
    _is("the order", seqs, sorted(set(seqs)))
    _is("the newest", bus.log.newest_seq(), seqs[-1] if seqs else 0)
    for message in messages:
        if message.payload_error is not None:
            raise Bad(f"message {message.seq}: {message.payload_error}")
    for agent, position in Cursors.of(bus).positions().items():
        if position > bus.log.newest_seq():
            raise Bad(f"the cursor of {agent} is at {position}, past the newest")
    for segment in bus.archive.segments():
        _is(f"the segment of {segment.first_seq}", bus.archive.state_of(segment), "ok")
    with io.BytesIO(b"".join(message.to_line() + b"\n" for message in messages)) as lines:
        report = bus.import_jsonl(lines)
    _is("duplicates when all comes again", (report.stored, report.skipped), (0, 0))


def _export(bus: Bus) -> None:
    """`bus.jsonl` is gone on with, or refused with one line, and then mended as documented."""
    as_exported = _is_beginning(bus)
    try:
        Exporter(bus).export_once()
    except Refused as error:
        if as_exported:
            raise Bad(f"a beginning of the log is refused: {error}") from error
        if "\n" in str(error):
            raise Bad(f"more than one line: {error}") from error
        _mend_export(bus)
    lines = [message.to_line() + b"\n" for message in bus.read()]
    exported = _exported(bus)
    if exported != b"".join(lines):
        raise Bad(f"bus.jsonl is not the log: {len(exported)} bytes for {len(lines)} messages")
    Exporter(bus).rebuild()
    _is("the same bytes when it is written anew", _exported(bus) == exported, True)


def _is_beginning(bus: Bus) -> bool:
    lines = b"".join(message.to_line() + b"\n" for message in bus.read())
    return lines.startswith(_exported(bus))


def _mend_export(bus: Bus) -> None:
    """Bring in what only the files have, and move them away when they are damaged."""
    for path in _files(bus):
        with open(path, "rb") as stream:
            is_damaged = bus.import_jsonl(stream).skipped > 0
        if is_damaged:
            os.rename(path, path + ".damaged")
    Exporter(bus).export_once()


def _files(bus: Bus) -> list[str]:
    names = sorted(name for name in os.listdir(bus.layout.directory) if name.endswith(".jsonl"))
    return [os.path.join(bus.layout.directory, name) for name in names]  # bus-….jsonl come first


def _exported(bus: Bus) -> bytes:
    content = b""
    for path in _files(bus):
        with open(path, "rb") as file:
            content += file.read()
    return content


def _use(bus: Bus) -> None:
    """Publish, poll, acknowledge (promises 1 to 5, and 9)."""
    newest, fields = bus.log.newest_seq(), {"from_agent": "lead", "to_agent": "later"}
    receipt = bus.publish("later", {"n": 1}, id="later-1", **fields)
    if receipt.seq <= newest:
        raise Bad(f"seq {receipt.seq} after {newest}")
    again = bus.publish("later", {"n": 1}, id="later-1", **fields)
    _is("the same id again", (again.seq, again.duplicate), (receipt.seq, True))
    try:
        bus.publish("later", {"n": 2}, id="later-1", **fields)
    except IdConflict:
        pass
    else:
        raise Bad("the same id with other content was taken")
    large = bus.publish("later", LARGE + "1", id="later-2", **fields)
    inbox = Inbox(bus, "later")
    for _ in range(2):  # polling changes nothing
        _is("the mail", [m.id for m in inbox.poll() if m.to_agent], ["later-1", "later-2"])
    _is("a large payload", bus.get("later-2").payload, LARGE + "1")  # type: ignore[union-attr]
    for seq in (receipt.seq, large.seq):
        inbox.ack(seq)
        _is("the cursor", inbox.position, seq)
    try:
        inbox.ack(bus.log.newest_seq() + 1)
    except AckPastEnd:
        pass
    else:
        raise Bad("acknowledged past the newest")
    worker = Inbox(bus, "worker")
    for message in worker.poll():
        worker.ack(message)
    _is("mail left", worker.poll(), [])


def _use_work(bus: Bus) -> None:
    """Claim, complete with a reply, take a lease (promises 6 and 7)."""
    claims, tokens = last_claim(bus), last_token(bus)
    queue = Queue.create(bus, "later", addressed="later")
    for number in range(2):
        (claim,) = queue.claim("later")
        if claim.token <= claims:
            raise Bad(f"claim {claim.token} after {claims}")
        queue.complete(claim, Draft("later.done", number, from_agent="later"))
    _is("work left", queue.claim("later"), [])
    lease = bus.leases.acquire("later", "later")
    if lease is None or lease.token <= tokens:
        raise Bad(f"lease {lease} after token {tokens}")
    bus.leases.release(lease)


def _use_files(bus: Bus, saved: str) -> None:
    """Search, archive, back up, wherever that was done before."""
    if os.path.exists(bus.layout.search):
        _is("found", len(bus.search("xxx*", type="later")), 1)
        _is("found of old", len(bus.search("word*")), _holding(bus, b"word"))
    if os.path.exists(bus.layout.archive):
        before = [message.to_line() for message in bus.read()]
        with Archiver(bus) as archiver:
            archiver.archive(bus.log.newest_seq() - 1)
        _is("the log after archiving", [m.to_line() for m in bus.read()], before)
    place = saved if os.path.exists(saved) else saved + ".replaced"
    if os.path.exists(place):
        with Bus.open(place) as backup:
            _check_health(backup)
    if any(name.startswith(SAVED) for name in os.listdir(os.path.dirname(saved))):
        back_up(bus, saved, replace=True)
        _is("the backup", _told_of(saved), bus.log.newest_seq())
        shutil.rmtree(saved)


def _holding(bus: Bus, text: bytes) -> int:
    return sum(text in message.to_line() for message in bus.read())


def _told_of(saved: str) -> int:
    with open(os.path.join(saved, "backup.json"), "rb") as file:
        return int(json.load(file)["newest_seq"])
