"""Tasks: their steps, list, show, log."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from ...schema.errors import Refused, TimedOut
from ...tasks.records.task import STATES
from ...tasks.steps.messages import TaskNotFound
from ...tasks.steps.planning import STATES as JOB_STATES
from ...tasks.steps.planning import TaskJob, TaskJobs
from ...tasks.steps.tasks import Tasks
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, BusPlace, Since, since_time
from ..options.tasks import (
    LEASE,
    Actor,
    LeaseTime,
    Name,
    Reason,
    Token,
    note_of,
    print_job,
    print_task,
    print_tasks,
    required_token,
    token_of,
)
from ..show.output import Output, json_text
from .board import commands as of_all_tasks
from .task_confirm import commands as of_confirming
from .task_requests import commands as of_queues
from .task_trees import commands as of_trees
from .task_work import commands as of_workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...tasks.records.task import Task

commands = Commands()
task = commands.group("task", help="Tasks: work of one agent on one git branch.")
task.include(of_all_tasks)
task.include(of_trees)
task.include(of_workers)
task.include(of_queues)
task.include(of_confirming)

Words = Annotated[str | None, optional("TEXT", "What the review says.", "--message", "-m")]


@task.command("start", example="bus task start fix-login --agent worker-1 --token 7")
def start(
    name: Name,
    agent: Actor = None,
    token: Token = None,
    lease: LeaseTime = LEASE,
    place: BusPlace = HERE,
) -> int:
    """Begin the work on a task: ASSIGNED becomes WORKING.

    Without a token the lease on it is acquired, where it is free. Exit code 3 when another has it,
    when what it depends on has not landed, or when it is not ASSIGNED.
    """
    lease_s = arguments.seconds(lease, "--lease")
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        print_task(
            place.output,
            Tasks(bus).start(name, agent=agent, token=token_of(token), lease_s=lease_s),
        )
    return 0


@task.command("heartbeat", example="bus task heartbeat fix-login --agent worker-1 --token 7")
def heartbeat(
    name: Name,
    agent: Actor = None,
    token: Token = None,
    lease: LeaseTime = LEASE,
    place: BusPlace = HERE,
) -> int:
    """Extend the lease on a task, and record a heartbeat.

    A task that is WORKING and whose lease runs out is lost: its next attempt begins. Exit code 3
    when it is no longer held with this token.
    """
    lease_s = arguments.seconds(lease, "--lease")
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        renewed = Tasks(bus).heartbeat(
            name, agent=agent, token=required_token(token), lease_s=lease_s
        )
        bus.heartbeats.beat(agent, "working", task=name)
        print_task(place.output, renewed)
    return 0


@task.command("approve", example="bus task approve fix-login --agent rita")
def approve(name: Name, agent: Actor = None, message: Words = None, place: BusPlace = HERE) -> int:
    """Approve what a task has done: it waits for the integrator.

    Exit code 3 when it is not IN_REVIEW, or must be approved by another agent than its worker.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        print_task(place.output, Tasks(bus).approve(name, agent=agent, words=message))
    return 0


