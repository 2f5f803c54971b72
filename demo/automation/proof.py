"""The proof: counts of the log and the tables after the run, without any memory of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...automation.jobs.events import ENDED, EVENT, EVENT_TYPE
from ...automation.records.breakers import Breakers
from ...automation.schedules.tables import Decisions
from ...subscribers.jobs.claims import COMPLETED, Claims
from ...subscribers.jobs.errors import QueueNotFound
from ...subscribers.jobs.jobs import Jobs
from ...subscribers.queues.queues import Queues
from .folder import ARRIVED, GAUGE, LEVEL, PUMP, SHAKY, STEPS, TARGETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ...subscribers.jobs.jobs import Job

#: How many decisions about a schedule are counted at most.
_MAX_DECISIONS = 1000

#: The states that a breaker which opens and closes goes through.
_CIRCLE = ["closed", "open", "half_open", "closed"]


@dataclass(frozen=True, slots=True)
class AutomationProof:
    """Counts from the log.

    Attributes:
        jobs: how many jobs there were.
        ended_once: how many of them have exactly one message that says how they ended.
        fired: how many times of schedules were fired, each with one job of its own.
        skipped: how many were skipped, and why.
        fanned_out: how many events of the gauge there were, and the jobs of each target.
        webhooks: how many runs began by a webhook; two deliveries came.
        steps: the steps of the pipeline that succeeded, in order.
        attempts: how the attempts at the step that fails at first ended.
        breaker: the states of the breaker of the pump.
    """

    jobs: int
    ended_once: int
    fired: int
    skipped: dict[str, int]
    fanned_out: dict[str, int]
    webhooks: int
    steps: list[str]
    attempts: list[str]
    breaker: list[str]

    @property
    def holds(self) -> bool:
        """Whether everything happened as often as it should."""
        return (
            self.jobs == self.ended_once > 0
            and self.fired > 0
            and len(set(self.fanned_out.values())) == 1
            and self.webhooks == 1
            and tuple(self.steps) == STEPS
            and self.attempts[-1:] == [COMPLETED]
            and len(self.attempts) == 2
            and self.breaker == _CIRCLE
        )


def read_proof(bus: Bus) -> AutomationProof:
    """Count in the log and the tables."""
    messages = list(bus.read())
    jobs = [message for message in messages if _is_job(message)]
    ends = Counter(message.in_reply_to for message in messages if message.type == ENDED)
    events = [m for m in messages if m.type == EVENT and m.headers.get(EVENT_TYPE) == LEVEL]
    decisions = [
        each
        for plugin in (GAUGE, PUMP)
        for each in Decisions.of(bus).about(plugin, "default", limit=_MAX_DECISIONS)
    ]
    by_schedule = {job.id for job in jobs if job.headers["submitted_by"] == "scheduler"}
    fired = [each for each in decisions if each.verdict == "fired" and each.job_id in by_schedule]
    arrived = [m for m in messages if m.type == EVENT and m.headers.get(EVENT_TYPE) == ARRIVED]
    history = Breakers.of(bus).history(PUMP)
    return AutomationProof(
        jobs=len(jobs),
        ended_once=sum(ends[job.id] == 1 for job in jobs),
        fired=len(fired) if len(fired) == len(by_schedule) else 0,
        skipped=dict(Counter(each.reason for each in decisions if each.verdict == "skipped")),
        fanned_out={
            "events": len(events),
            **{target: len(jobs_of(bus, target)) for target in TARGETS},
        },
        webhooks=len(arrived),
        steps=[step for step in STEPS for job in jobs_of(bus, step) if job.state == "succeeded"],
        attempts=[status for job in jobs_of(bus, SHAKY) for status in _attempts(bus, job)],
        breaker=[*(each.from_state or "" for each in history[:1]), *(e.to_state for e in history)],
    )


def jobs_of(bus: Bus, plugin: str) -> list[Job]:
    """Return the jobs of a plugin, in order."""
    jobs = Jobs.of(bus)
    found = (jobs.of_message(each.seq) for each in bus.read(type=f"plugin.{plugin}.*"))
    return [job for of_message in found for job in of_message]


def _is_job(message: Message) -> bool:
    return message.type.startswith("plugin.") and "submitted_by" in message.headers


def _attempts(bus: Bus, job: Job) -> list[str]:
    try:
        queue = Queues(bus).get(job.queue)
    except QueueNotFound:
        return []
    return [claim.status for claim in Claims.of(bus).of_job(queue, job.seq)]
