"""bus job list, show, retry, cancel; bus dead list, show, requeue, drop."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ackbus import Bus
from ackbus.schema.queries import file_of
from ackbus.subscribers.jobs.claims import Claim, Outcome
from ackbus.subscribers.jobs.errors import ClaimLost
from ackbus.subscribers.jobs.policy import work_headers
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.views import list_jobs

from ..conftest import RunBus
from .conftest import assert_error

pytestmark = pytest.mark.usefixtures("bus_dir")


def publish(bus: Bus, count: int = 1, type: str = "review", **fields: Any) -> None:
    for number in range(count):
        bus.publish(type, f"body {number}", from_agent="lead", **fields)


def take(queue: Queue, **options: Any) -> Claim:
    (claim,) = queue.claim("worker-1", group="reviewers", **options)
    return claim


def fail(queue: Queue, count: int = 1) -> None:
    """Fail the next jobs: in a queue of one attempt they are dead."""
    for _ in range(count):
        queue.fail(take(queue), "why not")


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def states(queue: Queue) -> dict[int, str]:
    return {job.seq: job.state for job in list_jobs(queue, (), 99)}


# job ------------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first_across_queues(run_bus: RunBus, bus: Bus) -> None:
    """Issue 3, item 6: by queue and state; a queue is filled before it is shown."""
    assert run_bus("job", "list").code == 4
    queue = Queue.create(bus, "reviews", "review", retry="asked")
    Queue.create(bus, "all", ">")
    publish(bus, 3)
    fail(queue)
    queue.complete(take(queue))
    found = records(run_bus("job", "list", "--json").out)
    assert [(record["seq"], record["queue"]) for record in found] == [
        *((3, "all"), (3, "reviews"), (2, "all"), (2, "reviews"), (1, "all"), (1, "reviews")),
    ]
    assert [
        record["seq"] for record in records(run_bus("job", "list", "--limit", "1", "--json").out)
    ] == [3]
    shown = run_bus("job", "list", "--queue", "reviews", "--state", "failed", "--state", "queued")
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0] == ["queue", "seq", "type", "state", "attempts", "when", "error"]
    assert rows[1][:5] == ["reviews", "3", "review", "queued", "0/4"]
    assert rows[2][:5] == ["reviews", "1", "review", "failed", "1/4"]
    assert rows[2][-3:] == ["ago", "why", "not"]
    assert_error(run_bus("job", "list", "--state", "done"), 2, "no state 'done'", "succeeded")
    assert_error(run_bus("job", "list", "--queue", "ghost"), 4, "no queue 'ghost'")


def test_column_of_attempts_has_those_that_have_begun(run_bus: RunBus, bus: Bus) -> None:
    """Jobs that wait, run, and are over count alike; so do those that were cancelled meanwhile."""
    queue = Queue.create(bus, "review", backoff_s=0, max_attempts=2, max_running=9)

    def column() -> dict[str, str]:
        rows = [line.split() for line in run_bus("job", "list").out.splitlines()[1:]]
        return {row[1]: f"{row[3]} {row[4]}" for row in rows}

    publish(bus, 4)
    fail(queue)
    assert column()["1"] == "queued 1/2"
    again = take(queue)
    assert column() == {"1": "running 2/2", **dict.fromkeys("234", "queued 0/2")}
    queue.fail(again, "still not")
    queue.complete(take(queue))
    taken = take(queue)
    for seq in (3, 4):
        queue.jobs.cancel(seq)
    assert taken.message.seq == 3
    assert column() == {
        "1": "dead 2/2",
        "2": "succeeded 1/2",
        "3": "cancelled 1/2",
        "4": "cancelled 0/2",
    }
    assert re.search(r"^attempts: +0 of 2$", run_bus("job", "show", "4").out, re.MULTILINE)


def test_what_waits_is_listed_in_the_order_of_claiming(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "review", ordering="priority")
    publish(bus, headers=work_headers(available_at_ms=bus.now_ms() + 7_200_000))
    publish(bus, 2, headers=work_headers(dedupe_key="k"))
    publish(bus, priority=0)
    rows = [
        line.split() for line in run_bus("job", "list", "--state", "queued").out.splitlines()[1:]
    ]
    assert [(row[1], row[3]) for row in rows] == [
        *(("4", "queued"), ("2", "queued"), ("1", "delayed"), ("3", "held")),
    ]
    assert rows[2][5:] == ["in", "120", "min"]
    assert take(queue).message.seq == 4


def test_job_is_shown_with_every_attempt(run_bus: RunBus, bus: Bus) -> None:
    """K-06: each one stays, with its times, who, how it ended, and what it printed."""
    queue = Queue.create(bus, "review", backoff_s=0)
    publish(bus)
    failed = Outcome(
        status="failed",
        error="command exited with code 3",
        exit_code=3,
        stderr="\n".join(f"line {number}" for number in range(12)),
        logs=[{"level": "warn", "message": "hm"}],
    )
    queue.end(take(queue), failed)
    queue.end(take(queue), Outcome(result={"ok": True}, exit_code=0))
    record = json.loads(run_bus("job", "show", "1", "--json").out)
    assert (record["queue"], record["state"], record["attempt"]) == ("review", "succeeded", 2)
    assert (record["message"]["payload"], record["message"]["from"]) == ("body 0", "lead")
    first, second = record["attempts"]
    assert (first["status"], first["state"], first["exit_code"]) == ("failed", "terminal", 3)
    assert (first["group"], first["worker"]) == ("reviewers", "worker-1")
    assert (first["logs"], first["stderr"]) == (failed.logs, failed.stderr)
    assert first["claimed_at"] <= first["ended_at"] <= second["claimed_at"] <= second["ended_at"]
    assert second["token"] > first["token"]
    assert (second["status"], second["result"]) == ("completed", {"ok": True})

    shown = run_bus("job", "show", "1").out
    assert shown.startswith("queue:        review\nseq:          1\nstate:        succeeded\n")
    assert "\nattempt 1: failed (terminal), by reviewers on worker-1, token " in shown
    assert "\nexit code:    3\nerror:        command exited with code 3\n" in shown
    assert "\nstderr:       line 9\nstderr:       … 2 more lines; --json shows all\n" in shown
    assert '\nresult:       {"ok":true}\n' in shown
    assert shown.endswith("\n\nbody 0\n")


def test_active_attempt_is_live_or_expired(run_bus: RunBus, bus: Bus) -> None:
    """P-68: a lease that has run out is not called live, though nobody has looked since."""
    queue = Queue.create(bus, "review")
    publish(bus, 2)
    take(queue, lease_s=600)
    take(queue, lease_s=0.001)
    live, expired = (
        json.loads(run_bus("job", "show", seq, "--json").out)["attempts"][0] for seq in "12"
    )
    assert (live["status"], live["state"]) == ("active", "live_active")
    assert (expired["status"], expired["state"]) == ("active", "expired_active")
    assert "ended_at" not in live


@pytest.mark.parametrize("act", ["show", "retry", "cancel"])
def test_job_in_several_queues_needs_the_queue(act: str, run_bus: RunBus, bus: Bus) -> None:
    """Issue 3, item 6: one clear error that names them; nothing is changed."""
    one, two = Queue.create(bus, "one", "review"), Queue.create(bus, "two", "review")
    publish(bus)
    assert_error(run_bus("job", act, "1"), 2, "queues 'one' and 'two'", "--queue")
    assert states(one) == states(two) == {1: "queued"}
    assert_error(run_bus("job", act, "2"), 4, "message 2 is not a job of any queue", "bus job list")
    assert_error(run_bus("job", act, "2", "--queue", "one"), 4, "not a job of queue 'one'")
    assert_error(run_bus("job", act, "0", "--queue", "one"), 2, "SEQ must be 1 or more")


def test_retry_and_cancel_do_all_that_are_named_or_none(run_bus: RunBus, bus: Bus) -> None:
    """PITFALLS 12: a job that succeeded stays so; who works on a cancelled one loses it."""
    queue = Queue.create(bus, "review", retry="asked")
    publish(bus, 4)
    fail(queue, 2)
    queue.complete(take(queue))
    claim = take(queue)
    before = {1: "failed", 2: "failed", 3: "succeeded", 4: "running"}
    assert states(queue) == before
    assert_error(run_bus("job", "retry", "1", "3"), 3, "job 3", "succeeded", "tried again")
    assert_error(run_bus("job", "cancel", "1", "3"), 3, "job 3", "succeeded", "cancelled")
    assert states(queue) == before
    done = run_bus("job", "retry", "1", "2", "1")
    assert (done.code, done.out, done.err) == (0, "retried 2 jobs\n", "")
    cancelled = records(run_bus("job", "cancel", "4", "2", "--json").out)
    assert [(record["seq"], record["error"]) for record in cancelled] == [
        *((4, "cancelled by hand"), (2, "cancelled by hand")),
    ]
    assert states(queue) == {1: "queued", 2: "cancelled", 3: "succeeded", 4: "cancelled"}
    with pytest.raises(ClaimLost, match="cancelled by hand"):
        queue.complete(claim)


@pytest.fixture
def ends(bus: Bus) -> Queue:
    """A queue with a failed, a timed out and a dead job, and a success: 1 to 4; 5 waits."""
    queue = Queue.create(bus, "review", "review.*", retry="asked", max_attempts=1)
    publish(bus, 2, type="review.request")
    publish(bus, 2, type="review.urgent")
    publish(bus, type="review.request")
    fail(queue)
    queue.end(take(queue), Outcome(status="timed_out", error="too slow"))
    queue.end(take(queue), Outcome(status="failed", error="later", retry=True))
    queue.complete(take(queue))
    before = {1: "failed", 2: "timed_out", 3: "dead", 4: "succeeded", 5: "queued"}
    assert states(queue) == before
    return queue


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (["--queue", "review"], [1, 2, 3]),
        (["--state", "failed"], [1]),
        (["--state", "dead", "--state", "timed_out", "--state", "dead"], [2, 3]),
        (["--type", "*.request"], [1, 2]),
        (["--since", "1h", "--type", "review.urgent"], [3]),
        (["--since", "2099-01-01T00:00:00Z"], []),
        (["--state", "failed", "--type", "*.urgent"], []),
    ],
)
def test_jobs_are_retried_in_bulk_by_queue_state_type_and_time(
    options: list[str], seqs: list[int], run_bus: RunBus, ends: Queue
) -> None:
    """As dead letters are: first with --dry-run, which changes nothing."""
    before, code = states(ends), 0 if seqs else 4
    dry = run_bus("job", "retry", *options, "--dry-run", "--json")
    assert ({record["seq"] for record in records(dry.out)}, dry.code) == (set(seqs), code)
    assert dry.err.endswith(" would be retried; nothing was changed\n")
    assert states(ends) == before
    done = run_bus("job", "retry", *options, "--json")
    assert ({record["seq"] for record in records(done.out)}, done.code) == (set(seqs), code)
    assert states(ends) == before | dict.fromkeys(seqs, "queued")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["--queue", "bus job list"]),
        (["--dry-run"], ["--queue", "bus job list"]),
        (["1", "--state", "failed"], ["not both"]),
        (["1", "--since", "1h"], ["not both"]),
        (["--state", "succeeded"], ["--state must be failed, timed_out or dead"]),
        (["--queue", "review", "--type", "a..b"], ["'a..b'"]),
    ],
)
def test_retry_wants_one_clear_choice(
    options: list[str], words: list[str], run_bus: RunBus, ends: Queue
) -> None:
    before = states(ends)
    assert_error(run_bus("job", "retry", *options), 2, *words)
    assert states(ends) == before


def test_delayed_job_need_not_wait_any_longer(run_bus: RunBus, bus: Bus) -> None:
    queue = Queue.create(bus, "review")
    publish(bus, headers=work_headers(available_at_ms=bus.now_ms() + 9**9))
    assert queue.claim("worker") == []
    assert run_bus("job", "retry", "1").code == 0
    assert take(queue).attempt == 1


# dead -----------------------------------------------------------------------------------------


@pytest.fixture
def graves(bus: Bus) -> dict[str, Queue]:
    """Two queues with dead letters 1 to 4 (reviews) and 5 (builds), and live jobs 6 and 7."""
    reviews = Queue.create(bus, "reviews", "review.*", max_attempts=1)
    builds = Queue.create(bus, "builds", "build", max_attempts=1)
    publish(bus, 3, type="review.request")
    publish(bus, type="review.urgent")
    publish(bus, type="build")
    fail(reviews, 4)
    fail(builds)
    publish(bus, 1, type="review.request")
    publish(bus, 1, type="build")
    reviews.fill()
    builds.fill()
    return {"reviews": reviews, "builds": builds}


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        ([], [5, 1, 2, 3, 4]),
        (["--queue", "reviews"], [1, 2, 3, 4]),
        (["--type", "*.request"], [1, 2, 3]),
        (["--type", "build"], [5]),
        (["--since", "1h"], [5, 1, 2, 3, 4]),
        (["--since", "2099-01-01T00:00:00Z"], []),
        (["--queue", "builds", "--type", "review.*"], []),
    ],
)
def test_dead_letters_are_listed_by_queue_type_and_time(
    options: list[str], seqs: list[int], run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    """Issue 3, item 3."""
    done = run_bus("dead", "list", *options, "--json")
    assert [record["seq"] for record in records(done.out)] == seqs
    assert done.code == (0 if seqs else 4)
    assert {record["state"] for record in records(done.out)} <= {"dead"}


def test_dead_letter_is_shown_with_every_attempt(run_bus: RunBus, graves: dict[str, Queue]) -> None:
    """Issue 3, item 3."""
    record = json.loads(run_bus("dead", "show", "4", "--json").out)
    assert (record["state"], record["error"]) == ("dead", "why not")
    assert [attempt["error"] for attempt in record["attempts"]] == ["why not"]
    assert_error(run_bus("dead", "show", "6"), 4, "job 6 is not dead", "queued in queue 'reviews'")


@pytest.mark.parametrize(("act", "done"), [("requeue", "requeued"), ("drop", "dropped")])
def test_dry_run_lists_and_changes_nothing(
    act: str, done: str, run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    """Issue 3, item 3: in bulk with --dry-run."""
    before = states(graves["reviews"])
    dry = run_bus("dead", act, "--queue", "reviews", "--type", "review.request", "--dry-run")
    assert [line.split()[1] for line in dry.out.splitlines()[1:]] == ["1", "2", "3"]
    assert (dry.code, dry.err) == (0, f"bus: 3 jobs would be {done}; nothing was changed\n")
    assert run_bus("dead", act, "--type", "nothing", "--dry-run").code == 4
    assert states(graves["reviews"]) == before


def test_dead_letters_are_requeued_and_dropped_in_bulk(
    run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    """Issue 3, item 3: by type, by queue, by time, or all of them."""
    assert run_bus("dead", "requeue", "--type", "*.urgent", "--since", "1h").out == (
        "requeued 1 job\n"
    )
    assert states(graves["reviews"])[4] == "queued"
    dropped = records(run_bus("dead", "drop", "--queue", "reviews", "--json").out)
    assert [(record["seq"], record["state"]) for record in dropped] == [
        *((1, "cancelled"), (2, "cancelled"), (3, "cancelled")),
    ]
    assert run_bus("dead", "requeue", "--all").out == "requeued 1 job\n"
    assert states(graves["builds"]) == {5: "queued", 7: "queued"}
    again = run_bus("dead", "requeue", "--all")
    assert (again.code, again.out) == (4, "requeued 0 jobs\n")
    assert take(graves["builds"]).attempt == 1


def test_named_dead_letters_are_changed_all_or_none(
    run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    assert_error(run_bus("dead", "drop", "1", "6"), 4, "job 6 is not dead")
    assert states(graves["reviews"])[1] == "dead"
    assert run_bus("dead", "requeue", "1", "5").out == "requeued 2 jobs\n"
    assert (states(graves["reviews"])[1], states(graves["builds"])[5]) == ("queued", "queued")


def test_dry_run_refuses_what_the_act_would_refuse(
    run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    """It must not say that a job would be retried that can't be."""
    queued = next(seq for seq, state in states(graves["reviews"]).items() if state == "queued")
    acts = [run_bus("job", "retry", str(queued), *dry) for dry in ([], ["--dry-run"])]
    assert (acts[0].code, acts[0].out, acts[0].err) == (acts[1].code, acts[1].out, acts[1].err)
    assert acts[0].code == 3


