"""Every command of one task in every state: done, or refused with the step that comes next."""

from dataclasses import replace
from pathlib import Path

import pytest

from ackbus import Bus, Outcome, Queue
from ackbus.schema.message.draft import Draft
from ackbus.tasks.records.task import Task
from ackbus.tasks.records.task_table import TaskTable
from ackbus.tasks.steps.planning import NewJob
from ackbus.tasks.steps.tasks import Tasks

from ..cli.git import Git, git_env
from ..conftest import RunBus
from .conftest import enter, new_task

HEAD = "2" * 40

#: The states: of a task that is ASSIGNED, whether its worker has the lease.
STATES = (
    *("none", "queued", "planned", "making", "dead", "free", "held", "working", "blocked"),
    "in review",
    *("approved", "completed", "cancelled", "failed", "unproven"),
)

#: The arguments of each command after the name of the task.
COMMANDS: dict[str, tuple[str, ...]] = {
    "spawn": ("--worker", "worker-1", "--agent", "lead"),
    "show": (),
    "log": (),
    "start": ("--agent", "worker-1"),
    "heartbeat": ("--agent", "worker-1"),
    "done": ("--agent", "worker-1"),
    "block": ("Which?", "--agent", "worker-1"),
    "answer": ("This.", "--agent", "lead"),
    "approve": ("--agent", "rita"),
    "reject": ("-m", "again", "--agent", "rita"),
    "merge": ("--agent", "rita"),
    "add": ("--prompt", "other", "--agent", "lead"),
    "cancel": ("--agent", "lead"),
    "fail": ("--reason", "no", "--agent", "worker-1"),
    "diff": (),
    "attach": ("--", "true"),
    "clean": (),
    "comment": ("file:1", "Why?", "--agent", "rita"),
    "comments": (),
    "proof": (),
    "confirm": ("--agent", "ann", "--yes"),
}

#: The commands of a worker, which name the token of its lease.
OF_A_WORKER = ("start", "heartbeat", "done", "block", "fail")


@pytest.fixture
def main(project: Path, bus_dir: Path, bus_env: dict[str, str]) -> Git:
    """The repository around the bus, with one commit."""
    git = Git(project, git_env(bus_env))
    git.ok("init", "--quiet")
    git.commit("file", ".gitignore", text=".worker-state/\n")
    return git


def made(bus: Bus, main: Git, name: str, state: str) -> Task | None:
    """Bring a task into a state by its steps; it has no tree, and its commit is none."""
    tasks = Tasks(bus)
    if state == "none":
        return None
    if state == "queued":
        payload = {"task": name, "prompt": "x"}
        enter(bus, Draft("task.job", payload, from_agent="lead", to_agent="tasks"))
        return None
    if state in ("making", "dead"):
        payload = {"task": name, "prompt": "x"}
        enter(bus, Draft("task.job", payload, from_agent="lead", to_agent="tasks"))
        queue = Queue.open(bus, "jobs")
        claims = {str(each.message.payload["task"]): each for each in queue.claim("w", limit=100)}  # type: ignore[call-overload, index]
        claim = claims.pop(name)
        for other in claims.values():
            queue.release(other)
        if state == "dead":
            queue.end(claim, Outcome(status="failed", error="no way", retry=False))
        return None
    if state == "planned":
        first = NewJob(task=f"before-{name}")
        tasks.plan([first, NewJob(task=name, depends_on=(first.task,))], agent="lead")
        return None
    folder = f"{main.path}.trees/{name}"
    place = {"repository": str(main.path / ".git"), "base": main.head, "path": folder}
    task = tasks.assign(new_task(name, **place), agent="lead")
    token = task.token
    if state == "free":
        held = tasks.holder(task)
        assert held is not None
        bus.leases.release(held)
    elif state == "unproven":
        TaskTable.of(bus).add(replace(task, task=f"{name}-2", unproven=True))
        return replace(task, task=f"{name}-2")
    elif state == "cancelled":
        return tasks.cancel(name, agent="lead")
    elif state == "failed":
        return tasks.fail(name, agent="worker-1", token=token, reason="no way")
    elif state != "held":
        tasks.start(name, agent="worker-1", token=token)
        if state == "blocked":
            return tasks.block(name, agent="worker-1", token=token, question="Which?")
        if state != "working":
            tasks.done(name, agent="worker-1", token=token, head=HEAD)
        if state in ("approved", "completed"):
            tasks.approve(name, agent="rita")
        if state == "completed":
            tasks.land(name, attempt=1, agent="i", commit=HEAD)
    return tasks.get(name)


LIVE = ("free", "held", "working", "blocked", "in review", "approved")
FINAL = ("completed", "cancelled", "failed")

Cells = dict[str, tuple[int, str]]


def cells(states: str | tuple[str, ...], code: int, words: str = "") -> Cells:
    """The same cell for several states: the exit code, and words of the refusal."""
    return dict.fromkeys((states,) if isinstance(states, str) else states, (code, words))