@task.command("reject", example="bus task reject fix-login -m 'a test is missing'")
def reject(
    name: Name,
    message: Annotated[
        str, typer.Option("--message", "-m", metavar="TEXT", help="What is to be changed.")
    ],
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Reject what a task has done.

    Its next attempt begins with these words. After the last attempt the task has FAILED. Exit
    code 3 when it is not IN_REVIEW.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        print_task(place.output, Tasks(bus).reject(name, agent=agent, words=message))
    return 0


@task.command("merge", example="bus task merge fix-login --wait 10m")
def merge(
    name: Name,
    agent: Actor = None,
    wait: Annotated[
        str | None, optional("D", "How long to wait for the integrator. Default: not.", "--wait")
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Approve a task, and wait until it has landed.

    'bus integrate' lands it. It goes past no review by others and no check. Exit code 3 when it is
    not done yet, is over without having landed, or could not be integrated, 5 when the time was
    over first.
    """
    agent = arguments.sender(agent, "--agent")
    wait_s = 0.0 if wait is None else arguments.seconds(wait, "--wait")
    with place.open() as bus:
        tasks = Tasks(bus)
        merged = tasks.merge(name, agent=agent)
        if wait_s and merged.state != "COMPLETED":
            merged = _wait(bus, tasks, merged, wait_s)
        print_task(place.output, merged)
    return 0


@task.command("cancel", example="bus task cancel fix-login --reason 'not wanted any more'")
def cancel(name: Name, reason: Reason = None, agent: Actor = None, place: BusPlace = HERE) -> int:
    """Cancel a task, whoever has it. Its branch and its work tree stay.

    Of one that has not begun, cancel its job. Exit code 3 when its state is final.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        cancelled = Tasks(bus).cancel(name, agent=agent, reason=reason)
        if isinstance(cancelled, TaskJob):
            print_job(place.output, cancelled)
        else:
            print_task(place.output, cancelled)
    return 0


@task.command("fail", example="bus task fail fix-login --reason 'can not be done' --token 7")
def fail(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for people.")],
    retry: Annotated[
        bool, typer.Option("--retry", help="End the attempt alone: the next one begins.")
    ] = False,
    agent: Actor = None,
    token: Token = None,
    place: BusPlace = HERE,
) -> int:
    """End a task as FAILED.

    Exit code 3 when it is held with another token, or its state is final.
    """
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        print_task(
            place.output,
            Tasks(bus).fail(name, agent=agent, reason=reason, token=token_of(token), retry=retry),
        )
    return 0


@task.command("block", example="bus task block fix-login 'Which of both logins?' --deadline 2h")
def block(
    name: Name,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.")],
    reason: Reason = None,
    deadline: Annotated[
        str | None,
        optional("D", "After this time without an answer the task fails.", "--deadline"),
    ] = None,
    agent: Actor = None,
    token: Token = None,
    place: BusPlace = HERE,
) -> int:
    """Ask the requester a question, and wait for the answer.

    The lease on the task is handed back meanwhile.

    Exit code 3 when it is no longer held with this token, or is not WORKING.
    """
    deadline_s = None if deadline is None else arguments.seconds(deadline, "--deadline")
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        blocked = Tasks(bus).block(
            name,
            agent=agent,
            token=required_token(token),
            question=question,
            reason=reason,
            deadline_s=deadline_s,
        )
        print_task(place.output, blocked)
    return 0


@task.command("answer", example="bus task answer fix-login 'The new one.'")
def answer(
    name: Name,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="The answer.")],
    lease: LeaseTime = LEASE,
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Answer the question of a blocked task.

    Its worker has it under a lease again.

    Exit code 3 when it asks nothing.
    """
    lease_s = arguments.seconds(lease, "--lease")
    agent = arguments.sender(agent, "--agent")
    with place.open() as bus:
        print_task(place.output, Tasks(bus).answer(name, agent=agent, words=words, lease_s=lease_s))
    return 0


@task.command("list", example="bus task list --state IN_REVIEW")
def list_tasks(
    state: Annotated[
        list[str] | None, optional("S", "Only in this state. It may be repeated.", "--state")
    ] = None,
    worker: Annotated[str | None, optional("A", "Only of this worker.", "--worker")] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="Only those that their workers could start now.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those whose state is final.")
    ] = False,
    since: Since = None,
    place: BusPlace = HERE,
) -> int:
    """List the tasks that are not over, the oldest first.

    After them come the jobs without a task: PLANNED until what they depend on has landed, QUEUED
    for a worker, RUNNING while one makes the tree, DEAD or FAILED when none could. Exit code 4 when
    there are none.
    """
    named_states = [word.upper() for word in state or ()]
    states = [word for word in named_states if word not in JOB_STATES or word in STATES]
    with place.open() as bus:
        now_ms = bus.now_ms()
        since_ms = 0 if since is None else since_time(since, now_ms)
        tasks = Tasks(bus).list(
            states=cast("Any", states if named_states else None),
            worker=worker,
            is_live=not (everything or named_states),
            is_ready=ready,
            since_ms=since_ms,
        )
        jobs = [] if ready else TaskJobs(bus).without_task()
    jobs = [
        job
        for job in jobs
        if job.since_ms >= since_ms
        and (not named_states or job.state in named_states)
        and worker in (None, job.worker)
    ]
    return print_tasks(place.output, tasks, now_ms, jobs)


@task.command("show", example="bus task show fix-login")
def show(name: Name, place: BusPlace = HERE) -> int:
    """Print all that is recorded of a task.

    Of a task that has not begun, print its job. Exit code 4 when there is none of this name.
    """
    with place.open() as bus:
        try:
            stored = Tasks(bus).get(name)
        except TaskNotFound:
            job = TaskJobs(bus).of(name)
            if job is None:
                raise
            _show(place.output, job.record())
            return 0
        lease = Tasks(bus).holder(stored)
    record = stored.record() | {"held_until": lease and lease.record()["until"]}
    _show(place.output, record | {"prompt": stored.prompt})
    return 0


def _show(output: Output, record: dict[str, Any]) -> None:
    shown = {key: value for key, value in record.items() if value not in (None, [])}
    output.result(record, *(f"{f'{key}:':<16}{_plain(value)}" for key, value in shown.items()))


@task.command("log", example="bus task log fix-login")
def log(name: Name, place: BusPlace = HERE) -> int:
    """Print the messages of a task, in order.

    Exit code 4 when there is no task of this name.
    """
    with place.open() as bus:
        stored = Tasks(bus).get(name)
        place.output.messages(_messages_of(bus, stored), bus.blobs)
    return 0


@task.command("settle", example="bus task settle")
def settle(place: BusPlace = HERE) -> int:
    """Settle what was lost: holders and overdue questions.

    Attempts whose lease ran out end, and tasks whose question was not answered in time fail.
    Workers and integrators do so by themselves. Exit code 4 when there are none.
    """
    with place.open() as bus:
        tasks = Tasks(bus)
        settled = [*tasks.settle_lost(), *tasks.settle_deadlines()]
        return print_tasks(place.output, settled, bus.now_ms())


def _messages_of(bus: LocalBus, task: Task) -> Iterator[Message]:
    for message in bus.read(conversation=task.correlation_id):
        payload = message.payload
        if isinstance(payload, dict) and payload.get("task") == task.task:
            yield message


def _wait(bus: LocalBus, tasks: Tasks, task: Task, wait_s: float) -> Task:
    """Wait until an approved task has landed, and return it.

    Raises:
        Refused: it could not be integrated.
        TimedOut: the time was over first.
    """
    from ...bus.doorbell import wait_for

    def is_judged(now: Task) -> bool:
        return now.state != "APPROVED" or now.attempt != task.attempt

    now = wait_for(bus, lambda: tasks.get(task.task), is_judged, timeout_s=wait_s)
    if not is_judged(now):
        raise TimedOut(
            f"task {task.task!r} still waits for the integrator; see 'bus queue show"
            " completions', and run 'bus integrate'"
        )
    if now.state != "COMPLETED":
        raise Refused(f"task {task.task!r} was not integrated: {note_of(now) or now.state}")
    return now


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json_text(value)
