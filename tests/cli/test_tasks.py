"""bus task: the steps, list, show, log. Work trees and integration have tests of their own."""

import json
import re

import pytest

from ackbus import Bus
from ackbus.tasks.records.task import Task
from ackbus.tasks.steps.tasks import Tasks

from ..conftest import RunBus, wait_until
from ..tasks.conftest import new_task
from .conftest import StartBus, assert_error

HEAD = "a" * 40
ME = {"BUS_AGENT": "worker-1"}


@pytest.fixture
def made(bus: Bus) -> Task:
    return Tasks(bus).assign(new_task(), agent="lead")


def state_of(bus: Bus) -> str:
    return Tasks(bus).get("fix-login").state


def test_steps_are_one_command_each(run_bus: RunBus, bus: Bus, made: Task) -> None:
    """M-02: start, heartbeat, approve, cancel, fail; each moves the state as named."""
    token = str(made.token)
    started = run_bus("task", "start", "fix-login", "--token", token, "--json", env=ME)
    assert started.code == 0, started.err
    shown = json.loads(started.out)
    for name in ("task", "attempt", "worker", "branch", "path", "base", "state", "token"):
        assert name in shown
    assert (shown["state"], shown["token"]) == ("WORKING", made.token)
    beat = run_bus("task", "heartbeat", "fix-login", env=ME | {"BUS_TASK_TOKEN": token})
    assert beat.code == 0, beat.err
    (row,) = [each for each in bus.heartbeats.list() if each.agent == "worker-1"]
    assert (row.status, row.task) == ("working", "fix-login")
    Tasks(bus).done("fix-login", agent="worker-1", token=made.token, head=HEAD)
    assert run_bus("task", "approve", "fix-login", "--agent", "rita").code == 0
    assert state_of(bus) == "APPROVED"
    assert run_bus("task", "cancel", "fix-login", "--agent", "lead").code == 0
    assert state_of(bus) == "CANCELLED"


def test_refused_steps_say_the_state_and_the_next_step(
    run_bus: RunBus, bus: Bus, made: Task
) -> None:
    """M-01: one clear line, exit code 3."""
    assert_error(run_bus("task", "approve", "fix-login", env=ME), 3, "the next step is start")
    late = run_bus("task", "start", "fix-login", "--token", "99", env=ME)
    assert_error(late, 3, "does not hold lease 'task.fix-login'")
    assert_error(run_bus("task", "start", "fix-login", env=ME), 3, "use the token of that lease")
    assert_error(run_bus("task", "heartbeat", "fix-login", env=ME), 2, "give --token N")
    assert_error(run_bus("task", "show", "fix-logn"), 4, "bus task list")
    assert_error(run_bus("task", "start", "fix-login"), 2, "give --agent AGENT")
    assert_error(run_bus("task", "list", "--state", "DONE"), 2, "is no state of tasks")
    assert state_of(bus) == "ASSIGNED"


def test_question_goes_to_the_requester_and_back(run_bus: RunBus, bus: Bus, made: Task) -> None:
    token = str(made.token)
    run_bus("task", "start", "fix-login", "--token", token, env=ME)
    asked = run_bus("task", "block", "fix-login", "which login?", "--token", token, env=ME)
    assert asked.code == 0, asked.err
    assert "asks: which login?" in run_bus("task", "list").out
    mail = json.loads(run_bus("poll", "lead", "--json").out.splitlines()[-1])
    assert (mail["type"], mail["payload"]["question"]) == ("task_blocked", "which login?")
    answered = run_bus("task", "answer", "fix-login", "the new one", "--agent", "lead", "--json")
    assert json.loads(answered.out)["token"] > made.token
    assert_error(run_bus("task", "answer", "fix-login", "x", "--agent", "l"), 3, "asks nothing")


def test_rejected_work_is_listed_as_its_next_attempt(run_bus: RunBus, bus: Bus, made: Task) -> None:
    tasks = Tasks(bus)
    tasks.start("fix-login", agent="worker-1", token=made.token)
    tasks.done("fix-login", agent="worker-1", token=made.token, head=HEAD)
    rejected = run_bus("task", "reject", "fix-login", "-m", "no test", "--agent", "rita")
    assert rejected.out.startswith("fix-login  ASSIGNED  attempt 2 of 3")
    ready = run_bus("task", "list", "--ready", "--json")
    assert [json.loads(line)["reason"] for line in ready.out.splitlines()] == ["no test"]


