"""Submitting jobs: each becomes a message in the queue of its plugin, or is kept out."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field, replace
from typing import Literal

from ...bus import tracing
from ...bus.doorbell import wait_for
from ...schema.errors import NotFound
from ...schema.message.draft import Draft
from ...schema.message.names import MAX_ID_CHARS, did_you_mean
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.errors import QueueMismatch, QueueNotFound
from ...subscribers.jobs.jobs import SUCCEEDED, Jobs
from ...subscribers.jobs.outcomes import HOPS, hops_of
from ...subscribers.jobs.policy import AUTOMATION, work_headers
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queue_set import change_policy
from ...subscribers.queues.queues import Queues
from . import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job
    from ...subscribers.queues.queues import QueueInfo
    from ..config.models import ServiceConfig
    from ..plugins.discovery import Plugin

# Requests for jobs of plugins, and what the queue makes of one.

#: The producers of jobs.
SubmittedBy = Literal["scheduler", "webhook", "route", "cli", "api"]

#: The name under which each of them publishes.
AGENTS: dict[str, str] = {
    "scheduler": "scheduler",
    "webhook": "webhook",
    "route": "router",
    "cli": "cli",
    "api": "api",
}


@dataclass(frozen=True, slots=True)
class ConditionAnswer:
    """The answer of a condition: whether it holds, and the id of the event that says so."""

    holds: bool
    event_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A request for a job.

    Attributes:
        plugin, command: what is to run.
        payload: any JSON value.
        submitted_by: the producer of the job.
        dedupe_key: what the job is about; jobs of one key, plugin and command run one by one.
        dedupe_ttl_s: for how long a success keeps it out, instead of the service's own; such a
            request is kept out by a job that waits or runs, too.
        event: of a `handle`: type, source, timestamp, event_id and dedupe_key of the event.
        context_id: the context of its pipeline.
        parent: the message that it follows: it joins its conversation.
        parent_job_id, source_event_id: where it comes from, by ids.
        origin: `pipeline`, `step`, `schedule`, `nominal`, `alarm`, as far as they apply.
        id: of the job; one that is derived makes a repetition harmless.
        answer: of a condition, which ends its job; None for all other jobs.
        behind: the id of the event of a condition that the job follows: its parent, once stored.
    """

    plugin: str
    command: str
    payload: object = None
    submitted_by: SubmittedBy
    dedupe_key: str | None = None
    dedupe_ttl_s: float | None = None
    event: Mapping[str, object] | None = None
    context_id: str | None = None
    parent: Message | None = None
    parent_job_id: str | None = None
    source_event_id: str | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    id: str | None = None
    answer: ConditionAnswer | None = None
    behind: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was taken in.

    Attributes:
        job_id, seq: of its message.
        queue: where it waits.
    """

    job_id: str
    seq: int
    queue: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A job that was kept out.

    Attributes:
        job_id, seq: of the job that was there.
        dedupe_key: which both have; "" where they have the same id.
    """

    job_id: str
    seq: int
    dedupe_key: str


# Waiting for a job: until no other attempt follows.

#: Re-check interval, in seconds: a job's end does not always ring the doorbell.
_RECHECK_S = 0.1


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """A job as a caller sees it.

    Attributes:
        job_id, seq: of its message.
        state: `queued`, `running`, `succeeded`, `dead` or `cancelled`.
        attempt: the attempt that is next, runs, or was the last.
        result: what its plugin said of it in the end, or None.
        error: why its last attempt failed, or None.
    """

    job_id: str
    seq: int
    state: str
    attempt: int
    result: str | None
    error: str | None


def outcome_of(bus: LocalBus, done: Submitted, timeout_s: float | None = None) -> JobOutcome:
    """Wait until a job is over or the timeout has passed, and return the outcome."""
    job = wait_for_job(bus, done.seq, done.queue, timeout_s)
    claims = Claims.of(bus).of_job(Queues(bus).get(done.queue), done.seq)
    result = claims[-1].result if claims and job.state == SUCCEEDED else None
    return JobOutcome(done.job_id, done.seq, job.state, job.attempt, result, job.error)


def job_of(bus: LocalBus, seq: int, queue: str) -> Job:
    """Return the job of a message in a queue."""
    return next(job for job in Jobs.of(bus).of_message(seq) if job.queue == queue)


