"""Acts of people on jobs and queues are recorded: the act, its actor and its time."""

import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, DeadLetters, Draft, JobControl, Queue
from ackbus.errors import InvalidInput
from ackbus.subscribers.jobs.outcomes import ManualActs
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.subscribers.queues.queues import Queues

from ..conftest import RunBus
from ..programs import raw_sql

ACCOUNT = f"{pwd.getpwuid(os.geteuid()).pw_name}@{os.uname().nodename}"


@pytest.fixture
def queue(bus: Bus) -> Queue:
    """A queue with three jobs."""
    bus.publish_many([Draft("task.x", n, from_agent="lead") for n in range(3)])
    made = Queue.create(bus, "tasks", "task.*", max_attempts=1)
    made.fill()
    return made


def told(run_bus: RunBus, *line: str) -> list[dict[str, Any]]:
    """The acts that a command tells of, without when."""
    acts: list[dict[str, Any]] = json.loads(run_bus(*line, "--json").out)["acts"]
    assert all(act.pop("at").startswith("20") for act in acts)
    return acts


@pytest.mark.slow
def test_who_cancelled_and_retried_a_job_is_on_record(queue: Queue, run_bus: RunBus) -> None:
    """Q-26: by option, by BUS_AGENT, else by the account of the process."""
    assert run_bus("job", "cancel", "1", "--by", "ann").code == 0
    assert run_bus("job", "retry", "1", env={"BUS_AGENT": "bob"}).code == 0
    assert run_bus("job", "cancel", "1").code == 0
    by_hand = [
        {"who": "ann", "act": "cancel", "seq": 1, "detail": "cancelled by hand"},
        {"who": "bob", "act": "retry", "seq": 1, "detail": "it was cancelled"},
        {"who": ACCOUNT, "act": "cancel", "seq": 1, "detail": "cancelled by hand"},
    ]
    assert told(run_bus, "job", "show", "1") == by_hand
    assert told(run_bus, "job", "show", "2") == []
    for command in (("job", "show", "1"), ("inspect", "1"), ("trace", "1")):
        shown = run_bus(*command).out
        assert "cancel by ann, 20" in shown, command
        assert f"cancel by {ACCOUNT}, 20" in shown, command


def test_a_job_that_was_retried_is_told_in_the_order_of_what_happened(
    queue: Queue, run_bus: RunBus
) -> None:
    """Not "1 of 1" over two attempts; the retry stands between the attempts around it."""
    queue.fail(queue.claim("w")[0], "no")
    assert run_bus("job", "retry", "1", "--by", "ann").code == 0
    queue.claim("w")
    shown = run_bus("job", "show", "1").out
    assert "\nattempts:     1 of 1, since the last retry by hand, 2 in all\n" in shown
    in_order = r"attempt 1: .*by hand: .*retry by ann.*attempt 1: "
    assert re.search(in_order, shown, re.DOTALL)
    claims = r"attempt 1,.*retry by ann.*attempt 1,"
    assert re.search(claims, run_bus("trace", "1").out, re.DOTALL)


def test_who_paused_changed_and_purged_a_queue_is_on_record(queue: Queue, run_bus: RunBus) -> None:
    for line in ("pause", "resume", "purge"):
        assert run_bus("queue", line, "tasks", "--by", "ann").code == 0
    assert run_bus("queue", "set", "tasks", "--max-running", "8", "--by", "bob").code == 0
    assert told(run_bus, "queue", "show", "tasks") == [
        {"who": "ann", "act": "pause"},
        {"who": "ann", "act": "resume"},
        {"who": "ann", "act": "purge", "detail": "3 jobs"},
        {"who": "bob", "act": "set", "detail": "max_running 8"},
    ]
    assert "by hand:      purge by ann, 20" in run_bus("queue", "show", "tasks").out


