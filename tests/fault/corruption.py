"""A bus with something in every table, ways of harming its files, and what must be true after."""

import io
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.bus.log.catalog import Catalog
from ackbus.cli.app import run
from ackbus.cli.show.output import Output
from ackbus.export.archive_writer import Archiver
from ackbus.schema.errors import AckbusError
from ackbus.schema.queries import file_of

Harm = Callable[[Path, random.Random], object]

#: How many messages are in the archive, and how many in all.
ARCHIVED, MESSAGES = 60, 400


def make_bus(directory: Path, *, exported: bool = True) -> None:
    """Makes a bus in which every table has rows, with an archive, blobs, an export and an index."""
    with warnings.catch_warnings(), closing(Bus.init(directory)) as bus:
        warnings.simplefilter("ignore")
        bus.publish_many(_drafts(ARCHIVED))
        bus.log.newest(1)
        Inbox(bus, "bob").ack(ARCHIVED)
        with Archiver(bus) as archiver:
            archiver.archive(ARCHIVED)
        queue = Queue.create(bus, "work", "task", max_attempts=2)
        bus.publish_many(_drafts(MESSAGES - ARCHIVED - 20, ARCHIVED))
        for _ in range(6):
            queue.complete(queue.claim("w")[0])
        queue.fail(queue.claim("w")[0], "no")
        queue.claim("w")
        bus.limits.set_for_inbox("bob", 10_000)
        inbox = Inbox(bus, "bob", max_deliveries=1)
        inbox.fail(inbox.poll(limit=1)[0], "bad")
        bus.leases.acquire("deploy", "ann", lease_s=3600)
        bus.reservations.reserve(["src/**"], "ann", lease_s=3600)
        bus.heartbeats.beat("bob", progress=0.5)
        Catalog.of(bus).catch_up(bus.log.newest_seq())
        bus.search("word")
        if exported:
            Exporter(bus).export_once()
        file_of(bus).rows("PRAGMA wal_checkpoint(TRUNCATE)")
        bus.publish_many(_drafts(20, MESSAGES - 20))
        bus.heartbeats.beat("ann")
        if exported:
            Exporter(bus).export_once()
        assert bus.log.newest_seq() == MESSAGES


def _drafts(count: int, after: int = 0) -> list[Draft]:
    chance = random.Random(after)
    found = []
    for n in range(after + 1, after + count + 1):
        # A few rows go on in other pages, and a few payloads are blobs.
        size = chance.choice((20, 60, 300, 900)) if n % 40 else 3900
        size = 5000 + n if n % 75 == 0 else size
        text = "word " + "".join(chance.choices("abcdefgh ", k=size))
        to_agent = (None, "bob", "eve")[n % 3]
        type = "task" if n % 8 == 0 else "note"
        found.append(Draft(type, {"n": n, "text": text}, from_agent="ann", to_agent=to_agent))
    return found


@dataclass(frozen=True)
class Found:
    """The end of the doctor, and its bad findings."""

    code: int
    bad: dict[str, str]
    records: list[dict[str, Any]]


