"""Spawning: a branch, a work tree, a lease and the first message of a task. Safe to repeat.

The lease comes first, then the tree, then the message: no message names a tree that is not there.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass, fields

from ..git.branches.repositories import RepositoryPlace
from ..git.repository import CommandFailed, GitFailed
from ..git.sealed import TrustedRepositories, named_repository
from ..git.trees.removal import Removal
from ..git.trees.tree_list import NameTaken, occupants_of
from ..git.trees.work_trees import NewTree, WorkTrees
from ..schema.arguments import with_checked_arguments
from ..schema.directory.layout import BUS_DIR_VARIABLE
from ..schema.errors import AckbusError, LeaseLost, Refused, shown
from ..schema.message.names import check_agent
from .records.task import LEASE_S, PRIORITIES, NewTask, TaskTerms, lease_of
from .records.task_table import TaskTable
from .steps.messages import TaskExists, WrongTaskState, check_task_name
from .steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.leases import Lease
    from ..bus.local_bus import LocalBus
    from ..git.trees.tree_list import LinkedTree
    from ..workers.processes.own_child import StopSwitch
    from .records.task import Task

# The remains of a tree whose making was cut off before its task was recorded.
#
# It has no owner: its creator has no lease, no task, and no process there. The holder of the lease
# on the name continues with it if it fits, and else removes it; commits and files are kept first.

_log = logging.getLogger("ackbus.tasks.trees")


def clear_remains(trees: WorkTrees, new: NewTask, bus: str) -> None:
    """Remove what an earlier spawn of a task has left, unless this one can continue with it.

    The caller has the lease on the task, which has no row. What is kept is logged.

    Args:
        trees: of the repository.
        new: the task that is to be made.
        bus: the directory of its bus.

    Raises:
        NameTaken: it was finished, and nothing says that it is of this bus.
        Refused: a process works in it, or it has what can't be kept.
        TreeBusy: a process is making it.
    """
    tree = trees.of(new.task)
    if tree is None or _fits(tree, new, bus):
        return
    if tree.is_made and (tree.note is None or tree.note.bus != bus):
        raise NameTaken(
            f"task {new.task!r} has a tree already, at {tree.path}, on branch"
            f" {shown(tree.branch)}, which this bus did not make; choose another name"
        )
    if pids := occupants_of(tree.path):
        raise Refused(f"process {pids[0]} works in {tree.path}; end it, then try again")
    branch = tree.note.branch if tree.note is not None else None
    removed = Removal(trees).remove(new.task, branch, keeps_files=True)
    for kept_commit in removed.kept:
        _log.warning(
            "task %s: %s is kept at %s", new.task, kept_commit.commit[:12], kept_commit.ref
        )


def _fits(tree: LinkedTree, new: NewTask, bus: str) -> bool:
    """Whether a half-created tree can be completed as the tree of a new task."""
    note = tree.note
    if note is None:
        return tree.branch in (None, new.branch) and tree.head in (None, new.base)
    is_of_another = tree.is_made and note.bus not in (None, bus)
    return (note.branch, note.base) == (new.branch, new.base) and not is_of_another


#: The default branch of a task.
BRANCH = "{worker}/{task}"

#: The terms that a repetition may not change, with their names for people.
_TERMS = {
    "prompt": "prompt",
    "review": "review",
    "reviewer": "reviewer",
    "priority": "priority",
    "max_attempts": "attempts in all",
    "depends_on": "dependencies",
}

#: Settings of git for new trees: globs of files to copy, a command for the shell, a branch.
COPY_SETTING, SETUP_SETTING, BRANCH_SETTING = "ackbus.copy", "ackbus.setup", "ackbus.branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec(TaskTerms):
    """The specification of a task, its branch and its tree: the terms of the task, and these.

    Attributes:
        folder: somewhere in the repository.
        base: the commit that the branch begins at, by any name; None: the target.
        target: the branch that the work is for; None: that of the main work tree.
        branch: its branch, in which `{worker}` and `{task}` stand for the names; None: what the
            setting `ackbus.branch` says, else `{worker}/{task}`.
        fetches: whether the target is fetched from its remote first, and the base taken from there.
        copies: globs of files to copy from the main work tree, besides those of `ackbus.copy`.
        setup: what is run in a new tree: a line for the shell, or the words of a command; empty:
            what `ackbus.setup` says, if anything.
        has_hooks, has_submodules, has_large_files: whether the hook `post-checkout` is run,
            submodules are initialised, and Git LFS fetches the contents of its files.
        limit_s: how long each of checkout, hook and set-up may take, in seconds.
        said: the names of the terms in which an existing task of this name must agree; None: of the
            terms that are not defaults.
    """

    folder: str
    base: str | None = None
    target: str | None = None
    branch: str | None = None
    fetches: bool = False
    copies: tuple[str, ...] = ()
    setup: str | tuple[str, ...] = ()
    has_hooks: bool = True
    has_submodules: bool = False
    has_large_files: bool = True
    limit_s: float = 600.0
    said: frozenset[str] | None = None

    def terms_said(self) -> list[str]:
        """Return the names of the terms in which an existing task must agree."""
        terms = [term for term in fields(TaskTerms) if term.name in _TERMS]
        if self.said is None:
            return [term.name for term in terms if getattr(self, term.name) != term.default]
        return [term.name for term in terms if term.name in self.said]


@with_checked_arguments
class Spawner:
    """Makes tasks with their trees.

    Args:
        bus: an open bus.
        stop: a switch that ends hook and set-up of a new tree with `ProgramStopped`.
    """

    def __init__(self, bus: LocalBus, stop: StopSwitch | None = None) -> None:
        self._bus = bus
        self._stop = stop
        self._tasks = Tasks(bus)

    def spawn(self, spec: TaskSpec, *, agent: str, lease_s: float = LEASE_S) -> Task:
        """Make a task, its branch and its tree, and give it to its worker under a lease.

        If the task exists already, it is returned as it is, with its tree mended; while it is
        ASSIGNED and free, its worker gets a lease again.

        Raises:
            TaskExists: there is a task of this name, of another worker, branch or repository, with
                other terms.
            WrongTaskState: it is CANCELLED or FAILED, unless it came from the queue.
            Refused: the branch or the path is somebody else's, or the base is no commit.
            LeaseLost: another worker has the lease of this name.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        check_task_name(spec.task)
        check_agent(spec.worker, "worker")
        self._bus.agents.refuse_several(spec.worker, spec.reviewer)
        trees = WorkTrees(named_repository(spec.folder))
        existing = self._task(spec.task)
        if existing is not None:
            return self._spawned_before(existing, spec, trees, agent, lease_s)
        new = self._new(spec, trees)
        trees.place.branch_ref(new.branch)
        self._tasks.check_new(new, agent=agent)
        lease = self._lease(spec, lease_s)
        try:
            clear_remains(trees, new, self._bus.layout.directory)
            self._make(new, spec, trees, is_known=False)
        except AckbusError:
            with suppress(LeaseLost):
                self._bus.leases.release(lease)
            raise
        with self._bus.transaction():
            if self._task(spec.task) is None:  # else another process has assigned it
                self._bus.leases.release(lease)
            return self._tasks.assign(new, agent=agent, lease_s=lease_s)

    def mend(self, task: Task, spec: TaskSpec | None = None) -> None:
        """Make the tree of a task again where it is gone, with what it had.

        Args:
            task: the task as it is.
            spec: how a new tree is filled; None: without copies or set-up of its own.

        Raises:
            Refused: its place is somebody else's, or not where trees of this repository are.
            NotTrusted: only its row names its repository.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        folders = () if spec is None else (spec.folder,)
        trusted = TrustedRepositories(self._bus.layout.directory, *folders)
        trees = WorkTrees(trusted.place(task.repository))
        spec = spec or TaskSpec(task=task.task, worker=task.worker, folder=task.repository)
        _check_path(task, trees)
        self._make(task, spec, trees, is_known=True)

    def _task(self, name: str) -> Task | None:
        return TaskTable.of(self._bus).get(name)

    def _spawned_before(
        self, task: Task, spec: TaskSpec, trees: WorkTrees, agent: str, lease_s: float
    ) -> Task:
        branch = self._branch(spec, trees.place) if spec.branch else task.branch
        is_same = task.branch == branch and _leads_to(task.repository, trees.place.common_dir)
        if not is_same or (task.worker != spec.worker and not task.from_queue):
            raise TaskExists(
                f"task {task.task!r} exists: {task.worker} has it on branch {task.branch} of"
                f" {task.repository}; choose another name"
            )
        if not spec.from_queue:  # a job says what its task is; the worker's own settings don't
            _refuse_ended(task)
            _refuse_other_terms(task, spec, trees.place)
        if task.is_live and not task.unproven:
            self.mend(task, spec)
        if task.worker != spec.worker:
            return task
        names = NewTask.__dataclass_fields__.keys() - {"in_reply_to"}
        same = NewTask(**{name: getattr(task, name) for name in names})
        return self._tasks.assign(same, agent=agent, lease_s=lease_s)

    def _new(self, spec: TaskSpec, trees: WorkTrees) -> NewTask:
        place = trees.place
        target = spec.target or place.default_branch()
        if target is None:
            raise Refused(
                f"{place.main} is on no branch; name the branch that the work is for with --into"
            )
        ref = place.branch_ref(target)  # that of a job is a message's: to fetch A:B would move B
        base_ref = spec.base or (self._fetched(place, target) if spec.fetches else target)
        base = None
        if base_ref == target and (base := place.git.commit(ref)) is None:
            place.commit("HEAD")  # raises if there is no commit at all
        terms = {term.name: getattr(spec, term.name) for term in fields(TaskTerms)}
        return NewTask(
            **terms,
            branch=self._branch(spec, place),
            path=trees.path_of(spec.task),
            repository=place.common_dir,
            base_ref=base_ref,
            base=base or place.commit(base_ref),
            target=target,
        )

    def _branch(self, spec: TaskSpec, place: RepositoryPlace) -> str:
        template = spec.branch or place.text(BRANCH_SETTING) or BRANCH
        return template.replace("{worker}", spec.worker).replace("{task}", spec.task)

    def _fetched(self, place: RepositoryPlace, target: str) -> str:
        """Fetch the target, and return the name by which its remote has it."""
        remote = place.text(f"branch.{target}.remote") or "origin"
        try:
            place.outward.run("fetch", "--quiet", remote, f"refs/heads/{target}", limit_s=300.0)
        except CommandFailed as error:
            raise GitFailed(f"{target} can't be fetched from {remote}: {error.reason}") from error
        return f"refs/remotes/{remote}/{target}"

    def _lease(self, spec: TaskSpec, lease_s: float) -> Lease:
        """Return the lease of a new task, which the worker may have from an earlier spawn."""
        name = lease_of(spec.task)
        with self._bus.transaction():
            lease = self._bus.leases.acquire(name, spec.worker, lease_s=lease_s)
            current = lease or self._bus.leases.get(name)
        if current is None or current.holder != spec.worker:
            whose = current.holder if current else "another agent"
            raise LeaseLost(f"task {spec.task!r} is being made by {whose}; choose another name")
        return current if lease else self._bus.leases.renew(current, lease_s=lease_s)

    def _make(
        self, task: Task | NewTask, spec: TaskSpec, trees: WorkTrees, *, is_known: bool
    ) -> None:
        trees.make(
            NewTree(
                task.task,
                task.branch,
                task.base,
                path=task.path,
                is_known=is_known,
                copies=(*trees.place.texts(COPY_SETTING), *spec.copies),
                setup=spec.setup or trees.place.text(SETUP_SETTING) or (),
                environment=self._environment(task),
                has_hooks=spec.has_hooks,
                has_submodules=spec.has_submodules,
                has_large_files=spec.has_large_files,
                limit_s=spec.limit_s,
                bus=self._bus.layout.directory,
                stop=self._stop,
            )
        )

    def _environment(self, task: Task | NewTask) -> dict[str, str]:
        """Return the variables by which programs in the tree know their bus and their task."""
        return {
            BUS_DIR_VARIABLE: self._bus.layout.directory,
            "BUS_AGENT": task.worker,
            "BUS_TASK": task.task,
            "BUS_TASK_BRANCH": task.branch,
            "BUS_TASK_BASE": task.base,
            "BUS_TASK_TARGET": task.target,
        }


def _refuse_ended(task: Task) -> None:
    """Refuse to make a task again that has ended without landing: its name stays taken.

    Raises:
        WrongTaskState: it is CANCELLED or FAILED.
    """
    if task.is_live or task.state == "COMPLETED":
        return
    hint = "" if task.cleaned_at_ms else f", and 'bus task clean {task.task}' removes its tree"
    raise WrongTaskState(
        task.task,
        task.state,
        f"task {task.task!r} is {task.state}, which is final; choose another name{hint}",
    )


def _refuse_other_terms(task: Task, spec: TaskSpec, place: RepositoryPlace) -> None:
    """Refuse a repetition whose terms differ from those of the task.

    Raises:
        TaskExists: a term, the target or the base differs.
    """
    differing = {
        _TERMS[name]: (_readable(name, task), _readable(name, spec))
        for name in spec.terms_said()
        if getattr(task, name) != getattr(spec, name)
    }
    if spec.target not in (None, task.target):
        differing["target"] = (task.target, spec.target or "")
    if spec.base not in (None, task.base_ref) and place.commit(spec.base or "") != task.base:
        differing["base"] = (task.base_ref, spec.base or "")
    if differing:
        what = "; ".join(
            f"its {name} is {present}, not {requested}"
            for name, (present, requested) in differing.items()
        )
        raise TaskExists(
            f"task {task.task!r} exists: {what}; leave that out, or choose another name"
        )


def _readable(name: str, terms: Task | TaskSpec) -> str:
    """Return a term for people."""
    value = getattr(terms, name)
    if name == "priority":
        return PRIORITIES[value] if value in range(3) else str(value)
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "none" if value is None else shown(value)


def _leads_to(path: str, place: str) -> bool:
    """Whether a path out of a row leads to a place; it may be any text, also with U+0000."""
    return "\0" not in path and os.path.realpath(path) == os.path.realpath(place)


def _check_path(task: Task, trees: WorkTrees) -> None:
    """Refuse a path that is neither where git has the task's tree, nor where one would be made."""
    tree = trees.of(task.task)
    expected = trees.path_of(task.task) if tree is None else tree.path
    if not _leads_to(task.path, expected):
        raise Refused(
            f"the tree of task {task.task!r} belongs at {expected}, and not at {shown(task.path)},"
            " as its row says; 'bus task cancel' ends it"
        )
