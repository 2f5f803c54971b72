"""The candidates of a batch: each is made onto the one before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...git.branches.candidates import Conflict, NotSigned
from ...git.branches.patches import (
    contains,
    is_part,
    is_whole,
    last_changes,
    merge_bases,
    patch_id,
    way,
)
from ...git.repository import CommandFailed
from .entries import Made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...git.branches.candidates import Candidate, Candidates, Strategy
    from ...git.repository import Repository
    from ..records.landings import Landings
    from .entries import Entry

#: Of how many files that conflict it is looked up which task changed them last.
_MOST_FILES = 20


@dataclass
class Stack:
    """A batch, sorted: what can be tested together, and what can't.

    Attributes:
        made: the candidates, each made onto the one before it; the last contains all.
        there: those of which the target has everything already.
        later: those that conflict with others of the batch alone.
        wrong: those that can't land, each with the reason.
        unsigned: those whose candidate can't be signed now, each with the signer's words.
    """

    made: list[Made] = field(default_factory=list)
    there: list[Made] = field(default_factory=list)
    later: list[Entry] = field(default_factory=list)
    wrong: list[tuple[Entry, Conflict]] = field(default_factory=list)
    unsigned: list[tuple[Entry, str]] = field(default_factory=list)


def stack_up(
    candidates: Candidates, entries: Iterable[Entry], onto: str, strategy: Strategy
) -> Stack:
    """Make the candidates of entries, in order.

    Args:
        candidates: makes them.
        entries: what is to land.
        onto: the commit that the target is at.
        strategy: how a head becomes a candidate.
    """
    stack, git, tip = Stack(), candidates.git, onto
    for entry in entries:
        head = None if entry.head is None else git.commit(entry.head)
        if head is None:
            stack.wrong.append((entry, Conflict((), f"there is no commit {entry.head or 'named'}")))
            continue
        try:
            tip = _put_on(stack, candidates, entry, head, (onto, tip), strategy)
        except NotSigned as error:
            stack.unsigned.append((entry, str(error)))
        except CommandFailed as error:
            if is_whole(git, head, onto):
                raise  # the machine's trouble, or the target's
            stack.wrong.append((entry, Conflict((), f"git can't read all of it: {error.reason}")))
    return stack


def _put_on(
    stack: Stack,
    candidates: Candidates,
    entry: Entry,
    head: str,
    bottom_and_tip: tuple[str, str],
    strategy: Strategy,
) -> str:
    """Make the candidate of an entry onto the tip of a stack; return the tip then."""
    onto, tip = bottom_and_tip
    git = candidates.git
    made = candidates.make(head, tip, strategy, entry.words, onto)
    if isinstance(made, Conflict):
        _sort_out(stack, entry, made, is_first=tip == onto)
    elif made.commit == tip != onto:
        stack.later.append(entry)
    elif made.commit == tip:
        stack.there.append(Made(entry, head, _at(made, git, head), ""))
    elif (id := _approved_id(git, head, made)) is None:
        words = "the merge would change more than what was approved: rebase it onto the target"
        stack.wrong.append((entry, Conflict((), words)))
    else:
        stack.made.append(Made(entry, head, made, id))
        return made.commit
    return tip


def _sort_out(stack: Stack, entry: Entry, conflict: Conflict, *, is_first: bool) -> None:
    if is_first:
        stack.wrong.append((entry, conflict))
    else:
        stack.later.append(entry)


def _at(candidate: Candidate, git: Repository, head: str) -> Candidate:
    """Return what an entry has landed as, where the target has all of it."""
    if contains(git, candidate.commit, head):
        tree = git.run("rev-parse", f"{head}^{{tree}}").decode().strip()
        return type(candidate)(head, tree, candidate.onto)
    return candidate


def _approved_id(git: Repository, head: str, candidate: Candidate) -> str | None:
    """Return git's id of what a candidate changes; None: it is not what was approved.

    Approved is what the head changed since it left the target. A part of it is all right: the
    target has the rest. What the user's drivers make of files is the user's word.
    """
    id = patch_id(git, candidate.onto, candidate.commit)
    bases = merge_bases(git, candidate.onto, head)
    made = (candidate.onto, candidate.commit)
    if any(
        patch_id(git, base, head) == id or is_part(git, made, (base, head), candidate.by_drivers)
        for base in bases
    ):
        return id
    return None


def authors_of(
    git: Repository,
    landings: Landings,
    where: tuple[str, str],
    pair: tuple[str, str],
    files: Sequence[str],
) -> dict[str, str]:
    """Return for files that conflict the task, or the branch, that last changed each.

    Args:
        git: the repository.
        landings: what has landed.
        where: the repository, and the target.
        pair: the commit of the target, and the head that conflicts with it.
        files: the files.
    """
    bases = merge_bases(git, *pair)
    if not bases:
        return {}
    found: dict[str, str] = {}
    changed = last_changes(git, bases[0], pair[0], list(files[:_MOST_FILES]))
    for commit in set(changed.values()):
        path = way(git, commit, pair[0])
        there = {
            landing.candidate: landing.task or landing.branch
            for landing in landings.of_commits(*where, path)
        }
        name = next((there[each] for each in path if each in there), None)
        if name is not None:
            found |= {file: name for file, last in changed.items() if last == commit}
    return found
