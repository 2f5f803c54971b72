"""The end of a job, stored in one transaction with the alarms that follow from it.

So no crash leaves a job that has ended without its events, their jobs, its state, its log and its
breaker; and no service that was replaced stores any of it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.times import format_ts
from ...schema.queries import engine_of
from ...subscribers.jobs import jobs as states
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.jobs.outcomes import is_tried_again
from ...subscribers.queues.queue import Queue
from ..records.breakers import Breakers
from ..records.facts import RETRY, AttemptEnd, Facts, Fence, Inits, JobLog, submitted_by
from .events import ended_draft, event_draft, event_out
from .plugin_run import RunEnd, is_success
from .submission import REMOVED, JobRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any, Protocol

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ..config.models import Config
    from .events import EventOut
    from .plugin_run import PluginJob
    from .submission import Submission

    class JobRouter(Protocol):
        """Returns the jobs that follow from the end of a job."""

        def successors(
            self, ended: JobEnd, events: Sequence[EventOut], result: Any
        ) -> Sequence[JobRequest]:
            """Return the jobs that follow; called inside the transaction that ends the job."""

# Alarms: jobs of the plugin of `on_failure` about dead jobs, missed times, breakers, findings.

#: The types of the events that such a plugin handles.
JOB_DEAD, TIMES_MISSED, BREAKER_OPENED = (
    "ductile.job.dead",
    "ductile.schedule.missed",
    "ductile.breaker.opened",
)

#: The entry of a job's origin with the type of the alarm that started it.
ALARM = "alarm"

_alarm_log = logging.getLogger("ackbus.automation.alarms")


class Alarms:
    """Submits jobs to the plugin that `on_failure` names, in the transaction of the failure.

    An alarm that can't be stored is only logged; the failure itself is stored all the same.
    """

    def __init__(self, bus: LocalBus, submission: Submission) -> None:
        self._bus = bus
        self._submission = submission
        self._config: Config | None = None
        self._plugins: Collection[str] = ()

    def use_config(self, config: Config, plugins: Collection[str]) -> None:
        """Use this configuration, and the names of the plugins that run, from now on."""
        self._config = config
        self._plugins = plugins

    def tell(
        self,
        type: str,
        plugin: str,
        payload: Mapping[str, object],
        *,
        parent: Message | None = None,
    ) -> None:
        """Submit a job about a failure; none if no plugin is named, or that plugin itself failed.

        The failure of an alarm raises no other alarm: two plugins would alarm each other forever.

        Args:
            type: of the event.
            plugin: in which plugin it went wrong.
            payload: of the event.
            parent: the message of the job that failed, if there is one.
        """
        target, command = self._target(plugin)
        about = {"plugin": plugin, "job_id": None if parent is None else parent.id}
        if target in ("", plugin) or _is_alarm(parent):
            return
        if target not in self._plugins:
            _alarm_log.error("no alarm of %s: no plugin %s runs", type, target, extra=about)
            return
        event = {
            "type": type,
            "source": plugin,
            "timestamp": format_ts(self._bus.now_ms()),
        }
        request = JobRequest(
            plugin=target,
            command=command,
            payload={"plugin": plugin, **payload},
            submitted_by="route",
            event=event,
            parent=parent,
            parent_job_id=about["job_id"],
            origin={ALARM: type},
        )
        try:
            self._submission.submit(request)
        except (InvalidInput, NotFound, Refused) as error:
            _alarm_log.error("no alarm of %s: %s", type, error, extra=about)

    def _target(self, plugin: str) -> tuple[str, str]:
        """Return the plugin and command for a plugin's alarms; two empty texts if there is none."""
        if self._config is None:
            return "", ""
        settings = self._config.plugins.get(plugin)
        named = (settings and settings.on_failure) or self._config.service.on_failure or ""
        target, _, command = named.partition(".")
        return target, command or "handle"


def _is_alarm(job: Message | None) -> bool:
    """Whether an alarm started the job of a message."""
    job_header = None if job is None else job.headers.get("job")
    return isinstance(job_header, dict) and ALARM in job_header


