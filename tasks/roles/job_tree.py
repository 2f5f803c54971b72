"""The work tree of a job: created with its task, found again after a kill, removed at the end.

A tree comes before its task, so a kill between the two leaves a tree that the same job finds again.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import zlib
from dataclasses import dataclass, replace

from ...git.repository import GitFailed
from ...git.sealed import named_repository
from ...git.trees.removal import Removal
from ...git.trees.rescue import DoneHeads
from ...git.trees.tree_list import safe_name
from ...git.trees.tree_state import embedded_in, named, read_state, repository_of, stage_all
from ...git.trees.work_trees import WorkTrees
from ...schema.errors import AckbusError, InvalidInput, Refused, shown
from ..records.task import HELD
from ..spawn import Spawner, TaskSpec
from ..steps.messages import subject_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.leases import Lease
    from ...bus.local_bus import LocalBus
    from ...git.trees.tree_list import LinkedTree
    from ...git.trees.tree_state import TreeState
    from ...subscribers.jobs.claims import Claim
    from ...workers.processes.own_child import StopSwitch
    from ..records.task import OnLost, Review, Task
    from ..steps.tasks import Tasks
    from .job_run import JobForm

# A port for each task: a lease, so that two tasks never choose the same one.


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports for tasks.

    Attributes:
        first, last: both included.
    """

    first: int
    last: int

    @classmethod
    def read(cls, text: str) -> Ports:
        """Return the range of a text such as `20000-20999`.

        Raises:
            InvalidInput: the text is no range.
        """
        match = re.fullmatch(r"(?a)(\d{1,5})-(\d{1,5})", text)
        if match is None or not 0 < int(match[1]) <= int(match[2]) < 65_536:
            raise InvalidInput(f"ports are given like 20000-20999, not {shown(text)}")
        return cls(int(match[1]), int(match[2]))

    def take(self, bus: LocalBus, task: str, worker: str, lease_s: float) -> tuple[int, Lease]:
        """Return a port that no task has and no program listens on, and the lease on it.

        Raises:
            Refused: there is none left.
        """
        count = self.last - self.first + 1
        begin = zlib.crc32(task.encode()) % count  # a task gets the same port again, as a rule
        for step in range(count):
            port = self.first + (begin + step) % count
            lease = bus.leases.acquire(f"port.{port}", worker, lease_s=lease_s)
            if lease is None:
                continue
            if _is_free(port):
                return port, lease
            bus.leases.release(lease)
        raise Refused(
            f"no port of {self.first}-{self.last} is free for task {task!r}; give more of them"
        )


def _is_free(port: int) -> bool:
    """Whether no program listens on a port: programs of others take no leases."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


# The commit of what a program left in its work tree without committing it.

#: How long git, with its filters, may take for one step, in seconds.
_LIMIT_S = 300.0

_AUTHOR = re.compile(r"\s*([^<>\n]+?)\s*<([^<>\n]+)>\s*")


@dataclass(frozen=True, slots=True)
class Author:
    """The author of the commits that a worker makes.

    Attributes:
        name, email: of the author.
    """

    name: str
    email: str

    @classmethod
    def of(cls, worker: str, text: str | None = None) -> Author:
        """Return the author that a text names as `NAME <EMAIL>`; None: one named as the worker.

        Raises:
            InvalidInput: it has another form.
        """
        if text is None:
            plain = re.sub(r"[^A-Za-z0-9._-]", "-", worker)
            return cls(re.sub(r"[<>\n]", " ", worker), f"{plain}@ackbus.invalid")
        match = _AUTHOR.fullmatch(text)
        if match is None:
            raise InvalidInput(f"the author must be like 'Name <name@host>', not {shown(text)}")
        return cls(match[1], match[2])

    def variables(self) -> dict[str, str | None]:
        """Return the variables by which git knows it."""
        return {
            f"GIT_{who}_{what}": value
            for who in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", self.email))
        }


def commit_leftovers(tree: LinkedTree, task: Task, prompt: str, author: Author) -> TreeState:
    """Commit what the work tree of a task has and its branch has not; return the tree's new state.

    Hooks are not run, and nothing is signed: nobody is there to answer, and the integrator checks
    what lands. Files that git ignores stay out; files outside
    a sparse checkout do not.

    Raises:
        Refused: the tree is on another branch, an operation is under way in it, or a folder of it
            is a repository by itself.
        GitFailed: git failed.
    """
    state = read_state(tree, task.base)
    if state.branch != task.branch:
        on = "no branch" if state.branch is None else f"branch {shown(state.branch)}"
        raise Refused(f"its work tree is on {on}, not on {shown(task.branch)}")
    if state.operation:
        raise Refused(f"a {state.operation} is under way in its work tree")
    git = repository_of(tree, author.variables())
    if not state.is_clean:
        stage_all(git, embedded_in(tree), _LIMIT_S)
    if embedded := embedded_in(tree):
        raise Refused(
            f"its work tree contains other repositories: {named(embedded)}; git would commit"
            " none of their files"
        )
    if state.is_clean:
        return state
    if not git.run("diff", "--cached", "--name-only", "HEAD", limit_s=_LIMIT_S):
        return state  # only filters, or times, had made it look changed
    subject = subject_of(prompt) or f"Work on {task.task}"
    message = f"{subject}\n\nTask: {task.task}\nAttempt: {task.attempt}\n"
    command = ("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--file=-")
    git.run(
        "-c", "core.hooksPath=/dev/null", *command, stdin=os.fsencode(message), limit_s=_LIMIT_S
    )
    return read_state(tree, task.base)


#: The default branch of a job's task.
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
        heads: keeps commits that are done.

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
            TreeBusy: another process is making the tree.
            Refused: there is no such base, or a process works in what an earlier worker left; as
                `NameTaken`: a name is somebody else's.
            LeaseLost: a worker that was lost has begun to make the task, and still has its lease.
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
        spawner = Spawner(self._tasks.bus, stop)
        return spawner.spawn(spec, agent=message.from_agent, lease_s=lease_s)

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
        Spawner(self._tasks.bus, stop).mend(task, self._spec(task.task))

    def tree_of(self, task: Task) -> LinkedTree:
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
            for kept_commit in removed.kept:
                _log.warning(
                    "task %s: %s is kept at %s", task.task, kept_commit.commit[:12], kept_commit.ref
                )

    def clean_up(self) -> None:
        """Remove the trees of this worker's jobs that are over: a kill came before it was done."""
        try:
            notes = [tree.note for tree in self._trees.all() if tree.note is not None]
        except GitFailed as error:
            _log.warning("trees were not looked through: %s", error)
            return
        tasks = {task.task: task for task in self._tasks.list(worker=self._worker)}
        for note in notes:
            task = tasks.get(note.task)
            if task is not None and task.from_queue and task.state not in HELD:
                self.remove(task, keeps_files=not task.is_live)


def _stricter(of_worker: Review, of_job: Review | None) -> Review:
    order: tuple[Review, ...] = ("none", "required", "other")
    return of_worker if of_job is None else max(of_worker, of_job, key=order.index)
