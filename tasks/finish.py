"""The end of a task's work tree: the checks before its task is done, the diff, and cleaning."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from ..bus.leases import Lease
from ..git.branches.candidates import brings_changes_of, has_elsewhere
from ..git.branches.repositories import RepositoryPlace, counts_of, start_of, text_of
from ..git.limited import one_look
from ..git.repository import GitFailed, LookCut
from ..git.sealed import TrustedRepositories
from ..git.trees.removal import Removal
from ..git.trees.tree_list import occupants_of
from ..git.trees.tree_state import Leftover, find_leftovers, read_state
from ..git.trees.work_trees import WorkTrees
from ..schema.arguments import checked, with_checked_arguments
from ..schema.errors import NotFound, Refused, TimedOut
from .records.task import FINAL, Task
from .steps.messages import TaskNotFound
from .steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..bus.local_bus import LocalBus
    from ..git.branches.repositories import FileChange
    from ..git.sealed import SealedRepository
    from ..git.trees.removal import Removed
    from ..git.trees.tree_list import LinkedTree


class NothingDone(Refused):
    """The branch of a task has no commit beyond its base."""


@checked
def finish_task(bus: LocalBus, name: str, *, agent: str, token: int) -> Task:
    """Pin the head of a task's branch as its result, and keep it. Safe to repeat.

    Args:
        bus: an open bus.
        name: of the task.
        agent: the holder of the task.
        token: of its lease.

    Raises:
        TaskNotFound: there is no such task.
        LeaseLost: it is not held with this token any more.
        WrongTaskState: it is not WORKING.
        Refused: its tree is not there, is not clean, or is on another branch.
        NothingDone: no commit is beyond the base.
        GitFailed: git can't look, or refuses the ref that keeps the head.
    """
    tasks = Tasks(bus)
    task = tasks.get(name)
    if task.state != "WORKING" or task.blocked is not None:  # a repetition, or it is refused
        return tasks.done(name, agent=agent, token=token, head=task.head or task.base)
    bus.leases.check(Lease(task.lease_name, agent, token, 0, 0))
    head = checked_head(bus, task)
    return tasks.done(name, agent=agent, token=token, head=head)


def checked_head(bus: LocalBus, task: Task) -> str:
    """Return the commit by which a task is done, after a check of its tree.

    Raises:
        Refused, NothingDone: as for `finish_task`.
    """
    state = read_state(_tree_of(bus, task), task.base)
    if state.branch != task.branch:
        on = f"branch {state.branch}" if state.branch else "no branch"
        raise Refused(
            f"{task.path} is on {on}, and task {task.task!r} on {task.branch}; bring the commits"
            f" there, and check it out: git switch {task.branch}"
        )
    if not state.is_clean:
        raise Refused(f"{task.path} is not clean: {state.dirt()}; commit that, or discard it")
    if state.head is None or not state.ahead:
        raise NothingDone(
            f"task {task.task!r} has no commit beyond its base, {task.base[:12]}; commit the work,"
            f" or end it with 'bus task cancel {task.task}'"
        )
    return state.head


def tree_of(bus: LocalBus, task: Task) -> str:
    """Return the path of a task's tree, as git knows it.

    Raises:
        Refused: it is not there.
        NotTrusted: only its row names its repository.
    """
    return _tree_of(bus, task).path


def _tree_of(bus: LocalBus, task: Task) -> LinkedTree:
    trusted = TrustedRepositories(bus.layout.directory)
    tree = WorkTrees(trusted.place(task.repository)).of(task.task)
    if tree is None or not tree.is_there:
        hint = (
            f"'bus task spawn {task.task} --worker {task.worker}' brings it back"
            if task.is_live
            else f"it is {task.state}: 'bus task log {task.task}' shows what became of it"
        )
        raise Refused(f"task {task.task!r} has no work tree at {task.path}; {hint}")
    return tree


# The changes of a task: those of its branch, or of the commit that it was done with.


@dataclass(frozen=True, slots=True)
class TaskDiff:
    """The commits between which a task's changes are.

    Attributes:
        git: its repository, sealed.
        start, head: the commits.
    """

    git: SealedRepository
    start: str
    head: str

    @classmethod
    def of(cls, bus: LocalBus, task: Task) -> TaskDiff:
        """Return the changes of a task: of its branch, or of what it was done with.

        Raises:
            NotTrusted: its repository may not be looked into.
            NotFound: neither the branch nor the commit is there any more, or the base is not.
        """
        git = TrustedRepositories(bus.layout.directory).sealed(task.repository)
        of_branch, pinned, base = git.commits(
            [f"refs/heads/{task.branch}", task.head or "", task.base]
        )
        head = of_branch or pinned
        if head is None:
            raise NotFound(f"task {task.task!r} has no branch {task.branch} any more")
        start = (None if task.commit_id else start_of(git, task.target, head)) or base
        if start is None:
            raise NotFound(f"the commit at which task {task.task!r} began is not there any more")
        return cls(git, start, head)

    def text(self) -> str:
        """Return the changes as a patch."""
        return text_of(self.git, self.start, self.head)

    def files(self) -> list[FileChange]:
        """Return the files that changed."""
        return counts_of(self.git, self.start, self.head)


# Leftovers of tasks in their repositories: for doctor, which names what can be cleaned.

#: How long a process that makes a tree is waited for, in seconds: somebody waits for the answer.
_WAIT_S = 5.0


@one_look()
def leftovers_of(bus: LocalBus) -> list[Leftover]:
    """Return the leftovers of tasks in the repositories that the bus knows of."""
    tasks = {task.task: task for task in Tasks(bus).list()}
    leftovers = []
    for place in repositories_of(bus):
        trees = WorkTrees(place, wait_s=_WAIT_S, is_looking=True)
        leftovers += find_leftovers(trees)
        leftovers += [leftover for tree in trees.all() if (leftover := _of_task(tree, tasks))]
    return leftovers


def repositories_of(bus: LocalBus, *folders: str) -> list[RepositoryPlace]:
    """Return the repositories of all tasks, of the bus's own folder, and around some folders.

    Repositories of tasks in which git may not be started are left out.
    """
    trusted = TrustedRepositories(bus.layout.directory, *folders)
    paths = sorted({task.repository for task in Tasks(bus).list()})
    places = []
    for path in paths:
        if os.path.isdir(path) and trusted.has(path):
            places.append(RepositoryPlace.around(path))
    for folder in (bus.layout.directory, *folders):
        try:
            places.append(RepositoryPlace.around(folder))
        except LookCut:
            raise
        except GitFailed:  # it is in none
            continue
    return list(dict.fromkeys(places))


def not_looked_into(bus: LocalBus) -> list[str]:
    """Return the repositories of live tasks in which git may not be started."""
    trusted = TrustedRepositories(bus.layout.directory)
    paths = sorted({task.repository for task in Tasks(bus).list(is_live=True)})
    return [path for path in paths if not trusted.has(path)]


def _of_task(tree: LinkedTree, tasks: dict[str, Task]) -> Leftover | None:
    """Return a finished tree as a leftover if no task needs it, or None."""
    if tree.note is None or not tree.note.is_made:
        return None
    task = tasks.get(tree.note.task)
    if task is None:
        text = f"{tree.path} is of task {tree.note.task!r}, which this bus does not know"
        return Leftover("unknown_task", tree.path, text, tree.note.task)
    if task.state in FINAL and not task.unproven:
        text = f"{tree.path} is of task {task.task!r}, which is {task.state}; 'bus task clean'"
        return Leftover("over", tree.path, text, task.task)
    return None


# Clean: remove the trees and branches of tasks that are over, and lose nothing.
#
# Commits and files that landed, or are kept at a ref, are removed; all else stays and is named. A
# tree under a live lease, or in which a process works, is never touched. A half-created tree of no
# task is removed by its name alone.


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The outcome of cleaning one task.

    Attributes:
        task: its name.
        path, branch: its tree and its branch.
        is_removed: whether they are gone.
        refs: what keeps commits and files that nothing else has.
        reason: why something stays, or None.
    """

    task: str
    path: str
    branch: str
    is_removed: bool
    refs: Sequence[str] = ()
    reason: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "task": self.task,
            "outcome": "removed" if self.is_removed else "kept",
            "path": self.path,
            "branch": self.branch,
            "refs": list(self.refs),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class _UnfinishedTree:
    """A half-created work tree. It was never assigned; a process that creates it holds its lock.

    Attributes:
        name: of the task that it was for.
        trees, tree: where it is.
    """

    name: str
    trees: WorkTrees
    tree: LinkedTree

    def clean(self, *, is_dry: bool) -> Cleaned:
        """Remove the tree and its branch; the files of half a checkout are kept, too."""
        branch = None if self.tree.note is None else self.tree.note.branch
        cleaned = partial(Cleaned, self.name, self.tree.path, branch or "")
        if pids := occupants_of(self.tree.path):
            return cleaned(False, (), f"process {pids[0]} works in it; end it first")
        removal = Removal(self.trees)
        try:
            if is_dry:
                removal.check(self.name, keeps_files=True)
                return cleaned(True)
            removed = removal.remove(self.name, branch, keeps_files=True)
        except (Refused, GitFailed, TimedOut) as error:
            return cleaned(False, (), str(error))
        return cleaned(
            removed.reason is None,
            [kept_commit.ref for kept_commit in removed.kept],
            removed.reason,
        )


