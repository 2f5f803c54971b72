"""The work tree of a job: its task is made with it, it is found again, and it goes after the work.

A tree comes before its task, so a kill between the two leaves a tree that the same job finds again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from ...git.repository import GitFailed
from ...git.trees.done_heads import DoneHeads
from ...git.trees.removal import Removal
from ...git.trees.tree_names import safe_name
from ...git.trees.work_trees import WorkTrees
from ...git.trusted import named_repository
from ...schema.errors import AckbusError, InvalidInput, Refused
from ..records.task import HELD
from ..trees.spawn import TaskSpec, stoppable_spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...git.trees.tree_list import Tree
    from ...subscribers.jobs.claims import Claim
    from ...workers.processes.stop_switch import StopSwitch
    from ..options import OnLost, Review
    from ..records.task import Task
    from ..steps.tasks import Tasks
    from .job_form import JobForm

#: The branch of a job's task, unless told otherwise.
BRANCH = "agent/{worker}/{job}"

_log = logging.getLogger("ackbus.tasks.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSettings:
    """The settings of the trees of a worker.

    Attributes:
        folder: a folder of the repository.
        base, target: the ref that branches start from, and the branch that the work is for; None:
            the branch of the main work tree.
        branch: the name of a branch: `{worker}`, `{job}` and `{task}` are filled in.
        review: whose approval the work needs.
        fetches: whether the target is fetched first, and the base taken from its remote.
        copies: globs of files of the main work tree that a new one gets.
        setup: what is run in a new tree: a line for the shell, or the words of a command; empty
            is what git's settings say.
        keeps: whether a tree stays when the work is done.
    """

    folder: str
    base: str | None = None
    target: str | None = None
    branch: str = BRANCH
    review: Review = "none"
    fetches: bool = False
    copies: tuple[str, ...] = ()
    setup: str | tuple[str, ...] = ()
    keeps: bool = False

    def __post_init__(self) -> None:
        """Refuse a template that does not tell the branches of two jobs apart."""
        if "{job}" not in self.branch and "{task}" not in self.branch:
            raise InvalidInput(
                f"branch {self.branch!r} needs {{job}} or {{task}}: they must differ"
            )


class JobTrees:
    """The trees of a worker's jobs.

    Args:
        tasks: the tasks of the bus.
        worker: the worker.
        settings: of its trees.

    Attributes:
        place: the repository.
        heads: what keeps commits that are done.

    Raises:
        GitFailed: there is no repository.
    """

    def __init__(self, tasks: Tasks, worker: str, settings: TreeSettings) -> None:
        self._tasks, self._worker, self._settings = tasks, worker, settings
        self.place = named_repository(settings.folder)
        self._trees = WorkTrees(self.place)
        self.heads = DoneHeads(self.place)

    def spawn(
        self, claim: Claim, form: JobForm, lease_s: float, on_lost: OnLost, stop: StopSwitch
    ) -> Task:
        """Make the tree and the task of a job. Safe to repeat.

        Raises:
            ProgramStopped: the switch was thrown.
            TreeBusy: another process is making it.
            Refused: there is no such base, or a process works in what was left; as `NameTaken`: a
                name is somebody else's.
            LeaseLost: a worker that was lost has begun to make it, and holds it still.
            GitFailed: git failed.
        """
        message = claim.message
        spec = replace(
            self._spec(form.task),
            base=form.base or self._settings.base,
            target=form.target or self._settings.target,
            branch=self._branch(message.id),
            prompt=form.payload,
            review=_stricter(self._settings.review, form.review),
            priority=message.priority,
            on_lost=on_lost,
            depends_on=form.depends_on,
            correlation_id=message.conversation,
            in_reply_to=message.id,
        )
        spawn = stoppable_spawn(self._tasks.bus, stop)
        return spawn.spawn(spec, agent=message.from_agent, lease_s=lease_s)

    def make(self, task: Task, stop: StopSwitch) -> None:
        """Make sure that the tree of a task is there, with what it had.

        Raises:
            ProgramStopped: the switch was thrown.
            Refused: the task is of another repository, or its place is somebody else's.
            GitFailed: git failed.
        """
        if task.repository != self.place.common_dir:
            raise Refused(
                f"task {task.task!r} is of {task.repository}, not {self.place.common_dir}"
            )
        stoppable_spawn(self._tasks.bus, stop).mend(task, self._spec(task.task))

    def tree_of(self, task: Task) -> Tree:
        """Return the tree of a task, as the repository lists it.

        Raises:
            Refused: there is none any more.
            GitFailed: git failed.
        """
        tree = self._trees.of(task.task)
        if tree is None:
            raise Refused(f"task {task.task!r} has no work tree at {task.path} any more")
        return tree

    def _spec(self, task: str) -> TaskSpec:
        settings = self._settings
        return TaskSpec(
            task=task,
            worker=self._worker,
            folder=settings.folder,
            fetches=settings.fetches,
            copies=settings.copies,
            setup=settings.setup,
            from_queue=True,
        )

    def _branch(self, job: str) -> str:
        """Return the template of a branch, with the names of job and worker, made safe."""
        worker = "/".join(map(safe_name, self._worker.split("/")))
        return self._settings.branch.replace("{job}", safe_name(job)).replace("{worker}", worker)

    def remove(self, task: Task, *, keeps_files: bool = False) -> None:
        """Remove the tree of a task whose work is done; its branch stays, and no commit is lost.

        A tree that can't be removed stays, for `bus task clean`.
        """
        if self._settings.keeps:
            return
        try:
            removed = Removal(self._trees).remove(task.task, None, keeps_files=keeps_files)
        except AckbusError as error:
            _log.warning("the tree of task %s stays: %s", task.task, error)
        else:
            for kept in removed.kept:
                _log.warning("task %s: %s is kept at %s", task.task, kept.commit[:12], kept.ref)

    def clean_up(self) -> None:
        """Remove the trees of this worker's jobs that are over: a kill came before it was done."""
        try:
            notes = [tree.note for tree in self._trees.all() if tree.note is not None]
        except GitFailed as error:
            _log.warning("trees were not looked through: %s", error)
            return
        known = {task.task: task for task in self._tasks.list(worker=self._worker)}
        for note in notes:
            task = known.get(note.task)
            if task is not None and task.from_queue and task.state not in HELD:
                self.remove(task, keeps_files=not task.is_live)


def _stricter(own: Review, asked: Review | None) -> Review:
    order: tuple[Review, ...] = ("none", "required", "other")
    return own if asked is None else max(own, asked, key=order.index)
