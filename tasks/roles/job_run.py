"""The program that works on a job: the job's fields, its prompt, folder, and attempts."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from dataclasses import dataclass, replace

import orjson

from ...git.branches.repositories import repository_at
from ...git.trees.tree_state import read_state
from ...schema.directory.enclosure import Enclosure
from ...schema.errors import AckbusError, InvalidInput, shown
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...workers.raw_contract import trace_variables
from ..agent_program import environment_of_task, run_program
from ..control.jobs import check_job
from ..records.worker_details import JobOutput
from ..steps.messages import ANSWER, check_task_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Thread
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...git.branches.repositories import RepositoryPlace
    from ...git.trees.tree_state import TreeState
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.queues.queue import Queue
    from ...workers.processes.own_child import StopSwitch
    from ...workers.processes.supervisors import Supervisors
    from ..agent_program import AgentProgram, BoundedAttempts, OutputLine, ProgramEnd
    from ..records.task import Review, Task
    from ..steps.tasks import Tasks
    from .job_tree import Author, JobTrees, Ports
    from .worker_name import StatusReporter, TaskKeeper, WorkerName

# The job that a worker of tasks is given: its fields, checked.

#: The default kind of a job, and the kinds whose work is committed.
EXECUTE = "task.execute"
COMMITTING = (EXECUTE,)

REVIEWS: tuple[Review, ...] = ("none", "required", "other")


@dataclass(frozen=True, slots=True)
class JobForm:
    """A job, read from its message.

    Attributes:
        id: of its message.
        task: the name of its task: the one in its payload, else its id.
        kind: the kind of its work.
        prompt: for the program, as text.
        payload: the whole payload.
        base, target: the ref that its branch starts from, and the branch that it is for; None
            leaves it to the worker.
        review: whose approval it needs; None leaves it to the worker.
        depends_on: tasks that must have landed before it.
        timeout_s: how long the program may take, in seconds; None leaves it to the worker.
    """

    id: str
    task: str
    kind: str
    prompt: str
    payload: dict[str, Any]
    base: str | None
    target: str | None
    review: Review | None
    depends_on: tuple[str, ...]
    timeout_s: float | None

    @property
    def commits(self) -> bool:
        """Whether its work is committed."""
        return self.kind in COMMITTING


def read_job(message: Message) -> JobForm:
    """Return the job of a message.

    Raises:
        InvalidInput: its payload can't be had, or a field is wrong; the error names it.
    """
    if message.payload_error is not None:
        raise InvalidInput(f"the payload can't be had: {message.payload_error}")
    payload = message.payload
    if isinstance(payload, str):
        payload = {"prompt": payload}
    if not isinstance(payload, dict):
        raise InvalidInput("the payload must be an object, or a text, which is the prompt")
    task = _text(payload, "task") or message.id
    check_task_name(task)
    kind, params = _text(payload, "kind") or EXECUTE, payload.get("params")
    check_job(kind, params if isinstance(params, dict) else {})
    review = _text(payload, "review")
    if review is not None and review not in REVIEWS:
        raise InvalidInput(f"review must be {', '.join(REVIEWS)}, not {shown(review)}")
    depends_on = payload.get("depends_on") or []
    if not isinstance(depends_on, list) or not all(isinstance(name, str) for name in depends_on):
        raise InvalidInput("depends_on must be a list of tasks")
    return JobForm(
        id=message.id,
        task=task,
        kind=kind,
        prompt=_prompt(payload),
        payload=payload,
        base=_text(payload, "base"),
        target=_text(payload, "target"),
        review=next((name for name in REVIEWS if name == review), None),
        depends_on=tuple(depends_on),
        timeout_s=_budget_s(payload),
    )


def prompt_of_attempt(
    form: JobForm, task: Task, tree_state: TreeState, answers: list[tuple[str, str]]
) -> str:
    """Return the prompt of a run, with all that the program must know of earlier runs.

    Args:
        form: the job.
        task: its task, which says why the attempt before this one ended.
        tree_state: the state of its tree, in which an earlier run may have left work.
        answers: the questions of the program, each with its answer.
    """
    parts = [form.prompt]
    if task.attempt > 1 and task.reason:
        parts.append(f"This is attempt {task.attempt}. The one before it ended: {task.reason}")
    if tree_state.ahead:
        commits = "1 commit" if tree_state.ahead == 1 else f"{tree_state.ahead} commits"
        parts.append(
            f"The branch has {commits} of an earlier run; see git log {task.base[:12]}..HEAD"
        )
    if not tree_state.is_clean:
        parts.append(f"An earlier run has left this in the work tree: {tree_state.dirt()}")
    parts += [f"You asked: {question}\nThe answer: {words}" for question, words in answers]
    return "\n\n".join(parts)


def _prompt(payload: Mapping[str, Any]) -> str:
    """Return the words of a prompt, wherever a planner has put them; else the whole as JSON."""
    params = payload.get("params")
    for source in (payload, params if isinstance(params, dict) else {}):
        for name in ("prompt", "instruction"):
            value = source.get(name)
            if isinstance(value, str) and value.strip():
                return value
            if value is not None and not isinstance(value, str):
                return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return orjson.dumps(payload, option=orjson.OPT_INDENT_2).decode()


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be text, not {shown(value)}")
    return value


def _budget_s(payload: Mapping[str, Any]) -> float | None:
    value = payload.get("executionBudgetMs")
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        return None
    return value / 1000


# The context of the work on a job, and the two ways in which it ends early.


class Interrupted(AckbusError):
    """The worker is to end, or has lost the job; what was begun goes on elsewhere."""


class AlreadyEnded(AckbusError):
    """The end of the job is recorded already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """All that the work on a job needs.

    Attributes:
        bus, queue, tasks: where the job and its task are.
        worker: the name of the worker.
        program: the program that does the work.
        timeout_s: how long the program may take unless the job says so, in seconds.
        lease_s: for how long claim and lease are taken and renewed.
        author: of commits.
        trees: the work trees.
        ports: for tasks, or None.
        name: the right to the worker's name, with its scratch folder.
        keeper: renews the claim and the lease.
        attempts: counts transient failures.
        report: reports the status of the worker.
        supervisors: run the program.
    """

    bus: LocalBus
    queue: Queue
    tasks: Tasks
    worker: str
    program: AgentProgram
    timeout_s: float | None
    lease_s: float
    author: Author
    trees: JobTrees
    ports: Ports | None
    name: WorkerName
    keeper: TaskKeeper
    attempts: BoundedAttempts
    report: StatusReporter
    supervisors: Supervisors