def wait_for_job(bus: LocalBus, seq: int, queue: str, timeout_s: float | None = None) -> Job:
    """Wait until a job is over or the timeout has passed, and return the job.

    Args:
        bus: the bus.
        seq: of its message.
        queue: where it is.
        timeout_s: how long to wait, in seconds; None waits as long as it takes.
    """
    return wait_for(
        bus,
        lambda: job_of(bus, seq, queue),
        lambda job: job.ended_at_ms is not None,
        timeout_s=timeout_s,
        recheck_s=_RECHECK_S,
    )


#: The queue of a plugin is named by this and its name; the types of its jobs begin with it.
PREFIX = "plugin."

_log = logging.getLogger("ackbus.automation.submission")


class PluginNotFound(NotFound):
    """There is no plugin of this name, or it is not in use."""


class Submission:
    """Submits jobs to the queues of their plugins. For use by one thread."""

    def __init__(self, bus: LocalBus) -> None:
        self._bus = bus
        self._jobs = Jobs.of(bus)

    def submit(self, request: JobRequest) -> Submitted | Duplicate:
        """Take a job in, unless it is a duplicate; in the caller's transaction, or one of its own.

        Raises:
            PluginNotFound: the plugin has no queue.
            InvalidInput: a field breaks a rule; nothing was stored.
            LimitReached: the queue is full; nothing was stored.
        """
        key = stored_key(request.command, request.dedupe_key)
        with self._bus.transaction():
            if request.behind is not None:
                request = replace(request, parent=self._bus.get(request.behind))
            if request.answer is not None:
                return self._answered(request, request.answer)
            queue = self._queue(request.plugin)
            queue.fill()
            there = self._original(queue, key, request.dedupe_ttl_s)
            if there is not None:
                return there
            (receipt,) = self._bus.log.append([_draft(request, key)])
            if receipt.duplicate:
                return Duplicate(receipt.id, receipt.seq, "")
            queue.take_in([receipt.seq])
        return Submitted(receipt.id, receipt.seq, queue.name)

    def _answered(self, request: JobRequest, answer: ConditionAnswer) -> Submitted | Duplicate:
        """Store a condition with its answer: its job, which is over by that, and its event."""
        draft = _draft(request, None)
        (receipt,) = self._bus.log.append([draft])
        if receipt.duplicate:
            return Duplicate(receipt.id, receipt.seq, "")
        job = self._bus.get(receipt.seq)
        assert job is not None
        queue = events.record(self._bus, job, answer, request.dedupe_key)
        return Submitted(receipt.id, receipt.seq, queue)

    def outstanding(self, plugin: str, command: str, *, submitted_by: str | None = None) -> int:
        """Return how many jobs of a command wait or run.

        Args:
            plugin, command: what they are of.
            submitted_by: count those of one producer alone; None counts all.
        """
        queue = self._queue(plugin)
        queue.fill()
        agent = None if submitted_by is None else AGENTS[submitted_by]
        return self._jobs.count_live(queue.info, f"{queue.name}.{command}", agent)

    def _queue(self, plugin: str) -> Queue:
        """Open the queue of a plugin; one that was opened before may be gone, or another."""
        try:
            return Queue.open(self._bus, PREFIX + plugin)
        except QueueNotFound:
            queues = (info.name for info in Queues(self._bus).list())
            used = [name.removeprefix(PREFIX) for name in queues if name.startswith(PREFIX)]
            hint = did_you_mean(plugin, used)
            raise PluginNotFound(
                f"there is no plugin {plugin!r} in use{hint}; see 'bus plugin list'"
            ) from None

    def _original(self, queue: Queue, key: str | None, ttl_s: float | None) -> Duplicate | None:
        """Return the earlier job of which one with this dedupe key is a duplicate, or None."""
        if key is None:
            return None
        window_ms = None if ttl_s is None else round(ttl_s * 1000)
        original = self._jobs.original(queue.info, key, self._bus.now_ms(), window_ms)
        if original is None:
            return None
        seq, how = original
        message = self._bus.log.at(seq)
        job_id = str(seq) if message is None else message.id
        plugin = queue.name.removeprefix(PREFIX)
        _log.info(
            "job with dedupe key %s was kept out by job %s, which %s",
            *(key, job_id, how),
            extra={"plugin": plugin, "job_id": job_id},
        )
        return Duplicate(job_id, seq, key)


