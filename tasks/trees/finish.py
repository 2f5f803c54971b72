"""Finish: the checks of a work tree before its task is done, and the commit that is pinned."""

from __future__ import annotations

from ...bus.leases import Lease
from ...git.trees.tree_state import read_state
from ...git.trees.work_trees import WorkTrees
from ...git.trusted import TrustedRepositories
from ...schema.arguments import checked
from ...schema.errors import Refused
from ..steps.tasks import Tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...git.trees.tree_list import Tree
    from ..records.task import Task


class NothingDone(Refused):
    """The branch of a task has no commit beyond its base."""


@checked
def finish_task(bus: Bus, name: str, *, agent: str, token: int) -> Task:
    """Pin the head of a task's branch, by which it is done, and keep it. Safe to repeat.

    Args:
        bus: an open bus.
        name: of the task.
        agent: its holder.
        token: of the lease on it.

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


def checked_head(bus: Bus, task: Task) -> str:
    """Return the commit by which a task is done, if its tree is as it must be then.

    Raises:
        Refused, NothingDone: as for `finish`.
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


def tree_of(bus: Bus, task: Task) -> str:
    """Return the path of a task's tree, as git knows it.

    Raises:
        Refused: it is not there.
        NotTrusted: only its row names its repository.
    """
    return _tree_of(bus, task).path


def _tree_of(bus: Bus, task: Task) -> Tree:
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
