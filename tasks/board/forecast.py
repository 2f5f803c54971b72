"""A forecast of conflicts between live tasks, or between any refs of a repository.

A pair of commits is merged once: the result is kept in the bus.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from ...git.branches.forecast import UnknownForecast, changed_files, conflicts
from ...git.repository import CommandFailed, GitFailed
from ...git.sealed import NotTrusted, SealedRepository, TrustedRepositories, sealed_around
from ...schema.errors import BusBusy, NotFound, ReadOnlyBackup, shown
from ..records.task_table import Forecasts, TaskTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...bus.reservations.reservations import Conflict
    from ...git.branches.forecast import Forecast
    from ..records.task import Task
    from ..records.task_table import Pair

    #: The changed files of tasks, by the names of the tasks.
    Changed = Mapping[str, tuple[str, ...]]

# The repositories of tasks, as far as git may be started in them.


class TaskRepositories:
    """The repositories of the tasks of a bus, for reading; nothing that they configure is run.

    Args:
        bus: an open bus.

    Attributes:
        not_looked_into: why a repository is not read, by its name in the rows.
    """

    def __init__(self, bus: LocalBus) -> None:
        self._trusted = TrustedRepositories(bus.layout.directory)
        self.not_looked_into: dict[str, str] = {}

    def into(self, repository: str) -> SealedRepository | None:
        """Return a repository to look into; None where it is gone, or may not be looked into.

        Args:
            repository: as a row names it.

        Raises:
            GitFailed: git is not installed, or can't read it.
        """
        try:
            return self._trusted.sealed(repository)
        except NotTrusted as error:
            self.not_looked_into[repository] = str(error)
            return None
        except GitFailed:
            if os.path.isdir(repository):
                raise
            return None

    def problem(self) -> str | None:
        """Return why some repositories are not read; None if all are."""
        return "; ".join(self.not_looked_into.values()) or None


#: The states in which the commit that a task is about is pinned.
_PINNED = ("IN_REVIEW", "APPROVED")


#: How many pairs are merged before the results are kept: if time runs out, the next look does the
#: rest.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Clash:
    """Two heads that would not merge, or for which this is not known.

    Attributes:
        a, b: the names of the tasks, or the refs.
        files: the files that conflict, or that decide it; none where the heads have no common
            ancestor.
        not_known: why it is not known whether they would merge; None: they would not.
    """

    a: str
    b: str
    files: tuple[str, ...]
    not_known: str | None = None

    def record(self) -> dict[str, Any]:
        """Return its JSON object, with `not_known` if that is set."""
        record: dict[str, Any] = {"a": self.a, "b": self.b, "files": list(self.files)}
        return record if self.not_known is None else {**record, "not_known": self.not_known}


def forecast_of_tasks(bus: LocalBus, lookout: TaskRepositories | None = None) -> list[Clash]:
    """Return the pairs of live tasks of the same repository that would not merge.

    A task counts with the commit that is done, or else with the newest of its branch. A task whose
    branch or repository is not there has nothing to merge.

    Args:
        bus: an open bus.
        lookout: the repositories of the tasks.

    Raises:
        GitFailed: git is not installed, or too old.
    """
    lookout = lookout or TaskRepositories(bus)
    clashes = []
    for repository, heads in heads_of(TaskTable.of(bus).live(), lookout).items():
        git = lookout.into(repository)
        clashes += [] if git is None else _clashes(bus, git, heads)
    return clashes


def forecast_of_refs(bus: LocalBus, refs: Sequence[str], folder: str) -> list[Clash]:
    """Return the pairs of refs that would not merge.

    Args:
        bus: caches the results.
        refs: branches, tags or ids of commits, or names of tasks; a ref goes first.
        folder: a folder in the repository.

    Raises:
        NotFound: a ref names no commit of the repository.
        GitFailed: the folder is in no repository, or git is too old.
    """
    repository = sealed_around(folder)
    names = list(dict.fromkeys(refs))
    table, heads, unknown = TaskTable.of(bus), {}, []
    for ref, commit in zip(names, repository.commits(names), strict=True):
        task = table.get(ref) if commit is None else None
        head = repository.commits([_ref_of(task)])[0] if task else commit
        if head is None:
            unknown.append(shown(ref))
        else:
            heads[ref] = head
    if unknown:
        raise NotFound(f"no commit or task here is named {', '.join(unknown)}; see 'git branch'")
    return _clashes(bus, repository, heads)


def heads_of(tasks: Iterable[Task], lookout: TaskRepositories) -> dict[str, dict[str, str]]:
    """Return the head of each task that has one, by repository and name.

    Tasks of a repository that is gone, or may not be read, have none.

    Raises:
        GitFailed: git is not installed, or can't read a repository.
    """
    by_repository: dict[str, list[Task]] = {}
    for task in tasks:
        by_repository.setdefault(task.repository, []).append(task)
    heads = {}
    for repository, group in by_repository.items():
        git = lookout.into(repository)
        if git is None:
            continue
        commits = git.commits([_ref_of(task) for task in group])
        heads[repository] = {
            task.task: commit for task, commit in zip(group, commits, strict=True) if commit
        }
    return heads


def _ref_of(task: Task) -> str:
    if task.head is not None and task.state in _PINNED:
        return task.head
    return f"refs/heads/{task.branch}"


def _clashes(bus: LocalBus, repository: SealedRepository, heads: Mapping[str, str]) -> list[Clash]:
    """Return the pairs that would not merge, in the order of the heads."""
    pairs = list(combinations(heads, 2))
    forecasts = _forecasts(bus, repository, {_key(heads[a], heads[b]) for a, b in pairs})
    clashes = []
    for a, b in pairs:
        forecast = forecasts.get(_key(heads[a], heads[b]))
        if isinstance(forecast, UnknownForecast):
            files = tuple(map(_text, forecast.files))
            clashes.append(Clash(_text(a), _text(b), files, forecast.reason))
        elif forecast is not None:
            clashes.append(Clash(_text(a), _text(b), forecast))
    return clashes


def _forecasts(
    bus: LocalBus, repository: SealedRepository, all_pairs: Iterable[Pair]
) -> Mapping[Pair, Forecast]:
    pairs = sorted((a, b) for a, b in all_pairs if a != b)
    table = Forecasts.of(bus)
    cached = table.known(pairs)
    new = [pair for pair in pairs if pair not in cached]
    computed: dict[Pair, Forecast] = {}
    for start in range(0, len(new), _AT_ONCE):
        part = new[start : start + _AT_ONCE]
        merged = dict(zip(part, conflicts(repository, part), strict=True))
        computed |= merged
        # An unknown result is not kept: it may become known, with a fetched object or more time.
        lasting = {
            pair: files for pair, files in merged.items() if not isinstance(files, UnknownForecast)
        }
        if lasting:
            with suppress(BusBusy, ReadOnlyBackup):  # then they are merged again next time
                table.note(lasting)
    return cached | computed


def _key(commit: str, other: str) -> Pair:
    return (commit, other) if commit < other else (other, commit)


def _text(name: str) -> str:
    """Return a name as text; it may have bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


