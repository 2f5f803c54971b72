"""A bus whose pages are overwritten, or whose state is changed by SQL with no trigger to refuse it.

The doctor never crashes, and never calls it whole when SQLite or a plain invariant says otherwise;
a repair loses no message that SQLite reads, and leaves a bus of which the doctor says nothing bad.
"""

import random
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
from hypothesis import strategies as st

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.schema.errors import AckbusError
from ackbus.subscribers.inboxes.session_names import SessionNames

from ..fault import corruption

_NUMBERS = st.sampled_from([-(2**63), -5, -1, 0, 1, 7, 10**6, 2**53, 1_790_000_000_000_000])
_STATE = st.sampled_from(
    [
        "UPDATE cursors SET last_acked_seq = {}",
        "UPDATE fencing SET last_token = {}",
        "DELETE FROM fencing",
        "UPDATE task_claims SET token = {}",
        "UPDATE task_claims SET lease_until_ms = {}",
        "UPDATE heartbeats SET ts_ms = {}",
        "UPDATE queues SET filled_seq = abs({} / 2)",
        "UPDATE queues SET ageing_ms = {}",
        "UPDATE reservations SET until_ms = {}",
        "UPDATE sessions SET number = {}",
        "UPDATE sessions SET announced_seq = {}, shown = '[[{}]]'",
        "UPDATE export_state SET last_seq = {}",
        "DELETE FROM export_state",
        "UPDATE notice_state SET last_seq = {}",
        "DELETE FROM catalog_state",
        "UPDATE catalog_state SET last_seq = {}",
        "INSERT OR REPLACE INTO meta VALUES ('imports', '{}')",
        "UPDATE claims SET lease_until_ms = {}",
        "UPDATE jobs SET state = 'running' WHERE state = 'queued'",
    ]
)
_PAGES = st.tuples(st.sampled_from(["flip", "page"]), st.integers(0, 2**32))

#: What is done to a bus: up to three acts.
harms = st.lists(st.builds(str.format, _STATE, _NUMBERS) | _PAGES, min_size=1, max_size=3)

#: What must hold, by plain SQL: no row comes back.
_INVARIANTS = (
    "SELECT 1 FROM cursors WHERE last_acked_seq NOT BETWEEN 0 AND (SELECT max(seq) FROM messages)",
    "SELECT 1 FROM queues WHERE filled_seq > (SELECT max(seq) FROM messages)",
    "SELECT 1 WHERE (SELECT count(*) FROM fencing) <> 1",
    "SELECT 1 FROM task_claims WHERE token NOT BETWEEN 1 AND (SELECT last_token FROM fencing)",
    "SELECT 1 WHERE (SELECT count(*) FROM export_state WHERE last_seq >= 0) <> 1",
    "SELECT 1 WHERE (SELECT count(*) FROM catalog_state WHERE last_seq >= 0) <> 1",
)


@contextmanager
def a_bus_to_copy(folder: Path) -> Iterator[Path]:
    """A small bus with rows in the tables that are harmed; nobody has it open."""
    directory = folder / "whole"
    with closing(Bus.init(directory)) as bus:
        queue = Queue.create(bus, "work", "task")
        bus.publish_many([Draft("task", "x" * (n * 9), from_agent="ann") for n in range(200)])
        queue.claim("w")
        Inbox(bus, "bob").ack(100)
        bus.heartbeats.beat("bob")
        bus.leases.acquire("deploy", "ann", lease_s=3600)
        bus.reservations.reserve(["src/**"], "ann", lease_s=3600)
        SessionNames.of(bus).take("bob", "process 1 since 1 on another.1")
    yield directory


def damaged_bus(case: list[str | tuple[str, int]], whole: Path) -> None:
    """Harms a copy, examines it, repairs it, and looks at what is left."""
    directory = corruption.copy(whole, whole.parent / "harmed")
    for act in case:
        _harm(directory, act)
    is_whole, before = _read(directory)
    found = corruption.doctor(directory, "--full")
    _check_words(found)
    assert is_whole or found.bad, case
    if not _is_repaired(directory):
        assert _read(directory)[1] == before, case
        return
    assert before <= _read(directory)[1], case
    assert corruption.doctor(directory, "--full").bad == {}, case


def _is_repaired(directory: Path) -> bool:
    """Repairs it; a repair may refuse in a line, and then has changed nothing."""
    try:
        _check_words(corruption.doctor(directory, "--repair"))
    except AssertionError as gave_up:
        if not isinstance(gave_up.__cause__, AckbusError):
            raise
        return False
    return True


def _harm(directory: Path, act: str | tuple[str, int]) -> None:
    path = directory / "bus.db"
    if isinstance(act, str):
        try:
            with closing(apsw.Connection(str(path))) as raw:
                raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
                raw.execute("PRAGMA ignore_check_constraints = ON")
                raw.execute(act)
        except apsw.Error:  # an act before has left nothing to change
            return
    elif act[0] == "flip":
        corruption.flip(path, random.Random(act[1]))
    else:
        corruption.zero_pages(path, random.Random(act[1]))


def _read(directory: Path) -> tuple[bool, set[tuple[object, ...]]]:
    """Whether SQLite and all invariants find it whole, and the messages that SQLite reads."""
    messages: set[tuple[object, ...]] = set()
    try:
        path = str(directory / "bus.db")
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as raw:
            raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            is_sound = raw.execute("PRAGMA integrity_check").get == "ok"
            is_sound = is_sound and not any(raw.execute(sql).fetchall() for sql in _INVARIANTS)
            query = "SELECT seq, id, CAST(payload AS BLOB) FROM messages WHERE from_agent = 'ann'"
            for row in raw.execute(query):
                messages.add(row)
            return is_sound, messages
    except (apsw.Error, UnicodeDecodeError):
        return False, messages


def _check_words(found: corruption.Found) -> None:
    told = str([sorted(each.items()) for each in found.records])
    assert not re.search(r"\w(Error|Exception)\b|Traceback|NoneType", told), told
    assert found.code in (0, 1)