# The files of a commit in a folder of their own, without git: for work that nobody commits.

#: How long git may take to write them, in seconds.
_LIMIT_S = 600.0


def files_of(place: RepositoryPlace, ref: str, folder: str) -> str:
    """Write the files of a commit into a new folder, and return the folder.

    Args:
        place: the repository.
        ref: a name of the commit.
        folder: the folder; the one above it must be there.

    Raises:
        Refused: there is no such commit.
        GitFailed: git failed.
    """
    commit = place.commit(ref)
    os.mkdir(folder)
    variables: dict[str, str | None] = {
        "GIT_DIR": place.common_dir,
        "GIT_WORK_TREE": folder,
        "GIT_INDEX_FILE": f"{folder}.index",
    }
    git = repository_at(folder, variables)
    git.run("read-tree", commit, limit_s=_LIMIT_S)
    git.run("checkout-index", "--all", "--quiet", limit_s=_LIMIT_S)
    os.unlink(f"{folder}.index")
    return folder


# The output of a worker's job, stored in the bus while the program runs.
#
# The thread that reads the program's pipes must not wait for the bus, so another one stores.

#: Seconds between two transactions: so much later a line can be read.
_PAUSE_S = 0.3

#: How many lines of one job wait to be stored at most, and how many are stored at most: a program
#: that prints without end must fill neither memory nor the bus.
_MAX_WAITING, _MAX_STORED = 5_000, 100_000

_log = logging.getLogger("ackbus.tasks.worker")


