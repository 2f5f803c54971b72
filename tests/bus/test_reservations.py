"""Reservations: granted together or not at all, for a time, under tokens."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.bus.reservations.reservations import Reservation, ReserveResult
from ackbus.errors import InvalidInput, LeaseLost
from ackbus.schema.message.times import MAX_TS_MS

from ..programs import held_write_lock, raw_sql


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(bus_dir: Path, clock: Clock) -> Iterator[Bus]:
    """A bus whose time the test tells."""
    with Bus.open(bus_dir, clock=clock) as opened:
        yield opened


def held(result: ReserveResult) -> list[tuple[str, str, str]]:
    assert result.granted
    assert result.conflicts == []
    return [(each.path, each.agent, each.mode) for each in result.reservations]


def against(result: ReserveResult) -> list[tuple[str, str, str]]:
    assert not result.granted
    assert result.reservations == []
    return [(each.path, each.held.path, each.held.agent) for each in result.conflicts]


def test_paths_are_reserved_together_or_not_at_all(bus: Bus) -> None:
    """PITFALLS 5, 15: one that another has keeps back the others too, and is named."""
    first = bus.reservations.reserve(["src/a.py", "docs/"], "alice", reason="rename")
    assert held(first) == [("src/a.py", "alice", "exclusive"), ("docs", "alice", "exclusive")]
    second = bus.reservations.reserve(["free.py", "src/*.py", "docs/x.md"], "bob")
    assert against(second) == [
        ("src/*.py", "src/a.py", "alice"),
        ("docs/x.md", "docs", "alice"),
    ]
    assert second.conflicts[0].held == first.reservations[0]
    assert bus.reservations.list() == sorted(first.reservations, key=lambda each: each.path)
    assert held(bus.reservations.reserve(["free.py"], "bob"))


def test_shared_goes_with_shared_only(bus: Bus) -> None:
    assert held(bus.reservations.reserve(["docs"], "alice", shared=True))
    assert held(bus.reservations.reserve(["docs/a.md"], "bob", shared=True))
    assert against(bus.reservations.reserve(["docs/b.md"], "carol")) == [
        ("docs/b.md", "docs", "alice")
    ]
    assert held(bus.reservations.reserve(["src"], "carol"))
    assert against(bus.reservations.reserve(["**/*.md"], "dave", shared=True)) == [
        ("**/*.md", "src", "carol")
    ]


def test_nobody_is_in_their_own_way(timed: Bus, clock: Clock) -> None:
    """Reserving again lets it last longer, with the same token; another mode is a new grant."""
    (first,) = timed.reservations.reserve(["a"], "alice", lease_s=60, reason="why").reservations
    assert held(timed.reservations.reserve(["*"], "alice"))
    clock.ms += 10_000
    (again,) = timed.reservations.reserve(["a"], "alice", lease_s=60).reservations
    assert (again.token, again.reason) == (first.token, "why")
    assert (again.reserved_at_ms, again.until_ms) == (first.reserved_at_ms, clock.ms + 60_000)
    (shorter,) = timed.reservations.reserve(["a"], "alice", lease_s=1).reservations
    assert shorter == again
    (shared,) = timed.reservations.reserve(["a"], "alice", shared=True).reservations
    assert (shared.mode, shared.token > again.token) == ("shared", True)
    with pytest.raises(LeaseLost, match="never granted"):
        timed.reservations.renew(first.token, "alice")


def test_another_mode_has_to_suit_the_others(bus: Bus) -> None:
    bus.reservations.reserve(["a"], "alice", shared=True)
    bus.reservations.reserve(["a"], "bob", shared=True)
    before = bus.reservations.list()
    assert against(bus.reservations.reserve(["a"], "bob")) == [("a", "a", "alice")]
    assert bus.reservations.list() == before


def test_what_has_expired_is_free(timed: Bus, clock: Clock) -> None:
    """M-71: at that very millisecond."""
    (first,) = timed.reservations.reserve(["a"], "alice", lease_s=60).reservations
    clock.ms = first.until_ms - 1
    assert against(timed.reservations.reserve(["a"], "bob"))
    clock.ms = first.until_ms
    assert timed.reservations.list() == []
    assert timed.reservations.against(["a"], "bob") == []
    (second,) = timed.reservations.reserve(["a"], "bob").reservations
    assert second.token > first.token


def test_late_holder_changes_nothing_and_learns_it(timed: Bus, clock: Clock) -> None:
    """PITFALLS 12, promise 6: the token is checked in the statement that changes the row."""
    (first,) = timed.reservations.reserve(["a"], "alice", lease_s=60).reservations
    clock.ms = first.until_ms
    for act in (timed.reservations.renew, timed.reservations.release):
        with pytest.raises(LeaseLost, match="the one for a has expired; see"):
            act(first.token, "alice")
    (second,) = timed.reservations.reserve(["a"], "bob").reservations
    for act in (timed.reservations.renew, timed.reservations.release):
        with pytest.raises(LeaseLost, match="was released, has expired, or was never granted"):
            act(first.token, "alice")
        with pytest.raises(LeaseLost, match="it is bob's, for a"):
            act(second.token, "alice")
    assert timed.reservations.list() == [second]


def test_renewing_counts_from_now(timed: Bus, clock: Clock) -> None:
    (first,) = timed.reservations.reserve(["a"], "alice", lease_s=60).reservations
    clock.ms += 59_999
    renewed = timed.reservations.renew(first.token, "alice", lease_s=30)
    assert (renewed.token, renewed.until_ms) == (first.token, clock.ms + 30_000)
    timed.reservations.release(first.token, "alice")
    assert timed.reservations.list() == []
    with pytest.raises(LeaseLost):
        timed.reservations.release(first.token, "alice")


def test_tokens_grow_over_leases_and_reservations(bus: Bus, bus_dir: Path) -> None:
    """Promise 6: one counter for both, also for a plain INSERT."""
    tokens = []
    for name in ("a", "b"):
        lease = bus.leases.acquire(name, "alice")
        assert lease is not None
        tokens.append(lease.token)
        tokens += [each.token for each in bus.reservations.reserve([name], "bob").reservations]
    raw_sql(
        bus_dir,
        "INSERT INTO reservations (path, agent_id, reserved_at_ms, until_ms)"
        f" VALUES ('raw/[', 'raw', 1, {MAX_TS_MS})",
    )
    tokens += [each.token for each in bus.reservations.list(agent="raw")]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 5
    assert [each.path for each in bus.reservations.against(["raw/["], "alice")] == ["raw/["]


def test_list_is_of_an_agent_or_of_a_path(bus: Bus) -> None:
    bus.reservations.reserve(["src", "docs/*.md"], "alice", shared=True)
    bus.reservations.reserve(["src/a.py"], "bob", shared=True)

    def paths(found: list[Reservation]) -> list[str]:
        return [each.path for each in found]

    assert paths(bus.reservations.list()) == ["docs/*.md", "src", "src/a.py"]
    assert paths(bus.reservations.list(agent="bob")) == ["src/a.py"]
    assert paths(bus.reservations.list(path="src/b.py")) == ["src"]
    assert paths(bus.reservations.list(path="**/a*")) == ["docs/*.md", "src", "src/a.py"]
    assert paths(bus.reservations.list(agent="bob", path="docs")) == []


def test_edits_are_compared_with_what_others_have(bus: Bus) -> None:
    """A file that others share is in order only for who shares it too."""
    bus.reservations.reserve(["src/*.py"], "alice")
    bus.reservations.reserve(["docs"], "alice", shared=True)
    bus.reservations.reserve(["docs/b.md", "lib"], "bob", shared=True)
    files = ["free", "src/a.py", "docs/a.md", "docs/b.md", "lib/x"]

    def found(agent: str | None) -> list[tuple[str, str]]:
        return [(each.path, each.held.agent) for each in bus.reservations.against(files, agent)]

    assert found("alice") == [("lib/x", "bob")]
    assert found("bob") == [("src/a.py", "alice"), ("docs/a.md", "alice")]
    assert found(None) == [
        ("src/a.py", "alice"),
        ("docs/a.md", "alice"),
        ("docs/b.md", "alice"),
        ("docs/b.md", "bob"),
        ("lib/x", "bob"),
    ]


def test_bad_wishes_store_nothing(bus: Bus) -> None:
    """Promise 11."""
    for paths in ([], ["ok", "[bad"], ["ok", "../x"], [f"f{n}" for n in range(1001)]):
        with pytest.raises(InvalidInput):
            bus.reservations.reserve(paths, "alice")
    for wrong in ({"lease_s": 0}, {"lease_s": 86_401}, {"reason": ""}, {"reason": "a\nb"}):
        with pytest.raises(InvalidInput):
            bus.reservations.reserve(["ok"], "alice", **wrong)
    with pytest.raises(InvalidInput):
        bus.reservations.reserve(["ok"], " alice")
    assert bus.reservations.list() == []


def test_conflicts_are_found_up_to_a_hundred_and_without_the_lock(bus: Bus, bus_dir: Path) -> None:
    """A wish of 1,000 globs that meet 1,000 others is refused while another program writes."""
    bus.reservations.reserve([f"src/*mod*{n}.py" for n in range(1000)], "alice")
    wanted = [f"src/*_{n}_*.py" for n in range(1000)]
    with held_write_lock(bus_dir):
        began = time.perf_counter()
        refused = bus.reservations.reserve(wanted, "bob")
        assert time.perf_counter() - began < 15
    assert (refused.granted, len(refused.conflicts)) == (False, 100)


def test_grant_during_the_comparison_is_seen(bus: Bus, bus_dir: Path) -> None:
    """PITFALLS 5: what was granted between the look and the lock stands against it as well."""
    with ThreadPoolExecutor(1) as pool:
        with Bus.open(bus_dir) as other, other.transaction():
            assert held(other.reservations.reserve(["src/a.py"], "alice"))
            late = pool.submit(bus.reservations.reserve, ["src/*.py"], "bob")
            with pytest.raises(TimeoutError):  # it has looked, found nothing, and waits
                late.result(0.2)
        assert against(late.result(60)) == [("src/*.py", "src/a.py", "alice")]
