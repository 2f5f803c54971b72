"""Jobs without a task, and all that waits for a person: on the board, in list and in show."""

import json

import pytest

from ackbus import Bus
from ackbus.bus.leases import Lease
from ackbus.schema.message.draft import Draft
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.tasks.board.board import Boards
from ackbus.tasks.records.task import Task, lease_of_target
from ackbus.tasks.steps.planning import NewJob, TaskJobs, open_queue
from ackbus.tasks.steps.tasks import Tasks

from ...conftest import RunBus
from ...subscribers.conftest import Clock
from ..conftest import enter, new_task


def kinds(bus: Bus) -> set[tuple[str, str | None]]:
    return {(each.kind, each.task) for each in Boards(bus).now().waiting}


def job(bus: Bus, name: str) -> int:
    payload = {"task": name, "prompt": "x"}
    draft = Draft("task.job", payload, from_agent="lead", to_agent="tasks")
    return enter(bus, draft)[0].seq


def approved(tasks: Tasks, name: str) -> Task:
    token = tasks.assign(new_task(name, review="none"), agent="lead").token
    tasks.start(name, agent="worker-1", token=token)
    return tasks.done(name, agent="worker-1", token=token, head="2" * 40)


def test_each_state_of_a_job_without_a_task(bus: Bus, tasks: Tasks) -> None:
    """Item 21: the job was dead, and board, list and show knew nothing of it."""
    for name in ("dead", "refused", "running", "queued"):
        job(bus, name)
    tasks.plan([NewJob(task="planned", depends_on=("queued",))], agent="planner")
    queue = open_queue(bus, "jobs")
    dead, refused, _ = queue.claim("w/1", group="w", limit=3)
    queue.end(refused, Outcome(status="failed", error="name another", retry=False, is_reply=True))
    queue.jobs.lose(dead.message.seq, "killed")
    for _ in range(3):
        (dead,) = [c for c in queue.claim("w/1", group="w", limit=9) if c.message.seq == 1]
        queue.jobs.lose(1, "killed")
    found = {each.task: each for each in TaskJobs(bus).without_task()}
    assert {name: each.state for name, each in found.items()} == {
        "dead": "DEAD",
        "refused": "FAILED",
        "running": "RUNNING",
        "queued": "RUNNING",
        "planned": "PLANNED",
    }
    assert (found["running"].worker, found["planned"].depends_on) == ("w", ("queued",))
    assert {("dead job", "dead"), ("dead job", "refused")} <= kinds(bus)
    record = Boards(bus).now().record()
    assert {each["task"] for each in record["jobs"]} == set(found)


def test_list_and_show_know_a_job_without_a_task(bus_dir: object, run_bus: RunBus) -> None:
    """With the fields of a task, so that a program which reads tasks reads them too."""
    run_bus("task", "add", "j1", "--prompt", "x", "--agent", "lead")
    listed = json.loads(run_bus("task", "list", "--json").out)
    shown = json.loads(run_bus("task", "show", "j1", "--json").out)
    assert listed == shown
    fields = ("task", "attempt", "worker", "branch", "path", "base", "state", "token")
    assert tuple(shown)[:8] == fields
    assert (shown["task"], shown["state"], shown["token"]) == ("j1", "QUEUED", None)
    assert run_bus("task", "list", "--state", "queued").code == 0
    assert run_bus("task", "list", "--state", "dead").code == 4
    assert run_bus("task", "list", "--state", "nonsense").code == 2
    assert run_bus("task", "show", "j2").code == 4
    board = run_bus("task", "board", "--once").out
    assert "0 tasks, 1 job without a task, 0 things wait for a person" in board


def test_job_of_a_task_is_not_told_twice(bus: Bus, tasks: Tasks) -> None:
    job(bus, "one")
    tasks.assign(new_task("one", from_queue=True), agent="lead")
    assert TaskJobs(bus).without_task() == []
    assert kinds(bus) == set()


def test_task_whose_job_is_gone_waits(bus: Bus, tasks: Tasks, clock: Clock) -> None:
    """A task that goes back to a queue in which nothing is: nobody would ever take it."""
    seq = job(bus, "one")
    tasks.assign(new_task("one", from_queue=True), agent="lead", lease_s=1)
    clock.advance(2)
    open_queue(bus, "jobs").jobs.cancel(seq, "not wanted")
    assert kinds(bus) == {("dead job", "one")}


def test_approved_waits_where_no_integrator_is(bus: Bus, tasks: Tasks) -> None:
    task = approved(tasks, "one")
    assert kinds(bus) == {("approved", "one")}
    name = lease_of_target(task.repository, task.target)
    lease = bus.leases.acquire(name, "integrator", lease_s=60)
    assert isinstance(lease, Lease)
    assert kinds(bus) == set()


def test_failed_for_good_waits_until_it_is_cleaned(bus: Bus, tasks: Tasks) -> None:
    token = tasks.assign(new_task("one"), agent="lead").token
    tasks.fail("one", agent="worker-1", token=token, reason="no way")
    assert kinds(bus) == {("failed", "one")}
    tasks.mark_cleaned("one")
    assert kinds(bus) == set()


@pytest.mark.parametrize("end", ["cancel", "fail"])
def test_dependency_that_will_not_land_waits(bus: Bus, tasks: Tasks, end: str) -> None:
    first = tasks.assign(new_task("first"), agent="lead")
    tasks.assign(new_task("second", depends_on=("first",)), agent="lead")
    assert kinds(bus) == set()
    if end == "cancel":
        tasks.cancel("first", agent="lead")
    else:
        tasks.fail("first", agent="worker-1", token=first.token, reason="no way")
    assert ("dependency", "second") in kinds(bus)
