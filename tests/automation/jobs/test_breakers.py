"""Breakers of scheduled commands."""

from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.automation.config.models import BreakerConfig
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.records.breakers import Breakers
from ackbus.subscribers.queues.queue import Queue

from ...programs import connect
from ...subscribers.conftest import Clock


class Polls:
    """A plugin whose scheduled polls end as they are told."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self.bus, self.clock = bus, clock
        self.queue = Queue.create(
            bus, "plugin.feed", "plugin.feed.*", hides="all", addressed="automation"
        )
        self.submission = Submission(bus)
        self.breakers = Breakers.of(bus)

    def begin(self, submitted_by: str = "scheduler") -> Submitted:
        request = JobRequest(plugin="feed", command="poll", submitted_by=submitted_by)  # type: ignore[arg-type]
        done = self.submission.submit(request)
        assert isinstance(done, Submitted)
        return done

    def end(self, ok: bool, *, submitted_by: str = "scheduler") -> None:
        (claim,) = self.queue.claim("here", group="automation")
        with self.bus.transaction():
            self.queue.complete(claim) if ok else self.queue.fail(claim, "no", retry=False)
            self.breakers.note("feed", "poll", ok, claim.message.id, submitted_by)

    def run(self, *oks: bool, submitted_by: str = "scheduler") -> None:
        for ok in oks:
            self.begin(submitted_by)
            self.end(ok, submitted_by=submitted_by)

    @property
    def state(self) -> tuple[str, int]:
        breaker = self.breakers.get("feed", "poll")
        return breaker.state, breaker.failure_count

    def asked(self, command: str = "poll") -> str:
        """Whether a scheduled job may begin: `closed`, `open`, or `probe` for one that decides."""
        if not self.breakers.may_begin("feed", command, self.submission):
            return "open"
        is_closed = self.breakers.get("feed", command).state == "closed"
        return "closed" if is_closed else "probe"

    def history(self) -> list[tuple[str | None, str, str]]:
        return [(t.from_state, t.to_state, t.reason) for t in self.breakers.history("feed")]


@pytest.fixture
def polls(bus_dir: Path) -> Polls:
    clock = Clock()
    return Polls(Bus.open(bus_dir, clock=clock), clock)


@pytest.mark.requirement("D-74", "X-23", "R-04")
@pytest.mark.parametrize("threshold", [3, 5])
def test_d_74_failures_in_a_row_open_it(polls: Polls, threshold: int) -> None:
    polls.breakers.use_rules({"feed": BreakerConfig(threshold=threshold)})
    polls.run(*[False] * (threshold - 1), True, *[False] * (threshold - 1))
    assert polls.state == ("closed", threshold - 1)
    polls.run(False)
    assert polls.state == ("open", threshold)
    assert polls.asked() == "open"
    assert polls.asked("other") == "closed"


def test_d_75_only_scheduled_jobs_count(polls: Polls) -> None:
    for producer in ("webhook", "route", "cli", "api"):
        polls.run(*[False] * 3, submitted_by=producer)
    assert polls.state == ("closed", 0)


@pytest.mark.requirement("D-76", "D-78", "D-79")
def test_d_76_one_probe_decides_after_the_rest(polls: Polls) -> None:
    polls.run(False, False, False)
    polls.clock.advance(1799)
    assert polls.asked() == "open"
    polls.clock.advance(1)
    with polls.bus.transaction():
        assert polls.asked() == "probe"
        polls.begin()
    assert [polls.asked() for _ in range(3)] == ["open"] * 3  # no crowd
    assert polls.state[0] == "half_open"
    polls.end(False)
    assert polls.state == ("open", 4)
    polls.clock.advance(1800)
    with polls.bus.transaction():
        assert polls.asked() == "probe"
        polls.begin()
    polls.end(True)
    assert polls.state == ("closed", 0)
    assert polls.asked() == "closed"
    assert polls.history() == [
        ("closed", "open", "failure_threshold"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "open", "failure_threshold"),
        ("open", "half_open", "cooldown_elapsed"),
        ("half_open", "closed", "success"),
    ]


def test_probe_that_went_without_an_end_is_asked_for_again(polls: Polls) -> None:
    """It was cancelled, or its plugin was removed: the breaker must not stay half open for ever."""
    polls.run(False, False, False)
    polls.clock.advance(1800)
    with polls.bus.transaction():
        assert polls.asked() == "probe"
        probe = polls.begin()
    polls.queue.jobs.cancel(probe.seq)
    assert polls.asked() == "probe"


def test_probe_that_was_not_submitted_leaves_it_open(polls: Polls) -> None:
    polls.run(False, False, False)
    polls.clock.advance(1800)
    with suppress(RuntimeError), polls.bus.transaction():
        assert polls.asked() == "probe"
        raise RuntimeError
    assert polls.state[0] == "open"
    assert polls.asked() == "probe"


def test_r_05_what_was_queued_before_it_opened_runs_and_may_close_it(polls: Polls) -> None:
    for _ in range(4):
        polls.begin()
    for ok in (False, False, False):
        polls.end(ok)
    assert polls.state == ("open", 3)
    polls.end(True)
    assert polls.state == ("closed", 0)
    assert polls.history()[-1] == ("open", "closed", "success")


def test_d_77_reset_closes_it_by_hand(polls: Polls) -> None:
    polls.run(False, False, False)
    assert polls.breakers.reset("feed") == 1
    assert polls.state == ("closed", 0)
    assert polls.asked() == "closed"
    assert polls.history()[-1] == ("open", "closed", "manual_reset")
    assert polls.breakers.reset("feed") == 0


def test_transitions_are_kept_for_a_while_and_never_changed(polls: Polls) -> None:
    polls.run(False, False, False)
    directory = Path(polls.bus.layout.directory)
    with pytest.raises(apsw.ConstraintError, match="stay on record"):
        connect(directory).execute("UPDATE circuit_breaker_transitions SET reason = 'success'")
    assert polls.breakers.prune("2000-01-01T00:00:00.000Z", 100) == 0
    assert polls.breakers.prune("9999-01-01T00:00:00.000Z", 100) == 1