def doctor(directory: Path, *options: str | Path) -> Found:
    """Runs `bus doctor` in this process: hundreds of times, which would take minutes by itself."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    arguments = ["doctor", "--json", "--dir", str(directory), *map(str, options)]
    output = Output(arguments)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(output, arguments)
        except AckbusError as error:
            raise AssertionError(f"a repair that gives up: {error}") from error
        finally:
            output.flush()
    told = out.buffer.getvalue().decode()
    records = [json.loads(line) for line in told.splitlines()]
    bad = {each["check"]: each["text"] for each in records if each.get("state") == "bad"}
    if "--repair" not in options:
        assert code == bool(bad)
    return Found(code, bad, records)


def content(directory: Path) -> dict[str, list[str]] | None:
    """All rows of all tables, by table; None where SQLite finds damage."""
    names = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    try:
        path = str(directory / "bus.db")
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if connection.execute("PRAGMA integrity_check").get != "ok":
                return None
            rows = {
                str(name): sorted(map(repr, connection.execute(_bytes_of(connection, name))))
                for (name,) in connection.execute(names).fetchall()
            }
            rows["schema"] = sorted(map(repr, connection.execute(_SCHEMA)))
            return rows
    except apsw.Error:
        return None
    except UnicodeDecodeError:  # a name in the schema is not UTF-8 any more
        return {"schema": []}


_SCHEMA = "SELECT CAST(type AS BLOB), CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_schema"


def _bytes_of(connection: apsw.Connection, table: object) -> str:
    """A query for all values of a table, as they are stored: not every text may be UTF-8."""
    info = connection.execute(f"PRAGMA table_info({table})").fetchall()
    columns = ", ".join(f"typeof({each[1]}), CAST({each[1]} AS BLOB)" for each in info)
    return f"SELECT {columns} FROM {table}"


def lines_of(directory: Path) -> list[bytes]:
    """The lines of all messages, without what a repair has said."""
    with closing(Bus.open(directory)) as bus:
        return [
            m.to_line() for m in bus.log.read() if m.type not in ("bus.repaired", "log.continued")
        ]


def use(directory: Path) -> None:
    """Publishes, polls, claims and exports: the promises hold as before."""
    with warnings.catch_warnings(), closing(Bus.open(directory)) as bus:
        warnings.simplefilter("ignore")
        newest = bus.log.newest_seq()
        receipt = bus.publish("task", {"new": True}, from_agent="ann", to_agent="bob")
        assert receipt.seq > newest
        tokens = [lease.token for lease in bus.leases.list()]
        lease = bus.leases.acquire("another", "ann")
        assert lease is not None
        assert lease.token > max(tokens, default=0)
        inbox = Inbox(bus, "bob")
        inbox.poll()
        if file_of(bus).value("SELECT count(*) FROM queues WHERE name = 'work'"):
            queue = Queue.open(bus, "work")
            last = file_of(bus).value("SELECT max(token) FROM claims") or 0
            claims = queue.claim("w2")
            assert claims
            assert claims[0].token > last
            queue.complete(claims[0])
        Exporter(bus).export_once()
        exported = b"".join(path.read_bytes() for path in sorted(directory.glob("bus*.jsonl")))
        assert exported == b"".join(message.to_line() + b"\n" for message in bus.log.read())


# Harm ------------------------------------------------------------------------------------------


def flip(path: Path, chance: random.Random, at: int | None = None) -> int:
    """Changes one byte, and returns which."""
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data)) if at is None else at
    data[place] ^= chance.randrange(1, 256)
    path.write_bytes(data)
    return place


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(1, path.stat().st_size))


def cut_early(path: Path, chance: random.Random) -> None:
    os.truncate(path, path.stat().st_size // 4)


def zero_pages(path: Path, chance: random.Random) -> None:
    pages = path.stat().st_size // 4096
    if path.name.endswith("-wal"):
        # Its end holds where the export is, and a log that ends before that is whole.
        pages //= 2
    with path.open("r+b") as file:
        file.seek(chance.randrange(max(1, pages)) * 4096)
        file.write(bytes(min(8192, path.stat().st_size)))


def make_garbage(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def empty(path: Path, chance: random.Random) -> None:
    os.truncate(path, 0)


def remove(path: Path, chance: random.Random) -> None:
    path.unlink()


def page_of_table(directory: Path, name: str) -> int:
    """The offset of the first page of a table or index in the file."""
    with closing(apsw.Connection(str(directory / "bus.db"))) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get
    return (int(root) - 1) * 4096


def copy(source: Path, target: Path) -> Path:
    """A copy of a bus that nobody has open."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for name in ("bus.db-shm", "search.db-shm"):
        (target / name).unlink(missing_ok=True)
    return target
