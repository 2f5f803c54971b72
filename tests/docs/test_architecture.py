"""The tables of the architecture are true: rooms, owners of tables, and what each act costs."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Draft, Exporter, Inbox, Queue
from ackbus.schema.queries import file_of

from ..architecture.rooms import BESIDE, FOLDERS, MAY_IMPORT

ROOT = Path(__file__).parents[2]
ARCHITECTURE = "ARCHITECTURE.md"


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the rows of the table of a page whose first column has this heading."""
    text = (ROOT / page).read_text("utf-8")
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((\|.*\n)+)", text, re.MULTILINE)
    assert found, f"{page} has no table of {heading!r}"
    return [row.strip("| ").split(" | ") for row in found[1].splitlines()]


def test_it_stays_one_page() -> None:
    assert len((ROOT / ARCHITECTURE).read_text("utf-8").splitlines()) <= 75


def test_rooms_are_those_of_the_code() -> None:
    """C-02: the rooms at the top are the architecture, each after all that it imports."""
    documented = [
        name for row in table(ARCHITECTURE, "room") for name in re.findall(r"`(\w+)/`", row[0])
    ]
    packages = {room for room in MAY_IMPORT if room and (ROOT / room / "__init__.py").exists()}
    assert set(documented) == packages | BESIDE - {"build", "dist"}
    for room in packages:
        below = documented[documented.index(room) :]
        assert not MAY_IMPORT[room] & set(below) - {room}, f"{room} imports a room below it"


def test_folders_of_a_room_are_named_in_their_order() -> None:
    documented = {
        room: re.findall(r"`(\w+)/`", " ".join(row[1:]))
        for first, *row in table(ARCHITECTURE, "room")
        for room in re.findall(r"`(\w+)/`", first)[:1]
    }
    named = {
        room: [name for name in names if name != room]  # `torture/` shares a row
        for room, names in documented.items()
        if names
    }
    assert named == FOLDERS


def test_every_table_has_an_owner(bus: Bus) -> None:
    """U-80: docs/tables.md has every table and view, and none that there is not."""
    text = (ROOT / "docs/tables.md").read_text("utf-8")
    lists = re.findall(r"^  - `\w+`: ([^;\n]*(?:\n    [^;\n]+)*)", text, re.MULTILINE)
    documented = {name for names in lists for name in re.findall(r"`(\w+)`", names)}
    rows = file_of(bus).rows(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite_%'"
    )
    assert documented == {name for (name,) in rows}


class Costs:
    """Counts the transactions, statements and calls of fsync of what a bus does."""

    def __init__(self, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
        self._statements: list[str] = []
        self._transactions = 0
        self._fsyncs = 0
        self._fsync = os.fsync
        file_of(bus).connection.exec_trace = self._count_statement
        monkeypatch.setattr(os, "fsync", self._count_fsync)

    def of(self, act: Callable[[], object]) -> list[int]:
        self._statements.clear()
        self._transactions = self._fsyncs = 0
        act()
        return [self._transactions, len(self._statements), self._fsyncs]

    def _count_statement(self, cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        begins = sql.startswith(("BEGIN", "INSERT", "UPDATE", "DELETE"))
        if begins and not cursor.connection.in_transaction:
            self._transactions += 1
        is_look = sql == "PRAGMA schema_version"  # at most every 10 ms, whatever is done
        if any(line and not line.startswith("--") for line in sql.splitlines()) and not is_look:
            self._statements.append(sql)
        return True

    def _count_fsync(self, fd: int) -> None:
        self._fsyncs += 1
        self._fsync(fd)


def test_acts_cost_what_the_page_says(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-27: one short transaction for each act that writes, none for one that reads."""
    for agent in ("a", "b", "c"):
        bus.heartbeats.beat(agent)
    inbox = Inbox(bus, "b")
    parent = bus.publish("t", from_agent="a", to_agent="b").id
    bus.publish("t", from_agent="b", to_agent="a")  # from here on, both are known
    bus.publish("t", from_agent="a", to_agent="b")
    first, second = inbox.poll()
    reply = Draft("t", from_agent="b", to_agent="a", in_reply_to=parent)
    held = bus.leases.acquire("held", "b")
    assert held is not None

    acts: dict[str, Callable[[], object]] = {
        "publish": lambda: bus.publish("t", from_agent="a", to_agent="b"),
        "export once, up to 1,000 messages": Exporter(bus).export_once,
        "publish a reply": lambda: bus.publish_many([reply]),
        "publish 1,000 together": lambda: bus.publish_many([Draft("t", from_agent="a")] * 1000),
        "a payload that becomes a blob": lambda: bus.publish("t", "x" * 5000, from_agent="a"),
        "the first message to a known agent in a process": lambda: bus.publish(
            "t", from_agent="a", to_agent="c"
        ),
        "poll": inbox.poll,
        "acknowledge, beat": lambda: inbox.ack(first),
        "complete with one reply": lambda: inbox.complete(second, reply),
        "acquire a lease": lambda: bus.leases.acquire("another", "b"),
        "renew or release a lease": lambda: bus.leases.renew(held),
    }
    acts = acts_of_work(bus) | acts
    text = (ROOT / "docs/costs.md").read_text("utf-8")
    documented = re.findall(r"^- (.*): (adds )?([\d,/]+)$", text, re.MULTILINE)
    costs = Costs(bus, monkeypatch)
    measured = {act: costs.of(call) for act, call in acts.items()}
    assert costs.of(lambda: bus.heartbeats.beat("b")) == measured["acknowledge, beat"]
    assert {
        act: shown_cost(adds, counts, measured["publish"]) for act, adds, counts in documented
    } == measured


def acts_of_work(bus: Bus) -> dict[str, Callable[[], object]]:
    """The acts of workers, on a queue in which one job waits while another message came since."""
    queue = Queue.create(bus, "x.request")
    for _ in range(4):
        request = bus.publish("x.request", from_agent="a")
    first, second, third = queue.claim("b", limit=3)
    bus.publish("x.request", from_agent="a")
    answer = Draft("x.done", from_agent="b", to_agent="a", in_reply_to=request.id)
    return {
        "claim a job": lambda: queue.claim("b"),
        "take a message in and claim it": lambda: queue.claim("b"),
        "look for work, and find none": lambda: queue.claim("b"),
        "look again, when nothing came": lambda: queue.claim("b"),
        "renew a claim": lambda: queue.renew(first),
        "complete a job": lambda: queue.complete(first),
        "complete a job with an answer": lambda: queue.complete(second, answer),
        "fail a job that is tried again": lambda: queue.fail(third, "why"),
    }


def shown_cost(adds: str, counts: str, publish: list[int]) -> list[int]:
    """Transactions, statements and calls of fsync as an item gives them; some add to publish."""
    shown = [int(count.replace(",", "")) for count in counts.split("/")]
    return [had + more for had, more in zip(publish, shown, strict=True)] if adds else shown
