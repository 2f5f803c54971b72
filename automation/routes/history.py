"""History through another configuration: which jobs would have followed each event, and which did.

Nothing is stored, and nothing runs. Each event is looked at by itself: what the jobs that did not
run would have published, nobody knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.jobs import SUCCEEDED, Jobs
from ...subscribers.queues.queues import Queues
from ..config.flows import SWITCH
from ..jobs.endings import JobEnd
from ..jobs.events import EVENT, event_out
from ..jobs.plugin_run import FAULT
from ..jobs.submission import PREFIX
from .sources import STEP_SUCCEEDED, origin_of
from .tree import RunJob, is_job, plugin_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from .flow import Planned
    from .router import Router

    Target = tuple[str, str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Replayed:
    """An event of the log, or a step that has published none, with the jobs that follow from it.

    Attributes:
        message: of the event; of the job of a silent step.
        source: the plugin.
        event_type: its exact type.
        would: the jobs by the configuration: plugin, command, pipeline and step.
        did: the jobs that followed when it happened.
        faults: why jobs of `would` would fail before they begin.
    """

    message: Message
    source: str
    event_type: str
    would: tuple[Target, ...]
    did: tuple[Target, ...]
    faults: tuple[str, ...] = ()

    @property
    def added(self) -> list[Target]:
        """The jobs that did not follow then, and would now."""
        return list((Counter(self.would) - Counter(self.did)).elements())

    @property
    def dropped(self) -> list[Target]:
        """The jobs that followed then, and would not now."""
        return list((Counter(self.did) - Counter(self.would)).elements())

    def record(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "seq": self.message.seq,
            "id": self.message.id,
            "source": self.source,
            "event_type": self.event_type,
            "would": [_shown(each) for each in self.would],
            "did": [_shown(each) for each in self.did],
            "added": [_shown(each) for each in self.added],
            "dropped": [_shown(each) for each in self.dropped],
            "faults": list(self.faults),
        }


def replayed(bus: Bus, router: Router, first_seq: int) -> Iterator[Replayed]:
    """Yield the events from a seq on, in order, as a router would follow them now."""
    happened = _Happened(bus, first_seq)
    for message in bus.read(after_seq=first_seq - 1):
        if message.type == EVENT:
            job = _publisher(bus, message)
            if job is not None and plugin_of(job) != SWITCH:  # that is a part of what led to it
                yield _of_event(router, happened, job, message)
        elif is_job(message) and plugin_of(message) != SWITCH and happened.is_silent_step(message):
            yield _of_silence(router, happened, message)


class _Happened:
    """The jobs that followed each event, and each silent step."""

    def __init__(self, bus: Bus, first_seq: int) -> None:
        self._jobs, self._claims, self._queues = Jobs.of(bus), Claims.of(bus), Queues(bus)
        self._after: Mapping[str, list[Message]] = defaultdict(list)
        self._events: dict[str | None, str] = {}  # the newest of each job
        for message in bus.read(after_seq=first_seq - 1):
            origin = origin_of(message)
            if message.type == EVENT:
                self._events[message.in_reply_to] = message.id
            elif is_job(message) and "again" not in origin:
                before = origin.get("source_event_id") or origin.get("parent_job_id")
                self._after[str(before)].append(message)

    def after(self, message: Message) -> tuple[Target, ...]:
        return tuple(map(_target, self._jobs_after(message.id)))

    def _jobs_after(self, id: str) -> Iterator[Message]:
        """Yield the jobs that followed, those behind a condition too; conditions are none."""
        for job in self._after.get(id, ()):
            if plugin_of(job) == SWITCH:
                yield from self._jobs_after(self._events[job.id])
            else:
                yield job

    def is_silent_step(self, job: Message) -> bool:
        if job.id in self._events or "pipeline" not in origin_of(job):
            return False
        name = PREFIX + RunJob(job, 0, None).plugin
        return [each.state for each in self._jobs.named([(name, job.seq)])] == [SUCCEEDED]

    def result(self, job: Message) -> str | None:
        info = self._queues.get(PREFIX + RunJob(job, 0, None).plugin)
        claims = self._claims.of_job(info, job.seq)
        return claims[-1].result if claims else None


def _of_event(router: Router, happened: _Happened, job: Message, event: Message) -> Replayed:
    out = event_out(event)
    planned = router.after_event(_end(job), out)
    return _replayed(event, event.from_agent, out.type, planned, happened.after(event))


def _of_silence(router: Router, happened: _Happened, job: Message) -> Replayed:
    planned = router.after_silence(_end(job), happened.result(job))
    plugin = _end(job).plugin
    return _replayed(job, plugin, STEP_SUCCEEDED, planned, happened.after(job))


def _replayed(
    message: Message,
    source: str,
    event_type: str,
    planned: list[Planned],
    did: tuple[Target, ...],
) -> Replayed:
    requests = [each.request for each in planned if each.event is None]  # no conditions
    would = tuple(_target_of(each.plugin, each.command, each.origin) for each in requests)
    faults = tuple(each.origin[FAULT] for each in requests if FAULT in each.origin)
    return Replayed(message, source, event_type, would, did, faults)


def _publisher(bus: Bus, event: Message) -> Message | None:
    """Return the job that has published an event; None where that is no event of its plugin."""
    job = None if event.in_reply_to is None else bus.get(event.in_reply_to)
    is_its = job is not None and is_job(job) and RunJob(job, 0, None).plugin == event.from_agent
    return job if is_its else None


def _end(job: Message) -> JobEnd:
    ran = RunJob(job, 0, None)
    return JobEnd(job, ran.plugin, ran.command, SUCCEEDED, 1, None)


def _target(job: Message) -> Target:
    ran = RunJob(job, 0, None)
    return _target_of(ran.plugin, ran.command, origin_of(job))


def _target_of(plugin: str, command: str, origin: Mapping[str, object]) -> Target:
    pipeline, step = origin.get("pipeline"), origin.get("step")
    if not isinstance(pipeline, str) or not isinstance(step, str):
        return plugin, command, None, None
    return plugin, command, pipeline, step


def _shown(target: Target) -> dict[str, str]:
    names = ("plugin", "command", "pipeline", "step")
    return {name: value for name, value in zip(names, target, strict=True) if value is not None}
