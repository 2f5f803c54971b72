"""The roles of tasks: task work, task plan."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.stop_limit import lift_limit, obey
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, BusPlaceOnly
from ..running.worker_host import check_command
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from ...tasks.agent_program import AgentProgram
    from ...tasks.records.task import Review
    from ...tasks.roles.job_tree import TreeSettings
    from ...tasks.roles.work import TaskWorker

commands = Commands()

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: How long a program has to end when its worker is stopped, in seconds.
_STOP_GRACE_S = 5.0

Command = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- CMD...",
        show_default=False,
        help="The program: a command, which reads the prompt from stdin. A word {prompt} stands "
        "for the prompt instead, {prompt_file} for a file with it.",
    ),
]
PlanCommand = Annotated[
    list[str], typer.Argument(metavar="-- CMD...", help="The command that plans.")
]
WorkerName = Annotated[
    str | None,
    optional("W", "The name of the worker. Default: $BUS_AGENT.", "--worker"),
]
Program = Annotated[
    str | None,
    optional("P", "An agent program instead of CMD: claude, codex, gemini, copilot, opencode."),
]
Permissions = Annotated[
    str | None,
    optional(
        "M",
        "What --program may do. edit: change files, and run only what its own settings allow; all: "
        "run anything as you, so best in a container. Default: edit.",
    ),
]
Repo = Annotated[
    str, typer.Option("--repository", metavar="DIR", help="A folder of the repository.")
]
Base = Annotated[
    str | None,
    optional("REF", "The ref that branches start from. Default: what the work is for."),
]
Target = Annotated[
    str | None,
    optional("B", "The branch that the work is for. Default: the main work tree's.", "--into"),
]
Branch = Annotated[
    str, typer.Option(metavar="T", help="The name of branches, of {worker}, {job} and {task}.")
]
ReviewBy = Annotated[
    str,
    typer.Option(
        "--review",
        metavar="R",
        help="Whose approval the work needs: none, required, other (than the worker).",
    ),
]
Timeout = Annotated[
    str | None,
    optional("D", "How long CMD may take; 0 for ever. Default: as the job says, else 30m."),
]
LeaseTime = Annotated[
    str,
    typer.Option(
        "--lease",
        metavar="D",
        help="How long a job is its own without a renewal: after a death, another worker takes "
        "it so much later.",
    ),
]
AuthorOption = Annotated[
    str | None, optional("A", "The author of commits: 'Name <mail>'. Default: W.", "--author")
]
Fetch = Annotated[
    bool, typer.Option("--fetch", help="Fetch the branch first, and start from its remote's.")
]
Copies = Annotated[
    list[str] | None,
    optional("GLOB", "Files of the main work tree that new ones get; may be repeated.", "--copy"),
]
Setup = Annotated[str | None, optional("CMD", "A shell command to set up each new work tree.")]
PortRange = Annotated[
    str | None,
    optional("N-N", "Ports, as 20000-20999: each task has one for itself, as BUS_TASK_PORT."),
]
KeepTree = Annotated[
    bool, typer.Option("--keep-tree", help="Leave the work tree where it is when CMD is done.")
]
Once = Annotated[bool, typer.Option("--once", help="Wait for one job, work on it, and end.")]
Drain = Annotated[bool, typer.Option("--drain", help="End when nothing is left to be claimed.")]


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """The options for branches and work trees."""

    repo: Repo = "."
    base: Base = None
    target: Target = None
    branch: Branch = "agent/{worker}/{job}"
    review: ReviewBy = "none"
    fetch: Fetch = False
    copy: Copies = None
    setup: Setup = None
    keep_tree: KeepTree = False

    def settings(self) -> TreeSettings:
        """Return them for the library."""
        from ...tasks.roles.job_tree import TreeSettings

        return TreeSettings(
            folder=os.path.abspath(self.repo),
            base=self.base,
            target=self.target,
            branch=self.branch,
            review=_review(self.review),
            fetches=self.fetch,
            copies=tuple(self.copy or ()),
            setup=self.setup or (),
            keeps=self.keep_tree,
        )


#: The default of a parameter, which Python requires.
_TREE_DEFAULTS = TreeOptions()


@commands.command("work", example="bus task work --worker coder-1 --program claude")
def work(
    command: Command = None,
    worker: WorkerName = None,
    program: Program = None,
    permissions: Permissions = None,
    trees: TreeOptions = _TREE_DEFAULTS,
    timeout: Timeout = None,
    lease: LeaseTime = "60s",
    author: AuthorOption = None,
    ports: PortRange = None,
    once: Once = False,
    drain: Drain = False,
    place: BusPlaceOnly = HERE,
) -> int:
    """Run an agent program for each job of tasks.

    Each job gets a work tree. CMD runs there with its prompt and nobody to ask: stdin ends after
    the prompt, and 'bus task block' asks a person. What it leaves is committed, and the task is
    done: it waits for its review or for 'bus integrate'. Without a change the task is cancelled.
    Exit code 0 is success; after any other, the task's next attempt begins; 78 ends it for good.
    After 75, CMD is run again in 3 s; then the worker is offline for 20 s. A job whose kind is not
    task.execute is not committed: CMD gets the files of a commit, and its output is the result.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_TASK, BUS_TASK_TOKEN, BUS_TASK_ATTEMPT, BUS_TASK_BRANCH,
    BUS_TASK_BASE, BUS_TASK_TARGET, BUS_TASK_PATH, BUS_TASK_SCRATCH, BUS_JOB_ID,
    BUS_CORRELATION_ID, and BUS_TASK_COMMITS: how many commits an earlier run has left, of which the
    prompt tells too. Ctrl-C ends the worker after its job; a second one, or SIGTERM, ends the
    program too, and hands the job back. One process has a name at a time: a new one gives back what
    a killed one held.
    """
    from ...tasks.agent_program import PROGRAM_TIMEOUT_S
    from ...tasks.roles.job_tree import Ports
    from ...tasks.roles.work import TaskWorker, WorkSettings

    name = arguments.sender(worker, "--worker")
    chosen = _program(command, program, permissions)
    timeout_s = None if timeout is None else arguments.seconds(timeout, "--timeout")
    settings = WorkSettings(
        worker=name,
        program=chosen,
        trees=trees.settings(),
        lease_s=arguments.seconds(lease, "--lease"),
        author=author,
        ports=None if ports is None else Ports.read(ports),
        timeout_s=PROGRAM_TIMEOUT_S if timeout_s is None else timeout_s or None,
    )
    with place.open(lives_long=True) as bus:
        task_worker = TaskWorker(bus, settings)
        place.output.remark(f"worker {name!r} works on jobs with {chosen.words[0]}; Ctrl-C ends it")
        return _TaskWorkerHost(place.output, task_worker).run(once=once, drain=drain)


@commands.command("plan", example="bus task plan -- ./plan")
def plan(
    command: PlanCommand,
    planner: Annotated[
        str, typer.Option("--planner", metavar="A", help="The name of the planner.")
    ] = "planner",
    timeout: Annotated[
        str, typer.Option(metavar="D", help="How long CMD may take; 0 for ever.")
    ] = "120s",
    pick: Annotated[
        bool,
        typer.Option(
            "--pick",
            help="Assign the first job to an idle worker; without one, ask 'bus crew' for one "
            "more, and wait.",
        ),
    ] = False,
    wait: Annotated[
        str,
        typer.Option(
            metavar="D", help="With --pick: how long to wait; then any worker may take the job."
        ),
    ] = "15s",
    once: Once = False,
    drain: Drain = False,
    place: BusPlaceOnly = HERE,
) -> int:
    """Run a command that plans each request, and publish its jobs.

    CMD speaks the json contract: its request is the event, and each of its events of the type
    task.job is a job, as {"task": "parser", "prompt": "...", "depends_on": ["lexer"]}. The jobs and
    the end of the request are one transaction. A job enters its queue when all that it depends on
    has landed. A wrong field fails the request with its name, and CMD is tried again, 4 times in
    all. SIGTERM and Ctrl-C end CMD, and hand the request back.
    """
    from ...tasks.roles.plan import PlanSettings, TaskPlanner

    check_command(command[0])
    settings = PlanSettings(
        planner=planner,
        argv=command,
        timeout_s=arguments.seconds(timeout, "--timeout") or None,
        picks_worker=pick,
        wait_s=arguments.seconds(wait, "--wait"),
    )
    with place.open(lives_long=True) as bus:
        task_planner = TaskPlanner(bus, settings)
        place.output.remark(f"planner {planner!r} plans requests with {command[0]}; Ctrl-C ends it")
        _obey(place.output, lambda number, frame: task_planner.stop())
        task_planner.run(once=once, drain=drain)
    return 0


def _obey(output: Output, handler: Callable[[int, FrameType | None], None]) -> None:
    """Show the library's log, and handle the signals that end a role."""
    output.show_logs()
    obey(handler, *_SIGNALS, keeps_ignored=True)


