"""The options of a new task and of its work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput
from ...tasks.records.task import MAX_ATTEMPTS, PRIORITIES
from ...tasks.trees.spawn import TaskSpec
from ..definition import optional
from .payload import raw_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...tasks.options import Review

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
    """Return the specification of a task that options say.

    Raises:
        InvalidInput: a word is none of those that an option takes, or the prompt can't be read.
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
    """Return the terms that options give, and as `said` which ones: the others are defaults."""
    given: dict[str, Any] = {}
    if task.prompt is not None:
        given["prompt"] = text_of(task.prompt)
    if task.review is not None:
        given["review"] = _REVIEWS[_index(task.review, _REVIEWS, "--review")]
    if task.reviewer is not None:
        given["reviewer"] = task.reviewer
    if task.priority is not None:
        given["priority"] = priority_of(task.priority)
    if task.attempts is not None:
        given["max_attempts"] = task.attempts
    if task.after:
        given["depends_on"] = tuple(task.after)
    return {"task": name, "worker": worker, "said": frozenset(given), **given}


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