def stored_key(command: str, key: str | None) -> str | None:
    """Return the dedupe key of a job as its queue has it: of its command, and never too long."""
    if not key:
        return None
    whole = f"{command}:{key}"
    if len(whole) <= MAX_ID_CHARS and whole.isprintable():
        return whole
    return f"{command}:sha256-{hashlib.sha256(key.encode(errors='replace')).hexdigest()}"


def _draft(request: JobRequest, key: str | None) -> Draft:
    return Draft(
        f"{PREFIX}{request.plugin}.{request.command}",
        request.payload,
        from_agent=AGENTS[request.submitted_by],
        to_agent=AUTOMATION,
        id=request.id,
        in_reply_to=None if request.parent is None else request.parent.id,
        headers=_headers(request, key),
    )


def _headers(request: JobRequest, key: str | None) -> dict[str, object]:
    headers: dict[str, object] = {"submitted_by": request.submitted_by}
    job = {
        "parent_job_id": request.parent_job_id,
        "source_event_id": request.source_event_id,
        "context_id": request.context_id,
        **request.origin,
    }
    job_header = {name: value for name, value in job.items() if value is not None}
    if job_header:
        headers["job"] = job_header
    if request.event is not None:
        headers["event"] = dict(request.event)
    if request.parent is None:
        headers |= tracing.current_trace()  # of the request over HTTP that asks for it
    else:
        headers |= tracing.child_trace(request.parent.headers)
        hops = hops_of(request.parent)
        if hops:
            headers[HOPS] = hops
    return headers | work_headers(dedupe_key=key, dedupe_window_s=_window_s(request, key))


def _window_s(request: JobRequest, key: str | None) -> float | None:
    return None if key is None else request.dedupe_ttl_s


# The queues of plugins: one for each, whose policy follows the configuration.

#: The error of jobs whose plugin is not in the configuration any more.
REMOVED = "plugin removed"

_queue_log = logging.getLogger("ackbus.automation.queues")


def queue_of(plugin: str) -> str:
    """Return the name of the queue of a plugin."""
    return PREFIX + plugin


def queues_of_plugins(bus: LocalBus) -> list[QueueInfo]:
    """Return the queues of all plugins, in use or not; others may have names like theirs."""
    return [
        info
        for info in Queues(bus).list()
        if info.name.startswith(PREFIX) and info.policy.addressed == AUTOMATION
    ]


def follow(bus: LocalBus, plugin: Plugin, service: ServiceConfig) -> None:
    """Make the queue of a plugin, or let its policy follow the configuration.

    Raises:
        QueueMismatch: somebody has made a queue of its name for other messages.
    """
    name, rules = queue_of(plugin.name), _rules(plugin, service)
    pattern = f"{name}.*"
    try:
        info = Queues(bus).get(name)
    except QueueNotFound:
        Queue.create(bus, name, pattern, **rules)
        return
    if info.pattern != pattern:
        raise QueueMismatch(
            f"queue {name!r} exists and takes in {info.pattern}, not {pattern}; plugin"
            f" {plugin.name!r} needs its name"
        )
    changed = {rule: value for rule, value in rules.items() if getattr(info.policy, rule) != value}
    if changed:
        change_policy(bus, name, by=AUTOMATION, **changed)


def bury_removed(bus: LocalBus, in_use: Collection[str]) -> int:
    """Make dead letters of the jobs that wait for plugins which are not in use any more.

    Args:
        bus: the bus.
        in_use: the plugins that the configuration has, loaded or not.

    Returns:
        How many there were.
    """
    count = 0
    for info in queues_of_plugins(bus):
        plugin = info.name.removeprefix(PREFIX)
        if plugin not in in_use:
            buried = Queue(bus, info).jobs.bury(REMOVED)
            if buried:
                _queue_log.warning(
                    "%s jobs are dead: %s", buried, REMOVED, extra={"plugin": plugin}
                )
            count += buried
    return count


def _rules(plugin: Plugin, service: ServiceConfig) -> dict[str, Any]:
    retry = plugin.settings.retry
    return {
        "addressed": AUTOMATION,
        "hides": "all",
        "retry": "failures",
        "on_lost": "requeue",
        "ordering": "fifo",
        "max_attempts": retry.max_attempts,
        "backoff_s": round(retry.backoff_base_s, 3),
        "max_running": plugin.parallelism,
        "max_running_per_key": 1,
        "dedupe_window_s": round(service.dedupe_ttl_s, 3),
    }