def test_limits_of_a_queue_are_on_record(queue: Queue, bus: Bus, run_bus: RunBus) -> None:
    """Not that they are counted again, which other changes do."""
    by = {"BUS_AGENT": "ann"}
    assert run_bus("limit", "set", "2000", "--queue", "tasks", env=by).code == 0
    JobControl(queue).recount_limit()
    assert run_bus("limit", "clear", "--queue", "tasks", "--by", "bob").code == 0
    assert run_bus("limit", "clear", "--queue", "tasks", env=by).code == 4
    assert told(run_bus, "queue", "show", "tasks") == [
        {"who": "ann", "act": "limit", "detail": "2,000 may wait"},
        {"who": "bob", "act": "unlimit"},
    ]


def test_change_of_rules_is_told_in_plain_words(queue: Queue, bus: Bus, run_bus: RunBus) -> None:
    rules = {"addressed": None, "max_running": None, "ageing_s": 90}
    info = change_policy(bus, "tasks", by="ann", **rules)
    assert [info.policy.said(rule) for rule in rules] == ["none", "any", "90s"]
    (act,) = told(run_bus, "queue", "show", "tasks")
    assert act["detail"] == "addressed none, max_running any, ageing_s 90s"
    shown = run_bus("queue", "set", "tasks", "--addressed", "none").out
    assert "addressed none" in shown
    assert "addressed any" in run_bus("queue", "set", "tasks", "--addressed", "any").out
    assert "None" not in run_bus("queue", "show", "tasks").out


def test_who_requeued_and_dropped_dead_letters_is_on_record(
    queue: Queue, bus: Bus, run_bus: RunBus
) -> None:
    for claim in queue.claim("worker", limit=2):
        queue.fail(claim, "no")
    assert run_bus("dead", "requeue", "1", "--by", "ann").code == 0
    assert run_bus("dead", "drop", "--all", "--by", "bob").code == 0
    acts = ManualActs.of(bus)
    assert [(a.who, a.act, a.detail) for a in acts.of_job(queue.info, 1)] == [
        ("ann", "retry", "it was dead")
    ]
    assert [(a.who, a.act, a.detail) for a in acts.of_job(queue.info, 2)] == [
        ("bob", "cancel", "dropped by hand")
    ]


def test_an_act_that_is_undone_leaves_no_trace(queue: Queue, bus: Bus) -> None:
    """One transaction for both: the trace is there exactly when the act is."""

    def change_mind() -> None:
        with bus.transaction():
            JobControl(queue, by="ann").cancel(1)
            Queues(bus).pause("tasks", by="ann")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change_mind()
    assert ManualActs.of(bus).of_job(queue.info, 1) == []
    assert ManualActs.of(bus).of_queue(queue.info) == []


def test_a_trial_leaves_no_trace(queue: Queue, run_bus: RunBus) -> None:
    for claim in queue.claim("worker", limit=1):
        queue.fail(claim, "no")
    assert run_bus("dead", "requeue", "1", "--dry-run").code == 0
    assert told(run_bus, "job", "show", "1") == []


def test_what_is_on_record_is_changed_by_nobody(queue: Queue, bus: Bus, bus_dir: Path) -> None:
    """The file itself refuses it, to every program."""
    JobControl(queue, by="ann").cancel(1)
    row = raw_sql(bus_dir, "SELECT * FROM work_acts")
    for sql in (
        "UPDATE work_acts SET who = 'bob'",
        "DELETE FROM work_acts",
        "INSERT OR REPLACE INTO work_acts SELECT id, at_ms, 'bob', act, 1, 1, '' FROM work_acts",
    ):
        with pytest.raises(AssertionError, match="what was done by hand stays on record"):
            raw_sql(bus_dir, sql)
    assert raw_sql(bus_dir, "SELECT * FROM work_acts") == row


def test_a_name_that_is_none_is_refused(queue: Queue, run_bus: RunBus) -> None:
    with pytest.raises(InvalidInput, match="name of the actor"):
        DeadLetters(queue, by="x" * 200)
    assert run_bus("queue", "pause", "tasks", "--by", " ").code == 2
