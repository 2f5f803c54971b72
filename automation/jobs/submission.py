"""Submitting jobs: each becomes a message in the queue of its plugin, or is kept out."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from ...bus import tracing
from ...schema.errors import NotFound
from ...schema.message.draft import Draft
from ...schema.message.limits import MAX_ID_CHARS
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.hops import HOPS, hops_of
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.jobs.policy import AUTOMATION
from ...subscribers.jobs.work_headers import work_headers
from ...subscribers.queues.queue import Queue
from . import switches
from .job_request import AGENTS, Duplicate, Submitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from .job_request import Answer, JobRequest

#: The queue of a plugin is named by this and its name; the types of its jobs begin with it.
PREFIX = "plugin."

_log = logging.getLogger("ackbus.automation.submission")


class PluginNotFound(NotFound):
    """There is no plugin of this name, or it is not in use."""


class Submission:
    """The way of all jobs into their queues. One thread may use it."""

    def __init__(self, bus: Bus) -> None:
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
            there = self._there(queue, key, request.dedupe_ttl_s)
            if there is not None:
                return there
            (receipt,) = self._bus.log.append([_draft(request, key)])
            if receipt.duplicate:
                return Duplicate(receipt.id, receipt.seq, "")
            queue.take_in([receipt.seq])
        return Submitted(receipt.id, receipt.seq, queue.name)

    def _answered(self, request: JobRequest, answer: Answer) -> Submitted | Duplicate:
        """Store a condition with its answer: its job, which is over by that, and its event."""
        draft = _draft(request, None)
        (receipt,) = self._bus.log.append([draft])
        if receipt.duplicate:
            return Duplicate(receipt.id, receipt.seq, "")
        job = self._bus.get(receipt.seq)
        assert job is not None
        queue = switches.record(self._bus, job, answer, request.dedupe_key)
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
            raise PluginNotFound(
                f"there is no plugin {plugin!r} in use; see 'bus plugin list'"
            ) from None

    def _there(self, queue: Queue, key: str | None, ttl_s: float | None) -> Duplicate | None:
        """Return the job that keeps another one with its key out, or None."""
        if key is None:
            return None
        window_ms = None if ttl_s is None else round(ttl_s * 1000)
        found = self._jobs.original(queue.info, key, self._bus.now_ms(), window_ms)
        if found is None:
            return None
        seq, how = found
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
    told = {name: value for name, value in job.items() if value is not None}
    if told:
        headers["job"] = told
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