@pytest.mark.parametrize("act", ["requeue", "drop"])
@pytest.mark.parametrize(
    "choice", [[], ["1", "--all"], ["1", "--type", "t"], ["--all", "--queue", "reviews"]]
)
def test_bulk_acts_want_one_clear_choice(
    act: str, choice: list[str], run_bus: RunBus, graves: dict[str, Queue]
) -> None:
    """PITFALLS 25: no errors print a destructive command; nothing is changed by a slip."""
    done = run_bus("dead", act, *choice)
    assert_error(done, 2, "bus dead list")
    assert "--all" not in done.err
    assert "drop" not in done.err
    assert set(states(graves["reviews"]).values()) == {"dead", "queued"}


# terminals ------------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[2J \x9b31m \u202eevil\u2066 \u2028 \r\tend"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [("job", "list"), ("job", "show", "1"), ("dead", "list"), ("dead", "show", "1")]
)
def test_what_commands_printed_can_not_act_on_a_terminal(
    line: tuple[str, ...], bus: Bus, run_bus: RunBus, on_terminal: Callable[..., str]
) -> None:
    """PITFALLS 24: errors, stderr, results, and names of workers come from anywhere."""
    queue = Queue.create(bus, "review", max_attempts=1)
    publish(bus)
    outcome = Outcome(status="failed", error=EVIL, stderr=EVIL, result=EVIL, logs=[{"m": EVIL}])
    queue.end(take(queue), outcome)
    file_of(bus).rows("UPDATE claims SET worker_group = ?", (EVIL,))
    for sent in (run_bus(*line).out, on_terminal(*line), on_terminal(*line, "--json")):
        assert not re.search("\x1b]|\x1b\\[2J|[\x07\x9b\u202e\u2066\u2028\t]", sent)
        assert "owned" in sent


def test_a_job_about_a_task_names_it_in_the_list(run_bus: RunBus, bus: Bus) -> None:
    """A name that could be read as words is left out."""
    Queue.create(bus, "completions", "done")
    for task in ("fix-login", "fix login; rm", 7):
        bus.publish("done", {"task": task}, from_agent="w")
    rows = run_bus("job", "list", "--queue", "completions").out.splitlines()[1:]
    assert [re.split("  +", row)[2] for row in sorted(rows)] == ["done fix-login", "done", "done"]
