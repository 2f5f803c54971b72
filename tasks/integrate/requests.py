"""Requests to integrate a plain branch, and dry runs of an integration."""

from __future__ import annotations

import shlex
from tempfile import TemporaryDirectory

from ...git.branches.candidates import Candidates, contains
from ...git.branches.forecast import objects_aside
from ...git.sealed import SealedRepository, own_folder
from ...git.trees.rescue import DoneHeads
from ...schema.errors import Refused, shown
from ...subscribers.jobs.jobs import Jobs
from ..records.task import LIVE
from ..records.task_table import Landings, TaskTable
from ..steps.changes import Changes
from ..steps.messages import COMPLETIONS, QUEUES, completion
from ..steps.planning import open_queue
from ..steps.tasks import Tasks
from .entries import LandingEntry, LandingResult, Ownership
from .lander import authors_of, stack_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...bus.local_bus import LocalBus
    from ...git.branches.candidates import CandidateConflict
    from ...git.branches.repositories import RepositoryPlace
    from ..records.task import Task
    from .entries import OutcomeKind
    from .integrator import IntegratorRules


def request(
    bus: LocalBus, place: RepositoryPlace, rules: IntegratorRules, branches: Sequence[str]
) -> None:
    """Add branches without a task to the queue, at the commits that they are at.

    Raises:
        Refused: there is no such branch, or its commit waits already, or has landed and is still in
            the target.
        GitFailed: git, or a hook of the repository, refuses a ref that keeps a commit.
    """
    Changes(bus).create_queues()
    drafts = []
    for branch in branches:
        place.branch_ref(branch)
        head = place.git.commit(f"refs/heads/{branch}")
        if head is None:
            raise Refused(f"{place.main} has no branch {shown(branch)}; name one that is there")
        _refuse_same(bus, place, rules, branch, head)
        DoneHeads(place).keep_asked(rules.target, head)
        entry = {
            "task": None,
            "repository": place.common_dir,
            "branch": branch,
            "head": head,
            "target": rules.target,
        }
        drafts.append(completion(entry, rules.agent))
    with bus.transaction():
        receipts = bus.log.append(drafts)
        open_queue(bus, COMPLETIONS).take_in([receipt.seq for receipt in receipts])


def _refuse_same(
    bus: LocalBus, place: RepositoryPlace, rules: IntegratorRules, branch: str, head: str
) -> None:
    for entry in waiting(bus, place, rules):
        if (entry.branch, entry.head) == (branch, head):
            raise Refused(f"{shown(branch)} waits already, at {head[:12]}; see 'bus queue list'")
    target = place.commit(place.branch_ref(rules.target))
    for landing in Landings.of(bus).of_head(place.common_dir, rules.target, head):
        if landing.state == "landed" and contains(place.git, target, landing.candidate):
            raise Refused(
                f"{shown(branch)} has landed, as {landing.candidate[:12]}; what was reverted since"
                " lands by a new commit"
            )


def waiting(bus: LocalBus, place: RepositoryPlace, rules: IntegratorRules) -> list[LandingEntry]:
    """Return the entries for a target that have no end, in their order; nothing is claimed."""
    jobs = Jobs.of(bus)
    entries = []
    for message in bus.read(type=QUEUES[COMPLETIONS]):
        entry = LandingEntry.of(message)
        is_ours = entry.repository in (None, place.common_dir)
        if not is_ours or entry.target not in (None, rules.target):
            continue
        completions = [job for job in jobs.of_message(message.seq) if job.queue == COMPLETIONS]
        if any(job.ended_at_ms is None for job in completions):
            entries.append(entry)
    return sorted(entries, key=lambda entry: (entry.message.priority, entry.message.seq))


def unlanded(bus: LocalBus, place: RepositoryPlace, target: str) -> Iterator[str]:
    """Yield a sentence for each task of a repository that has not landed: whom it waits for."""
    table = TaskTable.of(bus)
    for task in table.find(states=LIVE):
        if task.repository == place.common_dir:
            yield f"task {task.task!r} {_waits_for(table, task, target)}"


def _waits_for(table: TaskTable, task: Task, target: str) -> str:
    name, reviewer = task.task, task.reviewer or task.requester
    if task.unproven:
        return f"waits for a person, since its row was lost: 'bus task confirm {name}'"
    if task.blocked is not None:
        return f"waits for an answer by {shown(task.requester)}: 'bus task show {name}'"
    if task.state == "IN_REVIEW":
        return f"waits for the review by {shown(reviewer)}: 'bus task diff {name}'"
    if task.state == "APPROVED" and task.target != target:
        return f"is for {shown(task.target)}: 'bus integrate --into {shlex.quote(task.target)}'"
    if task.state == "APPROVED":
        return "is approved, and waits in the queue completions: 'bus queue show completions'"
    if task.state == "WORKING":
        return f"waits for {shown(task.worker)}, whose work it is: 'bus task show {name}'"
    others = [table.get(other) for other in task.depends_on]
    before = [other.task for other in others if other is not None and other.state != "COMPLETED"]
    if before:
        return f"waits for {', '.join(before)} to land: 'bus task show {before[0]}'"
    return f"waits for {shown(task.worker)} to begin: 'bus task show {name}'"


def look(bus: LocalBus, place: RepositoryPlace, rules: IntegratorRules) -> Iterator[LandingResult]:
    """Yield the results of a dry run without checks; nothing is claimed or changed.

    Git writes what it makes into a folder of its own, which is removed. No merge driver is run:
    what it would make of a file is not known.
    """
    tasks = Tasks(bus)
    with TemporaryDirectory(prefix="dry-run-", dir=own_folder()) as aside:
        sealed = SealedRepository(place.common_dir)  # which refuses what would never end
        onto = place.commit(place.branch_ref(rules.target))
        variables = objects_aside(sealed, aside)
        looking = SealedRepository(place.common_dir, extra=variables)
        candidates = Candidates(place, looking=looking)
        ownership = Ownership(bus, place, candidates.git)
        for entry in waiting(bus, place, rules):
            task = None if entry.task is None else tasks.get(entry.task)
            if task is not None and (task.unproven or task.state != "APPROVED"):
                how = "unproven" if task.unproven else task.state
                yield LandingResult(entry, "rejected", reason=f"the task is {how}")
                continue
            if (reason := ownership.obstacle(entry, onto)) is not None:
                yield LandingResult(entry, "rejected", reason=reason)
                continue
            stack = stack_up(candidates, [entry], onto, rules.strategy)
            for _, conflict in stack.refused:
                yield _refused(bus, place, rules, entry, conflict, candidates, onto)
            if stack.merged or stack.contained:
                yield LandingResult(entry, "would_land", reason="it merges; nothing was checked")
            onto = stack.merged[-1].candidate.commit if stack.merged else onto


def _refused(
    bus: LocalBus,
    place: RepositoryPlace,
    rules: IntegratorRules,
    entry: LandingEntry,
    conflict: CandidateConflict,
    candidates: Candidates,
    onto: str,
) -> LandingResult:
    others: dict[str, str] = {}
    if conflict.files and entry.head is not None:
        where, pair = (place.common_dir, rules.target), (onto, entry.head)
        others = authors_of(candidates.git, Landings.of(bus), where, pair, conflict.files)
    outcome: OutcomeKind = "conflict" if conflict.is_conflict else "rejected"
    if not conflict.is_known:
        outcome = "not_known"
    return LandingResult(entry, outcome, None, conflict.files, conflict.reason, others)