def test_list_leaves_out_what_is_over(run_bus: RunBus, bus: Bus, made: Task) -> None:
    Tasks(bus).cancel("fix-login", agent="lead")
    assert run_bus("task", "list").code == 4
    assert "CANCELLED" in run_bus("task", "list", "--all").out
    assert "CANCELLED" in run_bus("task", "list", "--state", "cancelled").out
    assert run_bus("task", "list", "--all", "--worker", "other").code == 4


def test_log_prints_the_messages_of_one_task(run_bus: RunBus, bus: Bus, made: Task) -> None:
    """M-96: in order of seq."""
    Tasks(bus).assign(new_task("other", correlation_id="fix-login"), agent="lead")
    Tasks(bus).cancel("fix-login", agent="lead")
    lines = [
        json.loads(line) for line in run_bus("task", "log", "fix-login", "--json").out.splitlines()
    ]
    assert {line["payload"]["task"] for line in lines} == {"fix-login"}
    seqs = [line["seq"] for line in lines]
    assert seqs == sorted(seqs)
    assert len(seqs) == 5


def test_show_prints_all_that_is_recorded(run_bus: RunBus, made: Task) -> None:
    shown = run_bus("task", "show", "fix-login")
    assert re.search(r"^priority: +normal$", shown.out, re.MULTILINE)
    for text in ("worker-1/fix-login", "mend the login", "ASSIGNED", "held_until:"):
        assert text in shown.out
    assert json.loads(run_bus("task", "show", "fix-login", "--json").out)["prompt"]


@pytest.mark.slow
def test_merge_waits_for_the_integrator(
    start_bus: StartBus, run_bus: RunBus, bus: Bus, made: Task
) -> None:
    """M-02: it approves, waits, and ends as the task has landed."""
    tasks = Tasks(bus)
    tasks.start("fix-login", agent="worker-1", token=made.token)
    tasks.done("fix-login", agent="worker-1", token=made.token, head=HEAD)
    waiting = start_bus("task", "merge", "fix-login", "--agent", "rita", "--wait", "60s", "--json")
    wait_until(lambda: state_of(bus) == "APPROVED")
    tasks.land("fix-login", attempt=1, agent="i", commit="b" * 40)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    assert json.loads(out)["state"] == "COMPLETED"


def test_merge_says_why_it_could_not_be_integrated(run_bus: RunBus, bus: Bus, made: Task) -> None:
    tasks = Tasks(bus)
    tasks.start("fix-login", agent="worker-1", token=made.token)
    tasks.done("fix-login", agent="worker-1", token=made.token, head=HEAD)
    late = run_bus("task", "merge", "fix-login", "--agent", "rita", "--wait", "10ms")
    assert_error(late, 5, "run 'bus integrate'")
    tasks.send_back("fix-login", attempt=1, agent="i", reason="conflict", files=["a.py"])
    assert_error(
        run_bus("task", "merge", "fix-login", "--agent", "rita", "--wait", "1s"), 3, "a.py"
    )


def test_settle_ends_the_attempts_of_lost_holders(run_bus: RunBus, bus: Bus, made: Task) -> None:
    assert run_bus("task", "settle").code == 4
    Tasks(bus).start("fix-login", agent="worker-1", token=made.token, lease_s=0.001)
    lease = bus.leases.get("task.fix-login")
    assert lease is not None
    wait_until(lambda: bus.now_ms() > lease.until_ms)
    assert "attempt 2" not in run_bus("task", "settle").err
    assert Tasks(bus).get("fix-login").attempt == 2


def test_request_prints_the_id_that_leads_to_all_that_comes_of_it(
    run_bus: RunBus, bus_dir: object
) -> None:
    """U-01: a person's wish enters the queue of requests, without a warning."""
    asked = run_bus("task", "request", "Users can search.", "--agent", "ann")
    assert (asked.code, asked.err) == (0, "")
    shown = json.loads(run_bus("show", asked.out.strip(), "--json").out)
    assert (shown["type"], shown["payload"]["prompt"]) == ("task.request", "Users can search.")
    assert "requests" in run_bus("queue", "list").out


def test_added_task_waits_for_those_that_it_comes_after(run_bus: RunBus, bus: Bus) -> None:
    first = run_bus("task", "add", "index", "--prompt", "Add an index.", "--agent", "ann")
    assert (first.code, first.out, first.err) == (0, "index\n", "")
    Tasks(bus).assign(new_task("index"), agent="lead")
    second = ("task", "add", "search", "--prompt", "-", "--after", "index", "--json")
    waits = run_bus(*second, stdin="Add search.", env=ME)
    assert json.loads(waits.out)["state"] == "PLANNED"
    (job,) = Tasks(bus).planned()
    assert (job.task, job.payload["prompt"]) == ("search", "Add search.")
    assert_error(run_bus(*second, stdin="x", env=ME), 3, "choose another name")
