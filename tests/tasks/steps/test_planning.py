"""Plans: jobs that depend on each other."""

import pytest

from ackbus import Bus, Outcome, Queue
from ackbus.errors import InvalidInput
from ackbus.tasks.steps.messages import TaskExists, TaskNotFound
from ackbus.tasks.steps.planning import NewJob, TaskJobs
from ackbus.tasks.steps.tasks import Tasks

from ..conftest import new_task
from .test_steps import to_state


def queued(bus: Bus) -> list[str]:
    """The tasks whose job was published, in order."""
    return [message.payload["task"] for message in bus.read(type="task.job")]


def chain(*names: str) -> list[NewJob]:
    """Jobs of which each depends on the one before it."""
    before = [(), *((name,) for name in names)]
    return [NewJob(task=name, depends_on=on) for name, on in zip(names, before, strict=False)]


def test_job_enters_the_queue_as_the_last_that_it_needs_has_landed(bus: Bus, tasks: Tasks) -> None:
    jobs = [
        *(NewJob(task="one"), NewJob(task="two")),
        NewJob(
            task="both",
            payload={"prompt": "join"},
            depends_on=("one", "two"),
            priority=0,
            for_worker="w7",
        ),
    ]
    to_state(tasks, "ASSIGNED", "before")
    bus.publish("request", {}, from_agent="lead", to_agent="lead", id="request")
    tasks.plan(jobs, agent="planner", in_reply_to="request", correlation_id="request")
    assert queued(bus) == ["one", "two"]
    assert [job.task for job in tasks.planned()] == ["both"]
    for name in ("one", "two"):
        assert "both" not in queued(bus)
        to_state(tasks, "COMPLETED", name)
    assert queued(bus) == ["one", "two", "both"]
    assert list(tasks.planned()) == []
    *_, message = bus.read(type="task.job")
    assert (message.payload["prompt"], message.priority) == ("join", 0)
    assert message.conversation == "request"
    assert (message.headers or {}).get("for_worker") == "w7"


def test_name_of_a_job_in_the_queue_is_taken(bus: Bus, tasks: Tasks) -> None:
    """Else the second prompt would be dropped in silence: who has the first redoes nothing."""
    tasks.plan([NewJob(task="one")], agent="planner")
    with pytest.raises(TaskExists, match="task 'one' exists"):
        tasks.plan([NewJob(task="one", payload={"prompt": "other"})], agent="planner")
    assert queued(bus) == ["one"]


@pytest.mark.parametrize("is_begun", [False, True])
def test_job_may_depend_on_one_that_no_worker_has_made_a_task_of(
    bus: Bus, tasks: Tasks, is_begun: bool
) -> None:
    """As `bus task add` after another one, while no worker runs, or one has just claimed it."""
    tasks.plan([NewJob(task="one")], agent="planner")
    if is_begun:
        assert Queue.open(bus, "jobs").claim("worker-1")
    tasks.plan([NewJob(task="two", depends_on=("one",))], agent="planner")
    assert [job.task for job in tasks.planned()] == ["two"]
    to_state(tasks, "COMPLETED", "one")
    assert queued(bus) == ["one", "two"]


def test_what_depends_on_a_task_that_will_not_land_is_cancelled(bus: Bus, tasks: Tasks) -> None:
    tasks.plan([*chain("a", "b", "c"), NewJob(task="other")], agent="planner")
    to_state(tasks, "CANCELLED", "a")
    told = [message.payload for message in bus.read(type="task_cancelled", to_agent="planner")]
    assert [(each["task"], each["reason"]) for each in told] == [
        ("b", "a will not land"),
        ("c", "b will not land"),
    ]
    assert queued(bus) == ["a", "other"]
    assert list(tasks.planned()) == []


def test_task_that_failed_for_good_cancels_what_needs_it(bus: Bus, tasks: Tasks) -> None:
    tasks.plan(chain("a", "b"), agent="planner")
    task = tasks.assign(new_task("a", max_attempts=2), agent="lead")
    tasks.fail("a", agent="worker-1", token=task.token, reason="no", retry=True)
    assert [job.task for job in tasks.planned()] == ["b"]
    tasks.fail("a", agent="worker-1", reason="no", retry=True)
    assert list(tasks.planned()) == []


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([NewJob(task="a", depends_on=("a",))], "comes later"),
        ([NewJob(task="a", depends_on=("b",)), NewJob(task="b")], "comes later"),
        ([NewJob(task="a", depends_on=("zzz",))], "is no task"),
        ([NewJob(task="a", depends_on=("gone",))], "which is CANCELLED"),
        ([NewJob(task="a/b")], "task name"),
        ([NewJob(task="a"), NewJob(task="a")], "exists"),
        ([NewJob(task="gone")], "exists"),
    ],
)
def test_plan_that_can_not_be_done_is_refused_whole(
    bus: Bus, tasks: Tasks, jobs: list[NewJob], words: str
) -> None:
    to_state(tasks, "CANCELLED", "gone")
    before = bus.stats().messages
    with pytest.raises((InvalidInput, TaskExists), match=words):
        tasks.plan([NewJob(task="first"), *jobs], agent="planner")
    assert bus.stats().messages == before


def test_job_that_waits_is_no_work_yet(bus: Bus, tasks: Tasks) -> None:
    tasks.plan(chain("a", "b"), agent="planner")
    claims = Queue.open(bus, "jobs").claim("w", group="tasks", limit=9)
    assert [claim.message.payload["task"] for claim in claims] == ["a"]


@pytest.mark.parametrize(
    ("name", "left"),
    [("a", ["free"]), ("b", ["a", "free"]), ("c", ["a", "b", "free"]), ("free", ["a", "b", "c"])],
)
@pytest.mark.parametrize("state", ["waits", "is claimed", "is dead"])
def test_a_job_whose_task_has_not_begun_is_cancelled_with_what_needs_it(
    bus: Bus, tasks: Tasks, name: str, left: list[str], state: str
) -> None:
    """Issue 31, item 21: its worker loses the claim, and the name is free again."""
    tasks.plan([*chain("a", "b", "c"), NewJob(task="free")], agent="planner")
    queue, claim = Queue.open(bus, "jobs"), None
    if state != "waits":
        claims = {each.message.payload["task"]: each for each in queue.claim("w", limit=9)}
        claim = claims.pop(name, None)
        for other in claims.values():
            queue.release(other)
    if claim is not None and state == "is dead":
        queue.end(claim, Outcome(status="failed", error="no way", retry=False))
    job = tasks.cancel(name, agent="lead", reason="not wanted")
    assert (job.state, job.reason) == ("CANCELLED", "not wanted")
    assert sorted(each.task for each in TaskJobs(bus).without_task()) == left
    assert claim is None or queue.status(claim) != "active"
    with pytest.raises(TaskNotFound, match="there is no task"):
        tasks.cancel(name, agent="lead")
    tasks.plan([NewJob(task=name)], agent="planner")