_log = logging.getLogger("ackbus.automation.jobs")


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that is over, or goes on with another attempt.

    Attributes:
        message: of the job.
        plugin, command: what it was.
        state: of the job now.
        attempt: the one that has ended.
        error: why it failed, or None.
        status: how this attempt has ended; "" is as the state says.
    """

    message: Message
    plugin: str
    command: str
    state: str
    attempt: int
    error: str | None
    status: str = ""

    @property
    def is_over(self) -> bool:
        """Whether no other attempt follows."""
        return self.state != states.QUEUED


class JobEndings:
    """Stores the ends of jobs for one service; one thread may use it.

    Args:
        bus: the bus.
        token: the fence of the service.
        submission: takes in the jobs that follow.
        breakers: count the ends of scheduled jobs.
        alarms: report failures.
    """

    def __init__(
        self, bus: LocalBus, token: int, submission: Submission, breakers: Breakers, alarms: Alarms
    ) -> None:
        self._bus = bus
        self._token = token
        self._submission = submission
        self._breakers = breakers
        self._alarms = alarms
        engine = engine_of(bus)
        self._fence, self._facts, self._inits = Fence(engine), Facts(engine), Inits(engine)
        self._job_log = JobLog(engine)
        self._router: JobRouter | None = None
        self._in_use: frozenset[str] | None = None
        self._broadcast: frozenset[tuple[str, str]] = frozenset()
        self._logs_retries = False

    def use_config(self, config: Config, router: JobRouter | None) -> None:
        """Use this configuration and its router from now on."""
        self._router = router
        self._logs_retries = config.service.amendments.submitted_by_retry
        self._in_use = frozenset(
            name for name, settings in config.plugins.items() if settings.enabled
        )
        self._broadcast = frozenset(
            (route.source, route.event_type) for route in config.routes if route.broadcast
        )

    def store(self, job: PluginJob, end: RunEnd) -> JobEnd | None:
        """Store the end of an attempt, with all that follows.

        Returns:
            What became of the job; None where the attempt was handed back.

        Raises:
            ServiceFenced: another service has begun; nothing was stored.
            InvalidInput, Refused, NotFound: something that follows can't be stored; nothing was.
            LimitReached: a queue has no room for it; nothing was stored.
            BusBusy: other writers kept the bus for too long; nothing was stored.
        """
        with self._bus.transaction():
            self.check()
            queue = Queue.open(self._bus, job.claim.queue)
            if end.outcome is None:
                return self._broken_off(queue, job, end)
            return self._ended(queue, job, end, self._last_if_removed(job, end.outcome))

    def check(self) -> None:
        """Refuse the writes of a service that was replaced; call it in the transaction to guard.

        Raises:
            ServiceFenced: another service has begun.
        """
        self._fence.check(self._token)

    def follow_up(self, end: JobEnd, events: Sequence[EventOut], result: Any) -> None:
        """Do what follows from a job that is over; in the transaction that ends it."""
        self.conclude(end, result)
        self.route(end, events, result)

    def conclude(self, end: JobEnd, result: Any) -> None:
        """Log how a job has ended, count it for its breaker, and raise an alarm if it failed."""
        ok = end.state == states.SUCCEEDED
        self._bus.log.append([ended_draft(end, result)])
        asked_by = submitted_by(end.message)
        payload = {"job_id": end.message.id, "command": end.command, "error": end.error}
        if self._breakers.note(end.plugin, end.command, ok, end.message.id, asked_by):
            self._alarms.tell(BREAKER_OPENED, end.plugin, payload, parent=end.message)
        if end.state in states.ENDED_BADLY:
            self._alarms.tell(
                JOB_DEAD, end.plugin, {**payload, "attempts": end.attempt}, parent=end.message
            )

    def route(self, end: JobEnd, events: Sequence[EventOut], result: Any) -> None:
        """Submit the jobs that follow from one that is over; in the transaction that ends it."""
        if self._router is not None:
            for request in self._router.successors(end, events, result):
                self._submission.submit(request)

    def log_attempt(
        self, end: JobEnd, token: int, status: str, stdout: str | None, stderr: str | None
    ) -> None:
        """Log an attempt that has ended, by the token of its claim."""
        is_retry = self._logs_retries and end.attempt > 1
        self._job_log.add(
            AttemptEnd(
                message=end.message,
                plugin=end.plugin,
                command=end.command,
                status=status,
                attempt=end.attempt,
                token=token,
                stdout=stdout,
                stderr=stderr,
                error=end.error,
                submitted_by=RETRY if is_retry else None,
            )
        )

    def _last_if_removed(self, job: PluginJob, outcome: Outcome) -> Outcome:
        """Return an outcome; after a failure nothing tries a job again whose plugin was removed."""
        is_removed = self._in_use is not None and job.plugin.name not in self._in_use
        if not is_removed or outcome.error is None:
            return outcome
        return replace(outcome, error=f"{outcome.error}; {REMOVED}", retry=False)

    def _ended(self, queue: Queue, job: PluginJob, end: RunEnd, outcome: Outcome) -> JobEnd:
        drafts = [self._event(job, event) for event in end.events]
        ((receipts, error),) = queue.end_many([(job.claim, outcome, drafts)])
        if isinstance(error, ClaimLost):
            return self._cancelled(queue, job, end)
        if error is not None:
            outcome = replace(outcome, status=states.FAILED, error=str(error), retry=False)
        ok = error is None and is_success(end)
        status = states.SUCCEEDED if ok else outcome.status
        ended = self._job_end(job, self._state(queue, job, outcome, ok), outcome.error, status)
        events = [event_out(self._bus.log.at(receipt.seq)) for receipt in receipts]  # type: ignore[arg-type]  # just stored
        if ok and (end.state_updates or end.replaces_state):
            self._keep(job, end.state_updates or {}, replaces=end.replaces_state)
        if job.command == "init":
            self._inits.note(job.plugin.name, job.plugin.fingerprint, outcome.error)
        self.log_attempt(ended, job.claim.token, status, end.stdout, end.stderr)
        if ended.is_over:
            self.follow_up(ended, events, outcome.result if ok else outcome.error)
        return ended

    def _state(self, queue: Queue, job: PluginJob, outcome: Outcome, ok: bool) -> str:
        if ok:
            return states.SUCCEEDED
        is_queued = is_tried_again(queue.info.policy, job.claim, outcome)
        return states.QUEUED if is_queued else states.DEAD

    def _event(self, job: PluginJob, event: Any) -> Any:
        is_broadcast = (job.plugin.name, event["type"]) in self._broadcast
        return event_draft(job.plugin.name, job.message, event, broadcast=is_broadcast)

    def _keep(self, job: PluginJob, updates: Any, *, replaces: bool) -> None:
        """Record the state that a plugin reported, as its manifest says."""
        name, rules = job.plugin.name, job.plugin.manifest.fact_outputs
        if not rules:
            (self._facts.replace if replaces else self._facts.merge)(name, updates)
            return
        for rule in rules:
            if rule.command == job.command:
                fact = (name, rule.fact_type, updates, job.message.id, job.command)
                merges = rule.compatibility_view == "merge_object" and not replaces
                self._facts.record(*fact, merges=merges)
                return
        _log.warning(
            "state updates of %s were left out: no rule of fact_outputs is for it",
            job.command,
            extra=_about(job),
        )

    def _broken_off(self, queue: Queue, job: PluginJob, end: RunEnd) -> JobEnd | None:
        """Hand back a job that the service stopped; a cancelled job is over."""
        try:
            queue.release(job.claim, end.why)
        except ClaimLost:
            return self._cancelled(queue, job, end)
        self._job_log.drop_output(job.claim.token)
        return None

    def _cancelled(self, queue: Queue, job: PluginJob, end: RunEnd) -> JobEnd:
        """Log an attempt whose job was ended by somebody else meanwhile."""
        stored = queue.jobs.get(job.message.seq)
        ended = self._job_end(job, stored.state, stored.error)
        self.log_attempt(ended, job.claim.token, states.DEAD, end.stdout, end.stderr)
        return ended

    def _job_end(self, job: PluginJob, state: str, error: str | None, status: str = "") -> JobEnd:
        name, attempt = job.plugin.name, job.claim.attempt
        return JobEnd(job.message, name, job.command, state, attempt, error, status)


def _about(job: PluginJob) -> dict[str, str]:
    return {"plugin": job.plugin.name, "job_id": job.message.id}
