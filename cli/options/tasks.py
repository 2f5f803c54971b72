"""The options that commands of tasks share, and the output of a task."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from ...git.branches.repositories import RepositoryPlace
from ...schema.errors import InvalidInput
from ...schema.message.times import age
from ...tasks.integrate.checks import CheckCommand
from ...tasks.integrate.integrator import AGENT, IntegratorRules, checks_of
from ...tasks.records.task import MAX_ATTEMPTS, PRIORITIES
from ...tasks.spawn import TaskSpec
from .. import arguments
from ..definition import optional
from ..show.output import Output
from .payload import raw_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...bus.local_bus import LocalBus
    from ...tasks.board.forecast import ReservedChange
    from ...tasks.records.task import Review, Task
    from ...tasks.steps.planning import TaskJob

#: The variable that names the token of a task to the programs that work on it.
TOKEN_VARIABLE = "BUS_TASK_TOKEN"

Name = Annotated[str, typer.Argument(metavar="TASK", help="The name of the task.")]
Actor = Annotated[str | None, optional("A", "The agent that acts. Default: $BUS_AGENT.", "--agent")]
Token = Annotated[
    int | None,
    optional(
        "N", f"The token of the lease on the task. Default: ${TOKEN_VARIABLE}.", "--token", min=1
    ),
]
LeaseTime = Annotated[
    str,
    typer.Option(
        "--lease",
        metavar="D",
        help="How long the lease lasts unless it is renewed: seconds, or like 10m, 2h.",
    ),
]
Reason = Annotated[str | None, optional("TEXT", "Why, for people.", "--reason")]

#: How long leases last unless told otherwise.
LEASE = "1h"

_HEADINGS = ("TASK", "STATE", "ATTEMPT", "WORKER", "BRANCH", "FOR", "NOTE")


def token_of(option: int | None) -> int | None:
    """Return the token that an option or the environment gives, or None."""
    if option is not None:
        return option
    text = os.environ.get(TOKEN_VARIABLE)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInput(f"{TOKEN_VARIABLE} must be a number, not {text!a}")
    return int(text)


def required_token(option: int | None) -> int:
    """Return the token that an option or the environment gives.

    Raises:
        InvalidInput: neither does.
    """
    token = token_of(option)
    if token is None:
        raise InvalidInput(
            f"give --token N, or set {TOKEN_VARIABLE}: 'bus task spawn' and 'start' print it"
        )
    return token


def print_task(output: Output, task: Task, *more: str) -> None:
    """Print a task after a step."""
    attempt = f"attempt {task.attempt} of {task.max_attempts}"
    summary = f"{task.task}  {task.state}  {attempt}  {task.worker}  {task.branch}"
    output.result(task.record(), f"{summary}  token {task.token}", *more)


def print_job(output: Output, job: TaskJob) -> None:
    """Print the job of a task that has not begun, after a step."""
    output.result(job.record(), f"{job.task}  {job.state}  before it began")


def print_tasks(
    output: Output, tasks: Sequence[Task], now_ms: int, jobs: Sequence[TaskJob] = ()
) -> int:
    """Print a list of tasks, then of jobs without one; return the exit code: 4 for none."""
    rows: list[tuple[object, ...]] = [
        (
            *(task.task, task.state, task.attempt, task.worker, task.branch),
            age((now_ms - task.changed_at_ms) / 1000),
            note_of(task),
        )
        for task in tasks
    ]
    rows += [
        (
            *(job.task, job.state, job.attempt, job.worker, None),
            age((now_ms - job.since_ms) / 1000),
            job.note,
        )
        for job in jobs
    ]
    records = [*(task.record() for task in tasks), *(job.record() for job in jobs)]
    return output.results(records, rows, _HEADINGS)


def note_reserved(output: Output, bus: LocalBus, reserved: Iterable[ReservedChange]) -> None:
    """Note files that tasks change and others have reserved, with the state of each holder."""
    from ..guard_check import describe, state_of_holder

    for file in reserved:
        conflict = describe(file.conflict, f"; {state_of_holder(bus, file.conflict)}")
        output.note(f"task {file.task} changes a file that is not its own: {conflict}")


def note_of(task: Task) -> str:
    """Return what a line about a task says beside its state."""
    if task.unproven:
        return "unproven: made of messages, and not confirmed"
    if task.blocked is not None:
        return f"asks: {task.blocked.question}"
    if task.commit_id is not None:
        return f"landed as {task.commit_id[:12]}"
    return task.reason or ""


# The options of a new task and of its work tree.

_REVIEWS: tuple[Review, ...] = ("none", "required", "other")

PriorityName = Annotated[
    str, typer.Option("--priority", metavar="P", help="interactive, normal or background.")
]


@dataclass(frozen=True, kw_only=True)
class NewTaskOptions:
    """The options of what is to be done, and how it is reviewed and integrated."""

    prompt: Annotated[
        str | None, optional("TEXT", "What is to be done: text, - for stdin, @FILE.", "--prompt")
    ] = None
    into: Annotated[
        str | None,
        optional("B", "The target branch. Default: that of the main work tree.", "--into"),
    ] = None
    review: Annotated[
        str | None,
        optional("R", "Approval: none, required or other. Default: required.", "--review"),
    ] = None
    reviewer: Annotated[str | None, optional("A", "Who is asked for it.", "--reviewer")] = None
    priority: Annotated[
        str | None,
        optional("P", "interactive, normal or background. Default: normal.", "--priority"),
    ] = None
    after: Annotated[
        list[str] | None,
        optional("TASK", "It begins after this has landed; may be repeated.", "--after"),
    ] = None
    attempts: Annotated[
        int | None,
        optional("N", f"Attempts in all. Default: {MAX_ATTEMPTS}.", "--max-attempts", min=1),
    ] = None


@dataclass(frozen=True, kw_only=True)
class NewTreeOptions:
    """The options of a new branch and its tree."""

    base: Annotated[
        str | None, optional("REF", "Where the branch begins. Default: the target.", "--base")
    ] = None
    branch: Annotated[
        str | None,
        optional(
            "B", "Its branch. Default: git's ackbus.branch, else {worker}/{task}.", "--branch"
        ),
    ] = None
    fetch: Annotated[
        bool, typer.Option("--fetch", help="Begin at the target as its remote has it.")
    ] = False
    copy: Annotated[
        list[str] | None,
        optional("GLOB", "Copy these files of the main tree too; may be repeated.", "--copy"),
    ] = None
    setup: Annotated[
        str | None, optional("CMD", "A shell command to set up the new tree.", "--setup")
    ] = None
    no_hooks: Annotated[bool, typer.Option("--no-hooks", help="Run no post-checkout.")] = False
    no_lfs: Annotated[bool, typer.Option("--no-lfs", help="Leave large files out.")] = False
    submodules: Annotated[bool, typer.Option("--submodules", help="Initialise submodules.")] = False
    repository: Annotated[
        str, typer.Option("--repository", "-C", metavar="DIR", help="Where the repository is.")
    ] = "."


def spec_of(name: str, worker: str, task: NewTaskOptions, tree: NewTreeOptions) -> TaskSpec:
    """Return the specification of a task from its options.

    Raises:
        InvalidInput: an option has an unknown value, or the prompt can't be read.
    """
    return TaskSpec(
        **_terms_of(name, worker, task),
        folder=tree.repository,
        base=tree.base,
        target=task.into,
        branch=tree.branch,
        fetches=tree.fetch,
        copies=tuple(tree.copy or ()),
        setup=tree.setup or (),
        has_hooks=not tree.no_hooks,
        has_submodules=tree.submodules,
        has_large_files=not tree.no_lfs,
    )


def _terms_of(name: str, worker: str, task: NewTaskOptions) -> dict[str, Any]:
    """Return the terms of a task from its options; `said` names the options that were given."""
    terms: dict[str, Any] = {}
    if task.prompt is not None:
        terms["prompt"] = text_of(task.prompt)
    if task.review is not None:
        terms["review"] = _REVIEWS[_index(task.review, _REVIEWS, "--review")]
    if task.reviewer is not None:
        terms["reviewer"] = task.reviewer
    if task.priority is not None:
        terms["priority"] = priority_of(task.priority)
    if task.attempts is not None:
        terms["max_attempts"] = task.attempts
    if task.after:
        terms["depends_on"] = tuple(task.after)
    return {"task": name, "worker": worker, "said": frozenset(terms), **terms}


def priority_of(word: str) -> int:
    """Return the number of a priority, or refuse a word that is none."""
    return _index(word, PRIORITIES, "--priority")


def text_of(argument: str) -> str:
    """Return the text of a prompt, which may be on the standard input or in a file."""
    try:
        return raw_argument(argument).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("the prompt is not UTF-8 text") from error


def _index(word: str, words: tuple[str, ...], option: str) -> int:
    if word not in words:
        raise InvalidInput(f"{option} must be {', '.join(words[:-1])} or {words[-1]}")
    return words.index(word)


# The options of an integration.


@dataclass(frozen=True, kw_only=True)
class IntegrationOptions:
    """The target, the checks, and the way in which a commit comes to the target."""

    into: Annotated[
        str | None,
        optional("BRANCH", "The target. Default: the branch of the main tree.", "--into"),
    ] = None
    check: Annotated[
        list[str] | None,
        optional("CMD", "Must pass on each candidate; it may be repeated.", "--check"),
    ] = None
    flaky: Annotated[
        list[str] | None,
        optional("CMD", "A check that is run twice before it fails; may be repeated.", "--flaky"),
    ] = None
    check_timeout: Annotated[
        str, typer.Option("--check-timeout", metavar="D", help="How long each check may take.")
    ] = "300s"
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", help="How many are tested together at most.")
    ] = 8
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="S", help="merge, cherry-pick or ff.")
    ] = "merge"
    push: Annotated[
        bool, typer.Option("--push", help="Move the branch of the remote, by a plain push.")
    ] = False
    remote: Annotated[
        str, typer.Option("--remote", metavar="NAME", help="The remote of --push.")
    ] = "origin"
    propose: Annotated[
        str | None,
        optional("CMD", "Do not move the target: run this with $BUS_CANDIDATE.", "--propose"),
    ] = None
    repo: Annotated[
        str, typer.Option("--repo", metavar="FOLDER", help="A folder in the repository.")
    ] = "."

    def place(self) -> RepositoryPlace:
        """Return the repository.

        Raises:
            GitFailed: there is none.
        """
        return RepositoryPlace.around(
            self.repo if self.repo == os.curdir else os.path.abspath(self.repo)
        )

    def rules(self, place: RepositoryPlace, agent: str | None) -> IntegratorRules:
        """Return the rules that the options give, in a repository.

        Raises:
            InvalidInput: they give none.
        """
        checks = [CheckCommand(text) for text in self.check or ()]
        checks += [CheckCommand(text, is_flaky=True) for text in self.flaky or ()]
        return IntegratorRules(
            target=self.into or place.default_branch() or "main",
            checks=tuple(checks) or checks_of(place),
            strategy=cast("Any", self.strategy),
            check_timeout_s=arguments.seconds(self.check_timeout, "--check-timeout"),
            batch=self.batch,
            remote=self.remote if self.push else None,
            propose=self.propose,
            agent=agent or os.environ.get("BUS_AGENT") or AGENT,
        )


#: The default of a command's parameter for them, which Python requires.
AS_GIVEN = IntegrationOptions()
