"""The dispatcher: claims and runs the jobs of all plugins, and recovers those cut off.

One thread claims and stores ends; each running job has a thread that waits for its program.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from ...schema.errors import AckbusError, BusBusy, InvalidInput, LimitReached, NotFound, Refused
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import ACTIVE, Claims, Outcome
from ...subscribers.jobs.policy import AUTOMATION
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queue_set import QueueSet
from ...workers.processes.own_child import StopSwitch
from ..records.facts import Facts, JobLog, ServiceFenced
from .endings import JobEnd
from .plugin_run import PluginJob, RunEnd, run_plugin
from .submission import PREFIX, queues_of_plugins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.jobs.jobs import Job
    from ...workers.processes.supervisors import Supervisors
    from ..config.models import ServiceConfig
    from ..plugins.discovery import Plugin
    from .endings import JobEndings
    from .plugin_run import LiveOutput

#: Pause after a job could not be started, in seconds: the next one would fail too.
_REST_S = 1.0

_log = logging.getLogger("ackbus.automation.jobs")


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """The settings of a dispatcher, replaced as a whole.

    Attributes:
        plugins: those that run, by name.
        service: how many jobs may run at once, and which variables plugins get.
        context_of: returns the baggage of a context, by its id.
    """

    plugins: Mapping[str, Plugin]
    service: ServiceConfig
    context_of: Callable[[str], Mapping[str, Any]]


class Dispatcher:
    """Runs the jobs of a service.

    Args:
        bus: the bus.
        instance: the name of the service, for people who look at claims.
        endings: stores what came of the jobs.
        output: stores what they print.
        supervisors: run the programs, and end all that they start.
        wake: is called, from another thread, when a job has ended.
    """

    def __init__(
        self,
        bus: LocalBus,
        instance: str,
        endings: JobEndings,
        output: LiveOutput,
        supervisors: Supervisors,
        wake: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._instance = instance
        self._endings = endings
        self._output = output
        self._supervisors = supervisors
        self._wake = wake
        self._facts = Facts(engine_of(bus))
        self._claims = Claims.of(bus)
        self._rules: DispatchRules | None = None
        self._queues = QueueSet(bus, [])
        self._running: dict[int, PluginJob] = {}  # by the tokens of the claims
        self._ended: list[tuple[PluginJob, RunEnd]] = []  # appending and popping are single steps
        self._unwritten: list[tuple[PluginJob, RunEnd]] = []
        self._told_of_delay = False
        self._rests_until = 0.0
        self._no_switch = StopSwitch()  # of jobs that have not begun: nothing runs with it

    def use_rules(self, rules: DispatchRules, queues: QueueSet) -> None:
        """Use these rules from the next claim on; running jobs keep the rules that they began with.

        Args:
            rules: the rules.
            queues: of their plugins.
        """
        self._rules, self._queues = rules, queues

    @property
    def running(self) -> list[PluginJob]:
        """The jobs that run, and those whose ends are not stored yet."""
        return list(self._running.values())

    @property
    def has_unwritten(self) -> bool:
        """Whether ends could not be stored, and are to be tried again."""
        return bool(self._unwritten)

    @property
    def is_held_up(self) -> bool:
        """Whether something could not be done, and is to be tried again soon."""
        return self.has_unwritten or self._is_resting

    def step(self, *, may_begin: bool = True) -> int:
        """Store what has ended, end what was cancelled, and begin what may begin.

        Returns:
            How many jobs have begun.

        Raises:
            ServiceFenced: another service has begun.
        """
        self._store_ends()
        self._end_cancelled()
        room = self._room
        if not may_begin or self._rules is None or room == 0:
            return 0
        try:
            claims = self._queues.claim(
                self._instance, group=AUTOMATION, limit=room, check=self._endings.check
            )
        except (BusBusy, LimitReached) as error:
            _log.warning("nothing can be claimed: %s", error)
            self._rest()
            return 0
        for claim in claims:
            self._begin(self._rules, claim)
        return len(claims)

    @property
    def next_due_ms(self) -> int | None:
        """When a job that waits for its time is due, in epoch milliseconds.

        None without one, and while none could begin: the end of another makes room.
        """
        return self._queues.next_due_ms if self._room else None

    def end_all(self, grace_s: float) -> None:
        """End the programs that run; their jobs are handed back."""
        for job in self.running:
            job.stop.stop(grace_s)

    # Beginning ---------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        """Return how many jobs may begin now."""
        if self._rules is None or self._is_resting:
            return 0
        return max(0, self._rules.service.max_workers - len(self._running))

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._rests_until

    def _rest(self) -> None:
        self._rests_until = time.monotonic() + _REST_S

    def _begin(self, rules: DispatchRules, claim: Claim) -> None:
        job = self._running[claim.token] = self._job(rules, claim)
        try:
            job = self._running[claim.token] = self._equipped(rules, job)
            start_thread(lambda: self._run(job), f"job {claim.message.seq}")
        except (OSError, RuntimeError, BusBusy) as error:  # no descriptors, no threads
            _log.warning("%s can't begin yet: %s", job.command, error, extra=_about(job))
            self._rest()
            self._end(job, RunEnd(outcome=None, why=f"it can't begin: {error}"))
        except (AckbusError, ValueError) as error:  # its context is gone, its state is damaged
            outcome = Outcome(status=states.FAILED, error=f"it can't begin: {error}", retry=False)
            self._end(job, RunEnd(outcome=outcome))

    def _job(self, rules: DispatchRules, claim: Claim) -> PluginJob:
        return PluginJob(
            claim=claim,
            plugin=rules.plugins[claim.queue.removeprefix(PREFIX)],
            command=claim.message.type.removeprefix(claim.queue + "."),
            state={},
            context={},
            started_at_ms=claim.claimed_at_ms,
            bus_dir=self._bus.layout.directory,
            passed_through=rules.service.plugin_env_passthrough,
            amendments=rules.service.amendments,
            stop=self._no_switch,
        )

    def _equipped(self, rules: DispatchRules, job: PluginJob) -> PluginJob:
        """Return a job with its switch, the state of its plugin and the baggage of its pipeline."""
        job_header = job.message.headers.get("job")
        context_id = job_header.get("context_id") if isinstance(job_header, dict) else None
        context = rules.context_of(context_id) if isinstance(context_id, str) else {}
        state = self._facts.state(job.plugin.name)
        return replace(job, state=state, context=context, stop=StopSwitch())

    def _run(self, job: PluginJob) -> None:
        """Run a job, in a thread of its own."""
        try:
            output = self._output.begin(job.claim.token)
            end = run_plugin(job, supervisors=self._supervisors, output=output)
        except BaseException as error:  # whatever it is, the job must not stay without an end
            _log.exception("message %s can't run", job.message.seq, extra=_about(job))
            end = RunEnd(outcome=Outcome(status=states.FAILED, error=f"it can't run: {error}"))
        self._end(job, end)

    def _end(self, job: PluginJob, end: RunEnd) -> None:
        """Have the end of a job stored by the next step."""
        self._ended.append((job, end))
        self._wake()

    # Ends --------------------------------------------------------------------------------------

    def _store_ends(self) -> None:
        ends, self._unwritten = self._unwritten, []
        while self._ended:
            ends.append(self._ended.pop(0))
        for job, end in ends:
            self._output.end(job.claim.token)
            try:
                self._store(job, end)
            except ServiceFenced:
                raise
            except AckbusError as error:  # the disk is full, a queue is, others are writing
                self._delay(job, end, error)
            else:
                self._told_of_delay = False
                del self._running[job.claim.token]

    def _store(self, job: PluginJob, end: RunEnd) -> None:
        try:
            ended = self._endings.store(job, end)
        except (LimitReached, ServiceFenced):
            raise
        except (InvalidInput, Refused, NotFound) as error:
            # Something that follows from the job can't be stored: that is how the attempt ended.
            ended = self._endings.store(job, _not_storable(end, error))
        self._tell(job, end, ended)

    def _delay(self, job: PluginJob, end: RunEnd, error: AckbusError) -> None:
        level = logging.DEBUG if self._told_of_delay else logging.ERROR
        _log.log(level, "the end of a job can't be stored yet: %s", error, extra=_about(job))
        self._told_of_delay = True
        self._unwritten.append((job, end))

    def _tell(self, job: PluginJob, end: RunEnd, ended: JobEnd | None) -> None:
        about = _about(job)
        for line in end.stderr.splitlines():
            _log.warning("stderr: %s", line, extra=about)
        if ended is None:
            _log.info("%s was handed back: %s", job.command, end.why, extra=about)
        elif ended.state == states.SUCCEEDED:
            _log.info("%s succeeded in %.3f s", job.command, end.run_s, extra=about)
        else:
            follows = "another follows" if ended.state == states.QUEUED else f"it is {ended.state}"
            _log.warning(
                "%s failed, attempt %s of %s: %s (%s)",
                *(job.command, job.claim.attempt, job.claim.max_attempts, ended.error, follows),
                extra=about,
            )

    def _end_cancelled(self) -> None:
        """End the programs whose jobs somebody has cancelled meanwhile."""
        for token, job in self._running.items():
            if not job.stop.is_set and self._claims.status(token) != ACTIVE:
                _log.info("%s was cancelled", job.command, extra=_about(job))
                job.stop.stop()


def _not_storable(end: RunEnd, error: AckbusError) -> RunEnd:
    assert end.outcome is not None  # else there is nothing that could not be stored
    outcome = replace(end.outcome, status=states.FAILED, error=str(error), result=end.stdout)
    return replace(end, outcome=outcome, events=(), state_updates=None)


def _about(job: PluginJob) -> dict[str, str]:
    return {"plugin": job.plugin.name, "job_id": job.message.id}


# Recovery: the jobs that a service left running when it died count an attempt, and go on.
#
# The lock of the service shows that its predecessor is gone, so nobody waits for leases.

#: The error of an attempt that was cut off when its service died.
WHY = "the service ended while it ran"

_recovery_log = logging.getLogger("ackbus.automation.recovery")


def recover(bus: LocalBus, endings: JobEndings) -> int:
    """End the attempts that a predecessor left running; return how many there were.

    Each counts: the job is queued again, or dead after its last. One transaction for each queue.
    """
    count = 0
    for info in queues_of_plugins(bus):
        with bus.transaction():
            endings.check()
            tokens = {seq: token for token, seq in Claims.of(bus).active(info)}
            lost = Queue(bus, info).jobs.lose_running(WHY)
            for job in lost:
                _follow_up(bus, endings, job, tokens[job.seq])
        count += len(lost)
        for job in lost:
            _warn(bus, job)
    JobLog(engine_of(bus)).clear_output()
    return count


def _follow_up(bus: LocalBus, endings: JobEndings, job: Job, token: int) -> None:
    end = _end(bus, job)
    if end is None:
        return
    output = JobLog(engine_of(bus)).output(token)
    stdout, stderr = (
        "".join(text for name, text in output if name == stream) for stream in ("stdout", "stderr")
    )
    status = states.DEAD if end.is_over else states.FAILED
    endings.log_attempt(end, token, status, stdout, stderr)
    if not end.is_over:
        return
    endings.conclude(end, WHY)
    try:
        with bus.transaction():
            endings.route(end, (), WHY)
    except (InvalidInput, NotFound, Refused) as error:
        # No queue gets room before the service has started.
        _recovery_log.error(
            "no job follows from it: %s", error, extra=_lost_job(end.plugin, end.message)
        )


def _end(bus: LocalBus, job: Job) -> JobEnd | None:
    """Return what became of a job that was lost; None where its message can't be read."""
    message = bus.log.readable(job.seq)
    if message is None:
        return None
    command = message.type.removeprefix(job.queue + ".")
    attempt = job.attempt - 1 if job.state == states.QUEUED else job.attempt
    return JobEnd(message, job.queue.removeprefix(PREFIX), command, job.state, attempt, WHY)


def _warn(bus: LocalBus, job: Job) -> None:
    message = bus.log.readable(job.seq)
    log_extra = _lost_job(job.queue.removeprefix(PREFIX), message)
    if job.state == states.QUEUED:
        _recovery_log.warning(
            "%s: it is queued again, for attempt %s of %s",
            *(WHY, job.attempt, job.max_attempts),
            extra=log_extra,
        )
    else:
        _recovery_log.warning("%s: it is dead after attempt %s", WHY, job.attempt, extra=log_extra)


def _lost_job(plugin: str, message: Message | None) -> dict[str, str]:
    return {"plugin": plugin, "job_id": message.id if message else ""}