# The files that tasks change on their branches, and that others have reserved.


@dataclass(frozen=True, slots=True)
class ReservedChange:
    """A file that a task changes, and that another agent has reserved.

    Attributes:
        task: the name of the task.
        conflict: the file, and the reservation.
    """

    task: str
    conflict: Conflict

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        path = self.conflict.path.encode(errors="backslashreplace").decode()
        return {"task": self.task, "path": path, "held": self.conflict.held.record()}


def reserved_by_others(
    bus: LocalBus, tasks: Iterable[Task], lookout: TaskRepositories | None = None
) -> list[ReservedChange]:
    """Return the files that tasks change on their branches and that others have reserved.

    A path counts from the root of its repository, as for the guard.

    Args:
        bus: an open bus.
        tasks: the tasks.
        lookout: the repositories of the tasks.

    Raises:
        GitFailed: git is not installed.
    """
    tasks = list(tasks)
    return compare(bus, tasks, changed_by(tasks, lookout or TaskRepositories(bus)))


def changed_by(tasks: Iterable[Task], lookout: TaskRepositories) -> Changed:
    """Return the files that each task changes on its branch since the branch left its target."""
    tasks = list(tasks)
    files_by_task: dict[str, tuple[str, ...]] = {}
    for folder, heads in heads_of(tasks, lookout).items():
        repository = lookout.into(folder)
        if repository is None:
            continue
        group = [task for task in tasks if task.task in heads and task.repository == folder]
        targets = repository.commits([f"refs/heads/{task.target}" for task in group])
        bases = repository.commits([task.base for task in group])
        # If the target is gone, the changes since the branch began count.
        starts = {
            task.task: target or base
            for task, target, base in zip(group, targets, bases, strict=True)
        }
        group = [task for task in group if starts[task.task]]
        try:
            changes = changed_files(
                repository, [(starts[task.task] or "", heads[task.task]) for task in group]
            )
        except CommandFailed:  # an object is missing
            continue
        for task, changed in zip(group, changes, strict=True):
            files_by_task[task.task] = tuple(sorted(changed))
    return files_by_task


def compare(bus: LocalBus, tasks: Iterable[Task], changed: Changed) -> list[ReservedChange]:
    """Return which of the changed files of tasks others have reserved."""
    return [
        ReservedChange(task.task, conflict)
        for task in tasks
        if task.task in changed
        for conflict in bus.reservations.against(changed[task.task], task.worker)
    ]
