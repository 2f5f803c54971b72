"""Spawn: a branch, a work tree, a lease and the first message of a task. Safe to repeat.

The lease comes first, then the tree, then the message: nobody is told of a tree that is not there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, fields

from ...git.branches.repositories import Place
from ...git.repository import CommandFailed, GitFailed
from ...git.trees.work_trees import NewTree, WorkTrees
from ...schema.arguments import with_checked_arguments
from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.errors import AckbusError, LeaseLost, Refused
from ...schema.message.names import check_agent
from ..records.task import LEASE_S, NewTask, TaskTerms, lease_of
from ..steps.errors import TaskExists, TaskNotFound
from ..steps.names import check_task_name
from ..steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...bus.leases import Lease
    from ..records.task import Task

#: The branch of a task unless told otherwise.
BRANCH = "{worker}/{task}"

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
        setup: a command that is run in a new tree; empty: what `ackbus.setup` says, if anything.
        has_hooks, has_submodules, has_large_files: whether the hook `post-checkout` is run,
            submodules are initialised, and Git LFS fetches the contents of its files.
        limit_s: how long each of checkout, hook and set-up may take, in seconds.
    """

    folder: str
    base: str | None = None
    target: str | None = None
    branch: str | None = None
    fetches: bool = False
    copies: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    has_hooks: bool = True
    has_submodules: bool = False
    has_large_files: bool = True
    limit_s: float = 600.0


@with_checked_arguments
class Spawn:
    """Makes tasks with their trees.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._tasks = Tasks(bus)

    def spawn(self, spec: TaskSpec, *, agent: str, lease_s: float = LEASE_S) -> Task:
        """Make a task, its branch and its tree, and give it to its worker under a lease.

        Repeated it returns the task as it is, mends its tree, and gives the worker a lease again
        while the task is ASSIGNED and free.

        Raises:
            TaskExists: there is a task of this name, of another worker, branch or repository.
            Refused: the branch or the path is somebody else's, or the base is no commit.
            LeaseLost: another worker has the lease of this name.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        check_task_name(spec.task)
        check_agent(spec.worker, "worker")
        self._bus.agents.refuse_several(spec.worker, spec.reviewer)
        trees = WorkTrees(Place.around(spec.folder))
        there = self._found(spec.task)
        if there is not None:
            return self._again(there, spec, trees, agent, lease_s)
        new = self._new(spec, trees)
        trees.place.branch_ref(new.branch)
        lease = self._lease(spec, lease_s)
        try:
            self._make(new, spec, trees, is_known=False)
        except AckbusError:
            with suppress(LeaseLost):
                self._bus.leases.release(lease)
            raise
        with self._bus.transaction():
            if self._found(spec.task) is None:  # else another process was as far as this
                self._bus.leases.release(lease)
            return self._tasks.assign(new, agent=agent, lease_s=lease_s)

    def mend(self, task: Task, spec: TaskSpec | None = None) -> None:
        """Make the tree of a task again where it is gone, with what it had.

        Args:
            task: as it is.
            spec: how a new tree is filled.

        Raises:
            Refused: its place is somebody else's.
            GitFailed: git, a hook or the set-up failed; a repetition goes on from there.
        """
        trees = WorkTrees(Place.around(task.repository))
        spec = spec or TaskSpec(task=task.task, worker=task.worker, folder=task.repository)
        self._make(task, spec, trees, is_known=True)

    def _found(self, name: str) -> Task | None:
        try:
            return self._tasks.get(name)
        except TaskNotFound:
            return None

    def _again(
        self, there: Task, spec: TaskSpec, trees: WorkTrees, agent: str, lease_s: float
    ) -> Task:
        branch = self._branch(spec, trees.place) if spec.branch else there.branch
        of_there = (there.branch, os.path.realpath(there.repository))
        if of_there != (branch, trees.place.common_dir) or (
            there.worker != spec.worker and not there.from_queue
        ):
            raise TaskExists(
                f"task {there.task!r} exists: {there.worker} has it on branch {there.branch} of"
                f" {there.repository}; choose another name"
            )
        if there.is_live and not there.unproven:
            self.mend(there, spec)
        if there.worker != spec.worker:
            return there
        names = NewTask.__dataclass_fields__.keys() - {"in_reply_to"}
        same = NewTask(**{name: getattr(there, name) for name in names})
        return self._tasks.assign(same, agent=agent, lease_s=lease_s)

    def _new(self, spec: TaskSpec, trees: WorkTrees) -> NewTask:
        place = trees.place
        target = spec.target or place.default_branch()
        if target is None:
            raise Refused(
                f"{place.main} is on no branch; name the branch that the work is for with --into"
            )
        base_ref = spec.base or (self._fetched(place, target) if spec.fetches else target)
        base = None
        if base_ref == target and (base := place.git.commit(f"refs/heads/{target}")) is None:
            place.commit("HEAD")  # which says it where there is no commit at all
        terms = {each.name: getattr(spec, each.name) for each in fields(TaskTerms)}
        return NewTask(
            **terms,
            branch=self._branch(spec, place),
            path=trees.path_of(spec.task),
            repository=place.common_dir,
            base_ref=base_ref,
            base=base or place.commit(base_ref),
            target=target,
        )

    def _branch(self, spec: TaskSpec, place: Place) -> str:
        template = spec.branch or place.text(BRANCH_SETTING) or BRANCH
        return template.replace("{worker}", spec.worker).replace("{task}", spec.task)

    def _fetched(self, place: Place, target: str) -> str:
        """Fetch the target, and return the name by which its remote has it."""
        remote = place.text(f"branch.{target}.remote") or "origin"
        try:
            place.outward.run("fetch", "--quiet", remote, f"refs/heads/{target}", limit_s=300.0)
        except CommandFailed as error:
            raise GitFailed(f"{target} can't be fetched from {remote}: {error.reason}") from error
        return f"refs/remotes/{remote}/{target}"

    def _lease(self, spec: TaskSpec, lease_s: float) -> Lease:
        """Return the lease of a new task: also one that the worker has of a spawn before."""
        name = lease_of(spec.task)
        with self._bus.transaction():
            lease = self._bus.leases.acquire(name, spec.worker, lease_s=lease_s)
            held = lease or self._bus.leases.get(name)
        if held is None or held.holder != spec.worker:
            whose = held.holder if held else "another agent"
            raise LeaseLost(f"task {spec.task!r} is being made by {whose}; choose another name")
        return held if lease else self._bus.leases.renew(held, lease_s=lease_s)

    def _make(
        self, task: Task | NewTask, spec: TaskSpec, trees: WorkTrees, *, is_known: bool
    ) -> None:
        setup = spec.setup
        if not setup and (line := trees.place.text(SETUP_SETTING)):
            setup = ("sh", "-c", line)
        trees.make(
            NewTree(
                task.task,
                task.branch,
                task.base,
                path=task.path,
                is_known=is_known,
                copies=(*trees.place.texts(COPY_SETTING), *spec.copies),
                setup=setup,
                environment=self._environment(task),
                has_hooks=spec.has_hooks,
                has_submodules=spec.has_submodules,
                has_large_files=spec.has_large_files,
                limit_s=spec.limit_s,
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
