"""The clock is set by an hour while everybody works: nothing is lost, doubled or stuck."""

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from ackbus import Bus

from ..concurrency.actors import Actor, StartActor
from ..conftest import wait_until
from ..programs import raw_sql
from .evidence import raw_rows

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000
ROLES = ("publisher", "acknowledger", "loop", "claimer", "leaser", "exporter")


@pytest.fixture
def set_clock(tmp_path: Path) -> Callable[[int], Path]:
    """Sets the clock of all users at once; they never find it half set."""
    file, fresh = tmp_path / "offset", tmp_path / "fresh"

    def set_to(offset_ms: int) -> Path:
        fresh.write_text(str(offset_ms))
        os.replace(fresh, file)
        return file

    return set_to


def goes_on(user: Actor) -> None:
    """It ended nothing and waits for nothing."""
    user.wait_told(len(user.told()) + 10)


def test_nobody_notices_a_clock_that_is_set_by_an_hour(
    set_clock: Callable[[int], Path], start_user: StartActor, bus_dir: Path
) -> None:
    """Promises 1, 2, 4, 6, 7, 8, 15: forwards, back, back again and forwards."""
    offset = set_clock(0)
    users = {role: start_user(role, bus_dir, offset) for role in ROLES}
    for step in (HOUR_MS, 0, -HOUR_MS, 0):
        for role in ROLES[:-1]:
            goes_on(users[role])
        set_clock(step)
    for role in ROLES[:-1]:
        goes_on(users[role])
    published = users["publisher"].kill()
    last = raw_sql(bus_dir, "SELECT max(seq) FROM messages WHERE type = 'note'")[0][0]
    for role in ("acknowledger", "loop", "claimer"):
        wait_until(lambda role=role: has(users[role], last))
    told = {role: users[role].kill() for role in ROLES[1:-1]}
    rows = raw_rows(bus_dir)
    assert [seq for seq, *_ in rows] == list(range(1, len(rows) + 1))
    assert set(published) <= {id for _, id, *_ in rows}
    assert told["loop"][:last] == list(range(1, last + 1)), "each once, in order of seq"
    assert all(a <= b for a, b in pairwise(told["acknowledger"])), "a cursor never moves back"
    assert all(a < b for a, b in pairwise(told["leaser"])), "tokens only grow"
    assert_each_job_was_answered_once(bus_dir, last)
    exported = bus_dir / "bus.jsonl"
    wait_until(lambda: exported.read_bytes().count(b"\n") == len(rows))
    users["exporter"].kill()


def has(user: Actor, seq: int) -> bool:
    return any(one >= seq for one in user.told())


def assert_each_job_was_answered_once(bus_dir: Path, last: int) -> None:
    states = "SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state"
    found = dict(raw_sql(bus_dir, states))
    with Bus.open(bus_dir) as bus:
        answers = [message.payload for message in bus.read(type="answer")]
    assert len(answers) == len(set(answers)) == found["succeeded"]
    assert set(answers) <= set(range(1, last + len(answers) + 1))


def test_a_suspended_holder_of_a_lease_learns_that_it_is_anothers(
    start_user: StartActor, bus: Bus, bus_dir: Path
) -> None:
    """M-75, M-76, promise 6: SIGSTOP for longer than the lease lasts, then SIGCONT."""
    holder = start_user("renewer", bus_dir)
    (token,) = set(holder.wait_told(3))
    assert bus.leases.acquire("kept", "heir") is None
    holder.stop()
    wait_until(lambda: bus.leases.acquire("kept", "heir", lease_s=60) is not None)
    heir = bus.leases.get("kept")
    holder.resume()
    kind, text = holder.end()[-1]
    assert kind == "LeaseLost"
    assert "\n" not in text
    assert heir is not None
    assert heir.token > token
    assert bus.leases.get("kept") == heir, "the late one has changed nothing"