@with_checked_arguments
class Cleaner:
    """Cleans after tasks that are over.

    Args:
        bus: an open bus.
        folder: in a repository where trees without a task are looked for besides those of tasks.
    """

    def __init__(self, bus: LocalBus, folder: str = os.curdir) -> None:
        self._bus = bus
        self._folder = folder
        self._tasks = Tasks(bus)

    def clean(
        self, names: Sequence[str] = (), *, keeps_files: bool = False, is_dry: bool = False
    ) -> list[Cleaned]:
        """Clean after tasks. Safe to repeat.

        Args:
            names: of tasks, and of trees that were never finished; none: all tasks whose state is
                final.
            keeps_files: whether files that are not committed are kept at a ref; otherwise a tree
                with such files stays.
            is_dry: whether nothing is changed, and only the outcome is returned.

        Raises:
            TaskNotFound: there is no task of a name, and no tree that was never finished.
        """
        targets = [self._find(name) for name in names] or [
            task for task in self._tasks.list(states=FINAL) if task.cleaned_at_ms is None
        ]
        return [
            self._clean_task(target, keeps_files, is_dry)
            if isinstance(target, Task)
            else target.clean(is_dry=is_dry)
            for target in targets
        ]

    def _find(self, name: str) -> Task | _UnfinishedTree:
        try:
            return self._tasks.get(name)
        except TaskNotFound:
            for place in repositories_of(self._bus, self._folder):
                trees = WorkTrees(place, wait_s=_WAIT_S)
                tree = trees.of(name)
                if tree is not None and not tree.is_made:
                    return _UnfinishedTree(name, trees, tree)
            raise

    def _clean_task(self, task: Task, keeps_files: bool, is_dry: bool) -> Cleaned:
        if (reason := self._use_of(task)) is not None:
            return Cleaned(task.task, task.path, task.branch, False, (), reason)
        try:
            trusted = TrustedRepositories(self._bus.layout.directory, self._folder)
            removal = Removal(WorkTrees(trusted.place(task.repository), is_looking=is_dry))
            if is_dry:
                removal.check(task.task, keeps_files=keeps_files)
                return Cleaned(task.task, task.path, task.branch, True)
            removed = self._removed(task, removal, keeps_files)
        except (Refused, GitFailed, TimedOut) as error:
            return Cleaned(task.task, task.path, task.branch, False, (), str(error))
        if removed.reason is None and task.cleaned_at_ms is None:
            self._tasks.mark_cleaned(task.task)
        refs = [kept_commit.ref for kept_commit in removed.kept]
        is_removed = removed.reason is None
        return Cleaned(task.task, task.path, task.branch, is_removed, refs, removed.reason)

    def _use_of(self, task: Task) -> str | None:
        """Return why a tree must stay, or None."""
        lease = self._tasks.holder(task)
        if lease is not None:
            return f"{lease.holder} has the lease on it"
        if task.unproven:
            return "the task is unproven"
        if task.state not in FINAL:
            return f"the task is {task.state}"
        if not os.path.isdir(task.repository):
            return f"its repository {task.repository} is not there"
        if pids := occupants_of(task.path):
            return f"process {pids[0]} works in it"
        return None

    def _removed(self, task: Task, removal: Removal, keeps_files: bool) -> Removed:
        landed = [task.head] if task.head and self._has_landed(task, removal.place) else []
        return removal.remove(task.task, task.branch, landed=landed, keeps_files=keeps_files)

    def _has_landed(self, task: Task, place: RepositoryPlace) -> bool:
        """Whether another branch has the commit by which a task landed, and that has its changes.

        Its row alone is no proof: whoever writes the bus could name any commit there.
        """
        head, commit = (id and place.git.commit(id) for id in (task.head, task.commit_id))
        if task.state != "COMPLETED" or not head or not commit:
            return False
        return has_elsewhere(place, commit, task.branch) and brings_changes_of(
            place.git, commit, head
        )
