"""The options that choose jobs, and acting on the chosen jobs."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Annotated, cast

import typer

from ...schema.errors import InvalidInput
from ...schema.message.patterns import TypePattern
from ...subscribers.queues.job_control import DeadLetters
from .. import arguments
from ..definition import optional_word
from ..show.jobs import jobs_named, print_jobs, queues_named
from ..show.output import NOTHING, Output
from ..show.text import counted
from . import common as options
from .common import MAX_SEQ, By, OfQueue, Since, since_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...bus.local_bus import LocalBus
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.options import JobState
    from ...subscribers.queues.queue import Queue

    #: Jobs that were named one by one, by queue: all of them are changed, or none.
    NamedJobs = list[tuple[Queue, list[Job]]]
    #: Jobs that filters choose, by queue: each is changed by itself.
    FilteredJobs = Iterator[tuple[Queue, Iterator[Job]]]
    ChosenJobs = NamedJobs | FilteredJobs
    #: Changes jobs of a queue, and returns the changed ones.
    JobChange = Callable[[Queue, Iterable[Job]], Iterable[Job]]

Seq = Annotated[
    int, typer.Argument(metavar="SEQ", min=1, max=MAX_SEQ, help="The seq of the job's message.")
]
Seqs = Annotated[
    list[int],
    typer.Argument(metavar="SEQ...", min=1, max=MAX_SEQ, help="The seqs of the jobs' messages."),
]
SomeSeqs = Annotated[
    list[int] | None,
    optional_word("[SEQ]...", "The seqs of the jobs' messages.", min=1, max=MAX_SEQ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; list the chosen jobs.")]


@dataclass(frozen=True, kw_only=True)
class EndedJobFilter:
    """The options that filter the jobs that ended without success."""

    queue: OfQueue = None
    type: options.TypePattern = None
    since: Since = None

    def find(
        self, output: Output, bus: LocalBus, states: Sequence[str]
    ) -> Iterator[tuple[Queue, Iterator[Job]]]:
        """Yield each queue, with those of its jobs in these states that fit the options."""
        if self.type is not None:
            TypePattern(self.type)  # refuses a wrong pattern even if there is no queue
        job_states = cast("Sequence[JobState]", states)  # the options were checked
        since_ms = None if self.since is None else since_time(self.since, bus.now_ms())
        for queue in queues_named(output, bus, self.queue):
            letters = DeadLetters(queue)
            yield queue, letters.find(job_states, type=self.type, since_ms=since_ms)


@dataclass(frozen=True, kw_only=True)
class JobChoice(EndedJobFilter):
    """The options that choose jobs to change: by their seqs, or all that match the filters."""

    seqs: SomeSeqs = None
    dry_run: DryRun = False
    by: By = None

    def check(self, see: str, *, is_filtered: bool = False, is_all: bool = False) -> None:
        """Refuse an ambiguous choice of jobs. No error suggests the option that means all jobs.

        Args:
            see: the command that lists the jobs.
            is_filtered: whether the command's own options choose too.
            is_all: whether an option chooses all jobs.
        """
        is_filtered = is_filtered or self.type is not None or self.since is not None
        if self.seqs and (is_filtered or is_all):  # SEQs may stand with --queue
            raise InvalidInput(f"give SEQs, or options that choose, not both; see '{see}'")
        has_options = is_filtered or self.queue is not None
        if is_all and has_options:
            raise InvalidInput(f"all of the bus, or what fits the options? Say one; see '{see}'")
        if not (self.seqs or is_all or has_options):
            raise InvalidInput(f"say which: by SEQs, or by --queue, --type, --since; see '{see}'")

    @property
    def actor(self) -> str | None:
        """The actor, for the record."""
        return arguments.actor(self.by)

    def act(
        self, output: Output, bus: LocalBus, chosen: ChosenJobs, change: JobChange, done: str
    ) -> int:
        """Change jobs, or only list them, and return the exit code.

        Args:
            bus: the bus.
            chosen: the jobs; a list, as of `with_queues`, is changed whole or not at all.
            change: the change.
            done: its past participle, for the output.
        """
        is_named = isinstance(chosen, list)  # else it is of filters
        if self.dry_run:
            if is_named:
                _try(bus, chosen, change)
            count = print_jobs(output, bus, (job for _, jobs in chosen for job in jobs))
            output.note(f"{counted(count, 'job')} would be {done}; nothing was changed")
            return 0 if count else NOTHING
        output.show_logs()
        with bus.transaction() if is_named else nullcontext():
            changed = [job for queue, jobs in chosen for job in change(queue, jobs)]
        if output.is_json:
            print_jobs(output, bus, changed)
        else:
            output.line(f"{done} {counted(len(changed), 'job')}")
        return 0 if changed else NOTHING


class _RolledBack(Exception):
    """Rolls back a transaction of a dry run."""


def _try(bus: LocalBus, chosen: ChosenJobs, change: JobChange) -> None:
    """Change jobs in a transaction that is rolled back, to raise the errors of the change."""
    with suppress(_RolledBack), bus.transaction():
        for queue, jobs in chosen:
            list(change(queue, jobs))
        raise _RolledBack


def with_queues(
    output: Output, bus: LocalBus, seqs: Iterable[int], queue: str | None, state: str | None = None
) -> NamedJobs:
    """Return the jobs of `jobs_named` for `JobChoice.act`, which changes them all or none."""
    return [(opened, [job]) for opened, job in jobs_named(output, bus, seqs, queue, state)]