#: The next step of each state, as a refusal names it.
NEXT = (
    cells(("free", "held"), 3, "the next step is start")
    | cells("working", 3, "the next step is done")
    | cells("blocked", 3, "the next step is answer")
    | cells("in review", 3, "the next step is approve or reject")
    | cells("approved", 3, "the next step is merge")
    | cells(FINAL, 3, "that is final")
)
NO_TASK = (
    cells("none", 4, "there is no task")
    | cells("queued", 4, "waits for a worker, as 'bus task work' is; 'bus task cancel")
    | cells("planned", 4, "has landed; 'bus task cancel")
    | cells("making", 4, "is w's, who makes its work tree; 'bus task cancel")
    | cells("dead", 4, "see 'bus dead list'")
)
NOT_BEGUN = ("queued", "planned", "making", "dead")
UNPROVEN = cells("unproven", 3, "bus task confirm")
BLOCKED = cells("blocked", 3, "by 'bus task answer")
EACH = NEXT | NO_TASK | UNPROVEN
NO_TREE = cells((*LIVE, "unproven"), 3, "brings it back") | cells(FINAL, 3, "bus task log")

TABLE: dict[str, Cells] = {
    "spawn": cells(STATES, 0)
    | cells(NOT_BEGUN, 3, "'bus task cancel")
    | cells("dead", 0)
    | UNPROVEN
    | cells(("cancelled", "failed"), 3, "choose another name, and 'bus task clean"),
    "show": cells(STATES, 0) | cells("none", 4, "there is no task"),
    "log": cells(STATES, 0) | NO_TASK,
    "start": EACH
    | cells(("held", "working"), 0)
    | BLOCKED
    | cells("free", 3, "it is free; acquire"),
    "heartbeat": EACH
    | cells(("held", "working"), 0)
    | BLOCKED
    | cells("free", 3, "it is free; acquire"),
    "done": EACH
    | cells("working", 3, "brings it back")
    | cells(("in review", "approved"), 0)
    | cells("blocked", 3, "by 'bus task answer"),
    "block": EACH | cells("working", 0) | BLOCKED,
    "answer": cells((*LIVE, *FINAL), 3, "asks nothing; see 'bus task show")
    | NO_TASK
    | UNPROVEN
    | cells("blocked", 0),
    "approve": EACH | cells(("in review", "approved"), 0),
    "reject": EACH | cells("in review", 0),
    "merge": EACH | cells(("in review", "approved", "completed"), 0),
    "add": cells(STATES, 3, "exists; choose another name")
    | cells(("none", "dead"), 0),  # the name is free again
    "cancel": EACH | cells((*LIVE, *NOT_BEGUN, "cancelled", "unproven"), 0),
    "fail": EACH
    | cells(("held", "working"), 0)
    | BLOCKED
    | cells("free", 3, "it is free; acquire"),
    "diff": cells((*LIVE, *FINAL, "unproven"), 4, "has no branch") | NO_TASK,
    "attach": NO_TREE | NO_TASK,
    "clean": cells((*LIVE, "unproven"), 3) | cells(FINAL, 0) | NO_TASK,
    "comment": cells((*LIVE, *FINAL, "unproven"), 4, "see 'bus task show'") | NO_TASK,
    "comments": cells((*LIVE, *FINAL, "unproven"), 4) | NO_TASK,
    "proof": cells((*LIVE, *FINAL, "unproven"), 3, "it has not landed")
    | cells(("none", *NOT_BEGUN), 4, "see 'bus task list --all'")
    | cells("completed", 1, "no integrator has recorded"),
    "confirm": cells(STATES, 0) | NO_TASK,
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_in_each_state(
    bus_dir: Path, main: Git, run_bus: RunBus, bus_env: dict[str, str], command: str
) -> None:
    """Item 24: `merge` printed the row of a cancelled task, and exit code 0."""
    env = git_env(bus_env)
    found = {}
    with Bus.open(bus_dir) as bus:
        for number, state in enumerate(STATES):
            task = made(bus, main, name := f"t{number}", state)
            name = name if task is None else task.task
            held = 1 if task is None else task.token
            token = ("--token", str(held)) if command in OF_A_WORKER else ()
            ended = run_bus("task", command, name, *token, *COMMANDS[command], env=env)
            words = TABLE[command][state][1]
            found[state] = (ended.code, words if words in ended.err else ended.err)
            assert ended.code != 3 or ended.err.count("\n") <= 1, ended.err
    assert found == TABLE[command]


@pytest.mark.parametrize("state", NOT_BEGUN)
def test_no_task_is_made_beside_a_job_of_its_name(
    bus_dir: Path, main: Git, run_bus: RunBus, bus_env: dict[str, str], state: str
) -> None:
    """Else the job's prompt is dropped in silence: whoever has the job finds another's task."""
    with Bus.open(bus_dir) as bus:
        made(bus, main, "t", state)
        ended = run_bus(
            *("task", "spawn", "t", "--worker", "ann", "--agent", "lead"), env=git_env(bus_env)
        )
        free = state == "dead"
        assert (ended.code, "'bus task cancel t'" in ended.err) == (
            (0, False) if free else (3, True)
        )
        assert Path(f"{main.path}.trees/t").exists() == free


def test_every_command_of_one_task_has_a_row() -> None:
    """A new command of a task comes with its cells."""
    from ackbus.cli.commands.task import task as group

    without = {"list", "settle", "board", "forecast", "work", "plan", "request"}
    names = set(group.names()) if hasattr(group, "names") else set(group._makers)
    assert names - without == set(TABLE) == set(COMMANDS)
