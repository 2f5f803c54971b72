"""The worker of tasks: claims jobs, has a program work on each in a tree of its own, lands none."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic

from ...bus.doorbell import StopEvent, listen
from ...bus.heartbeats import OFFLINE
from ...schema.errors import AckbusError, BusBusy, InvalidInput, LimitReached, Refused
from ...schema.message.names import check_agent
from ...subscribers.queues.clock_back import ClockBack
from ...subscribers.queues.queue_set import QueueWorkers
from ...subscribers.views import Views
from ...workers.processes.supervisors import Supervisors
from ...workers.work import seconds_to_change
from ..agent_program import (
    COOLDOWN_MS,
    JOB,
    PROGRAM_TIMEOUT_S,
    WARM_UP,
    AttemptRule,
    BoundedAttempts,
)
from ..records.task import lease_of
from ..records.worker_details import Workers
from ..steps.messages import JOBS
from ..steps.planning import open_queue
from ..steps.tasks import Tasks
from .job_run import JobContext, read_job
from .job_tree import Author, JobTrees
from .job_work import JobWork
from .worker_name import StatusReporter, TaskKeeper, WorkerName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.doorbell import Listener
    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ..agent_program import AgentProgram
    from .job_tree import Ports, TreeSettings

#: How long a job is a worker's without a renewal, in seconds; then another worker may take over.
LEASE_S = 60.0

#: The longest wait between two checks for work, in seconds: not every writer rings the doorbell.
_RECHECK_S = 0.25

#: How often a worker without work looks for lost holders and overdue questions, in seconds.
_SETTLE_S = 5.0

_log = logging.getLogger("ackbus.tasks.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkSettings:
    """The settings of a worker.

    Attributes:
        worker: its name, which one process at a time has.
        program: the program that does the work.
        trees: the settings of its work trees.
        timeout_s: how long the program may take unless the job says so, in seconds; None: for ever.
        lease_s: how long a job is its own without a renewal, in seconds.
        author: of commits, as `NAME <EMAIL>`; None: the worker.
        ports: each task gets one of these; None: tasks get no port.
        warm_up: how often the program is looked for before a job is taken.
        retries: how often it is run when it fails for the moment.
        cooldown_ms: the rest after the last attempt of either, in milliseconds.
    """

    worker: str
    program: AgentProgram
    trees: TreeSettings
    timeout_s: float | None = PROGRAM_TIMEOUT_S
    lease_s: float = LEASE_S
    author: str | None = None
    ports: Ports | None = None
    warm_up: AttemptRule = WARM_UP
    retries: AttemptRule = JOB
    cooldown_ms: int = COOLDOWN_MS


@dataclass(slots=True)
class _Running:
    """The job that a worker is at, one at a time."""

    work: JobWork | None = None
    stop_grace_s: float | None = field(default=None)


class TaskWorker:
    """A worker of tasks: one job at a time, in one process.

    Args:
        bus: an open bus.
        settings: of the worker.
        supervisors: run its programs; None: its own.

    Raises:
        InvalidInput: a setting breaks a rule.
        GitFailed: there is no repository.
    """

    def __init__(
        self, bus: LocalBus, settings: WorkSettings, *, supervisors: Supervisors | None = None
    ) -> None:
        check_agent(settings.worker, "worker")
        if settings.timeout_s is not None and not settings.timeout_s > 0:
            raise InvalidInput(f"a timeout is more than 0 s, not {settings.timeout_s:g}")
        self._bus, self._settings = bus, settings
        self._author = Author.of(settings.worker, settings.author)
        self._tasks = Tasks(bus)
        self._trees = JobTrees(self._tasks, settings.worker, settings.trees)
        self._queue = open_queue(bus, JOBS)
        self._warm_up = BoundedAttempts(settings.warm_up, settings.cooldown_ms)
        self._attempts = BoundedAttempts(settings.retries, settings.cooldown_ms)
        self._supervisors = supervisors
        self._running = _Running()
        self._stop = StopEvent()
        suffix = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._instance = f"{settings.worker[:96]}/{suffix}"

    def run(self, *, once: bool = False, drain: bool = False) -> int:
        """Work until `stop` is called, and return how many jobs were worked on.

        Args:
            once: wait for one job, and return after it.
            drain: return when nothing is left that could be claimed now.

        Raises:
            WorkerRuns: another process is this worker.
            Refused: with `once` or `drain`: the program is not there.
        """
        worker = self._settings.worker
        with ExitStack() as stack:
            name = stack.enter_context(WorkerName(self._bus, worker))
            name.acquire()
            name.clear()
            self._clean_up()
            supervisors = self._supervisors or stack.enter_context(Supervisors())
            listener = stack.enter_context(listen(self._bus, self._stop))
            heart = stack.enter_context(self._bus.heart(worker))
            keeper = stack.enter_context(
                TaskKeeper(self._queue, self._tasks, self._settings.lease_s, self._lose)
            )
            QueueWorkers(self._bus).note(self._queue.info, worker)
            Workers.of(self._bus).note(worker)
            context = JobContext(
                bus=self._bus,
                queue=self._queue,
                tasks=self._tasks,
                worker=worker,
                program=self._settings.program,
                timeout_s=self._settings.timeout_s,
                lease_s=self._settings.lease_s,
                author=self._author,
                trees=self._trees,
                ports=self._settings.ports,
                name=name,
                keeper=keeper,
                attempts=self._attempts,
                report=StatusReporter(heart),
                supervisors=supervisors,
            )
            return self._loop(context, listener, once, drain)

    def stop(self) -> None:
        """Begin no more jobs, and return from `run` after the job that runs.

        Safe in a signal handler and from any thread.
        """
        self._stop.set()

    def stop_now(self, grace_s: float) -> None:
        """Stop, and end the program that runs: its job is handed back, and its task stays as it is.

        Args:
            grace_s: how long it has after SIGTERM, in seconds.
        """
        self._running.stop_grace_s = grace_s
        work = self._running.work
        if work is not None:
            work.stop(grace_s)
        self.stop()

    # The loop ----------------------------------------------------------------------------------

    def _loop(self, context: JobContext, listener: Listener, once: bool, drain: bool) -> int:
        count, settle_at = 0, 0.0
        clock = ClockBack(self._bus)
        while not self._stop.is_set:
            clock.look()
            rest_s = self._rest_s(context, is_last=once or drain)
            if rest_s is not None:
                listener.pause(rest_s)
                continue
            if monotonic() >= settle_at:
                self._settle()
                settle_at = monotonic() + _SETTLE_S
            claim = self._claim()
            if claim is not None:
                self._work(context, claim)
                count += 1
                if once:
                    break
            elif drain:
                break
            else:
                context.report("idle")
                listener.wait(seconds_to_change(self._queue, _RECHECK_S))
        return count

    def _rest_s(self, context: JobContext, *, is_last: bool) -> float | None:
        """Return how long no job may be taken, in seconds: it rests, or the program is not there.

        None: a job may be taken now.

        Raises:
            Refused: the program is not there after the last attempt, and the worker is to end
                (`is_last`).
        """
        now_ms = self._bus.now_ms()
        rest_ms = max(self._warm_up.offline_ms(now_ms), self._attempts.offline_ms(now_ms))
        if rest_ms > 0:
            context.report(OFFLINE, "after transient failures of the program")
            return rest_ms / 1000
        why = context.program.obstacle
        if why is None:
            self._warm_up.end()
            return None
        self._warm_up.begin()
        pause_ms = self._warm_up.failed(now_ms)
        if pause_ms is None and is_last:
            raise Refused(why)
        _log.warning("no job is taken: %s", why)
        if pause_ms is None:
            return 0.0
        context.report("waiting", why)
        return pause_ms / 1000

    def _claim(self) -> Claim | None:
        settings = self._settings
        try:
            claims = self._queue.claim(
                self._instance, group=settings.worker, lease_s=settings.lease_s
            )
        except (BusBusy, LimitReached) as error:
            _log.warning("nothing can be claimed: %s", error)
            return None
        return claims[0] if claims else None

    def _work(self, context: JobContext, claim: Claim) -> None:
        work = self._running.work = JobWork(context, claim)
        context.keeper.hold(claim)
        if self._running.stop_grace_s is not None:
            work.stop(self._running.stop_grace_s)
        try:
            work.do()
        except BusBusy as error:  # the job comes back when its lease has run out
            _log.warning("the end of message %s was not written: %s", claim.message.seq, error)
        finally:
            context.keeper.let_go()
            self._running.work = None

    def _lose(self, why: str) -> None:
        work = self._running.work
        if work is not None:
            work.lose(why)

    def _settle(self) -> None:
        """End attempts of lost holders, and tasks whose questions were not answered in time."""
        try:
            self._tasks.settle_lost()
            self._tasks.settle_deadlines()
        except AckbusError as error:
            _log.warning("lost tasks were not looked after: %s", error)

    # The beginning -----------------------------------------------------------------------------

    def _clean_up(self) -> None:
        """Give back what the last holder of the name had when it was killed, and its trees.

        A job that it handed back itself, when it was stopped, continues where it was.
        """
        prefix = f"{self._settings.worker[:96]}/"
        for claim in Views.of(self._bus).active_claims(self._queue.info):
            if claim.group == self._settings.worker and claim.instance.startswith(prefix):
                self._give_back(claim.seq)
        self._settle()
        self._trees.clean_up()

    def _give_back(self, seq: int) -> None:
        """End the claim on a job as lost, and the lease on its task, which was held with it."""
        worker = self._settings.worker
        try:
            with self._bus.transaction():
                self._queue.jobs.lose(seq, f"{worker} was killed, and begins again")
                message = self._bus.log.readable(seq)
                lease = None if message is None else self._bus.leases.get(_lease_of(message))
                if lease is not None and lease.holder == worker:
                    self._bus.leases.release(lease)
        except AckbusError as error:  # somebody else was faster
            _log.warning("job %s was not given back: %s", seq, error)


def _lease_of(message: Message) -> str:
    try:
        return lease_of(read_job(message).task)
    except InvalidInput:
        return lease_of(message.id)