class _TaskWorkerHost:
    """Runs a worker until signals stop it."""

    def __init__(self, output: Output, worker: TaskWorker) -> None:
        self._output = output
        self._worker = worker
        self._is_stopping = False

    def run(self, *, once: bool, drain: bool) -> int:
        _obey(self._output, self._stop)
        self._worker.run(once=once, drain=drain)
        return 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """End after the job at the first Ctrl-C; at once at a second one, or at another signal."""
        if self._is_stopping or number != signal.SIGINT:
            self._worker.stop_now(_STOP_GRACE_S)
        else:
            self._is_stopping = True
            lift_limit()  # the job may take as long as it does
            self._worker.stop()
            self._output.remark("ending after the job that runs; a second Ctrl-C ends that now")


def _program(
    command: list[str] | None, program: str | None, permissions: str | None
) -> AgentProgram:
    from ...tasks.agent_program import EDIT, AgentProgram

    if (program is None) == (not command):
        raise InvalidInput("give one: --program P, or a command after --")
    if program is not None:
        chosen = AgentProgram.known(program, permissions or EDIT)
    elif permissions is not None:
        raise InvalidInput("--permissions goes with --program only")
    else:
        chosen = AgentProgram(_from_here(command or []))
    check_command(chosen.words[0])
    return chosen


def _from_here(command: list[str]) -> list[str]:
    """Return a command with an absolute path, since it runs in another folder."""
    if not command or os.sep not in command[0]:
        return command
    return [os.path.join(os.getcwd(), command[0]), *command[1:]]


def _review(text: str) -> Review:
    from ...tasks.roles.job_run import REVIEWS

    for review in REVIEWS:
        if review == text:
            return review
    raise InvalidInput(f"--review must be {', '.join(REVIEWS)}, not {text!a}")
