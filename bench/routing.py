"""How long does it take to find the jobs that follow an event, among 1,000 routes and pipelines?

Three events: one without a route, one with one route, and one that a pipeline of three steps with
`with` and `baggage` follows. Beside it the whole end of a job whose event has one route: its
event, the job that follows and all records of it, in one transaction.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measure import Contender, at_most, compare, options, record, spreads, summary

from ackbus import Bus
from ackbus.automation.config.models import Config, Pipeline, PipelineStep, PluginConfig, Route
from ackbus.automation.config.values import Frozen
from ackbus.automation.jobs.endings import JobEnd
from ackbus.automation.jobs.events import EventOut, event_draft, event_out
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.automation.routes.router import Router
from ackbus.schema.message.message import Message
from ackbus.subscribers.queues.queue import Queue

#: As many as a large configuration has, of each kind.
ROUTES = 1000

#: How many times each event is routed in a round.
TIMES = 200


def configuration(directory: Path, count: int) -> Config:
    """Return a configuration with that many routes and pipelines of 50 plugins."""
    plugins = {name: PluginConfig(name=name, uses=name) for name in (f"p{n}" for n in range(50))}
    routes = tuple(
        Route(source=f"p{n % 50}", event_type=f"event {n}", to=f"p{(n + 1) % 50}")
        for n in range(count)
    )
    steps = (
        PipelineStep(
            uses="p1", with_=Frozen(text="day {payload.day}"), baggage=Frozen(day="payload.day")
        ),
        PipelineStep(uses="p2"),
        PipelineStep(uses="p3"),
    )
    pipelines = tuple(Pipeline(name=f"q{n}", on=f"begin {n}", steps=steps) for n in range(count))
    return Config(directory=directory, plugins=Frozen(plugins), routes=routes, pipelines=pipelines)


class Ended:
    """A job that has ended, with an event of each kind."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        for n in range(50):
            name = f"plugin.p{n}"
            Queue.create(bus, name, f"{name}.*", hides="all", addressed="automation")
        self.job = self._job()

    def event(self, type: str) -> EventOut:
        """Publish an event of the job."""
        draft = event_draft("p0", self.job, {"type": type, "payload": {"day": 1}})
        (receipt,) = self._bus.log.append([draft])
        return event_out(_there(self._bus.get(receipt.seq)))

    def _job(self) -> Message:
        request = JobRequest(plugin="p0", command="poll", submitted_by="cli")
        return _there(self._bus.get(Submission(self._bus).submit(request).seq))


def _there(message: Message | None) -> Message:
    assert message is not None
    return message


def routing(router: Router, job: Message, event: EventOut, follow: int) -> Contender:
    """Finding the jobs that follow an event; seconds for each."""
    end = JobEnd(job, "p0", "poll", "succeeded", 1, None)

    def run() -> float:
        started = time.perf_counter()
        for _ in range(TIMES):
            assert len(router.after_event(end, event)) == follow
        return (time.perf_counter() - started) / TIMES

    return run


def storing(bus: Bus, router: Router, job: Message, publish: Callable[[], EventOut]) -> Contender:
    """Publishing an event and the one job that follows it, in one transaction."""
    end = JobEnd(job, "p0", "poll", "succeeded", 1, None)
    submission = Submission(bus)

    def run() -> float:
        started = time.perf_counter()
        for _ in range(TIMES):
            with bus.transaction():
                for request in router.successors(end, [publish()], "done"):
                    submission.submit(request)
        return (time.perf_counter() - started) / TIMES

    return run


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    count = settings.scaled(ROUTES)
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as scratch:
        config = configuration(Path(scratch), count)
        with Bus.init(Path(scratch, "bus")) as bus:
            ended, router = Ended(bus), Router(bus, config, config.plugins)
            contenders = {
                "no route": routing(router, ended.job, ended.event("none"), 0),
                "one route": routing(router, ended.job, ended.event("event 0"), 1),
                "one pipeline": routing(router, ended.job, ended.event("begin 1"), 1),
                "one route, event and job stored": storing(
                    bus, router, ended.job, lambda: ended.event("event 0")
                ),
            }
            times = compare(contenders, settings.rounds)
    targets = [
        at_most(f"{count} routes, {name}", 0.001, summary(times[name]), "s")
        for name in ("no route", "one route", "one pipeline")
    ]
    record(
        f"an event among {count} routes and pipelines", spreads(times), settings, targets=targets
    )


if __name__ == "__main__":
    main()