class StoredOutput:
    """Stores the lines of one job, from `__enter__` to the end of the `with` block.

    Args:
        bus: the bus.
        seq: the message of the job.
    """

    def __init__(self, bus: LocalBus, seq: int) -> None:
        self._engine = engine_of(bus)
        self._output = JobOutput.of(bus)
        self._seq = seq
        self._lines: deque[OutputLine] = deque(maxlen=_MAX_WAITING)
        self._lines_left = _MAX_STORED
        self._over = threading.Event()
        self._thread: Thread | None = None

    def take(self, line: OutputLine) -> None:
        """Take a line; it never blocks."""
        if self._lines_left > 0:
            self._lines_left -= 1
            self._lines.append(line)

    def __enter__(self) -> StoredOutput:
        self._thread = start_thread(self._run, "output of a task")
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._over.wait(_PAUSE_S):
                self._store()
            self._store()
        finally:
            self._engine.close_thread()

    def _store(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        if not lines:
            return
        try:
            self._output.add(self._seq, lines)
        except AckbusError as error:
            _log.warning("%s lines of output were not stored: %s", len(lines), error)


#: How long a worker that waits sleeps between two looks, in seconds.
LOOK_S = 0.5


class JobRun:
    """Runs the program for the job of one claim.

    Args:
        context: what it needs.
        claim: the claim.
        switch: ends the program early.
    """

    def __init__(self, context: JobContext, claim: Claim, switch: StopSwitch) -> None:
        self._context, self._claim, self._switch = context, claim, switch

    def on_task(self, form: JobForm, task: Task, port: int | None) -> ProgramEnd:
        """Run the program, again after a transient failure, and return how it ended."""
        context = self._context
        tree_state = read_state(context.trees.tree_of(task), task.base)
        prompt = prompt_of_attempt(form, task, tree_state, self._answers(task))
        scratch = context.name.fresh_scratch()
        environment = environment_of_task(task, context.bus.layout.directory, context.worker) | {
            "BUS_JOB_ID": form.id,
            "BUS_TASK_COMMITS": str(tree_state.ahead),
            "BUS_TASK_SCRATCH": scratch,
        }
        if port is not None:
            environment["BUS_TASK_PORT"] = str(port)
        return self._attempts(
            lambda: self._run_once(form, prompt, task.path, scratch, environment, task.task)
        )

    def on_files(self, form: JobForm) -> ProgramEnd:
        """Run the program on files that belong to no branch: its output is the result."""
        context = self._context
        scratch = context.name.fresh_scratch()
        folder = files_of(context.trees.place, form.base or "HEAD", os.path.join(scratch, "files"))
        environment = {
            "BUS_DIR": context.bus.layout.directory,
            "BUS_AGENT": context.worker,
            "BUS_JOB_ID": form.id,
            "BUS_TASK_SCRATCH": scratch,
            "BUS_CORRELATION_ID": self._claim.message.conversation,
        }
        return self._attempts(
            lambda: self._run_once(form, form.prompt, folder, scratch, environment, form.kind)
        )

    def _attempts(self, run: Callable[[], ProgramEnd]) -> ProgramEnd:
        attempts = self._context.attempts
        while True:
            attempts.begin()
            end = run()
            if end.kind != "transient":
                attempts.end()
                return end
            pause_ms = attempts.failed(self._context.bus.now_ms())
            if pause_ms is None:
                return end
            self._say("waiting", f"again in {pause_ms / 1000:g} s: {end.reason}")
            pause(self._switch, pause_ms / 1000)

    def _run_once(
        self,
        form: JobForm,
        prompt: str,
        folder: str,
        scratch: str,
        environment: dict[str, str],
        what: str,
    ) -> ProgramEnd:
        context = self._context
        file = write_prompt(scratch, prompt) if context.program.wants_file else ""
        self._say("working", what)
        with StoredOutput(context.bus, self._claim.message.seq) as stored:
            end = run_program(
                context.program,
                prompt,
                folder=folder,
                environment={**environment, **trace_variables(self._claim.message)},
                prompt_file=file,
                timeout_s=form.timeout_s or context.timeout_s,
                take=stored.take,
                stop=self._switch,
                supervisors=context.supervisors,
            )
        # The signal that ends the worker may end the program at the same moment.
        is_killed = end.kind == "failed" and end.exit_code == -1
        if is_killed and select.select([self._switch], [], [], LOOK_S)[0]:
            return replace(end, kind="stopped")
        return end

    def _answers(self, task: Task) -> list[tuple[str, str]]:
        """Return the questions about a task with their answers, in order."""
        answers = self._context.bus.read(type=ANSWER, conversation=task.correlation_id)
        payloads = [message.payload for message in answers if isinstance(message.payload, dict)]
        return [
            (str(payload.get("question")), str(payload.get("words")))
            for payload in payloads
            if payload.get("task") == task.task
        ]

    def _say(self, status: str, what: str) -> None:
        self._context.report(status, what)


def pause(switch: StopSwitch, pause_s: float) -> None:
    """Wait.

    Raises:
        Interrupted: the switch was thrown.
    """
    if select.select([switch], [], [], pause_s)[0]:
        raise Interrupted


def write_prompt(scratch: str, prompt: str) -> str:
    """Write a prompt into the scratch folder of a job, and return the path of the file.

    The program of an earlier attempt may have left a link there: the link is replaced.
    """
    path = os.path.join(scratch, "prompt.md")
    with Enclosure(scratch).spot(path) as spot:
        spot.replace(prompt.encode(errors="surrogateescape"))
    return path
