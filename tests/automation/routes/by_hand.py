"""Jobs that are claimed and ended one by one, as a test says what each plugin answers.

The queues, the submission, the endings and the router are those of the service, on a real bus; the
one thing that a test takes over is the program of a plugin.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.models import Config
from ackbus.automation.jobs import submission
from ackbus.automation.jobs.endings import Alarms, JobEndings
from ackbus.automation.jobs.plugin_run import PluginJob, RunEnd
from ackbus.automation.jobs.submission import Duplicate, JobRequest, Submission, Submitted
from ackbus.automation.plugins.discovery import discover
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.records.facts import Fence
from ackbus.automation.routes.flow import Contexts
from ackbus.automation.routes.router import Router
from ackbus.schema.message.message import Message
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.claims import Outcome
from ackbus.subscribers.queues.queue_set import QueueSet
from ackbus.workers.processes.own_child import StopSwitch

from ..conftest import Folder

Answer = Callable[[PluginJob], RunEnd]


def event(type: str = "e", payload: object = None, **more: object) -> dict[str, object]:
    return {"type": type, "payload": {} if payload is None else payload, **more}


def success(*events: dict[str, Any], result: str = "done") -> RunEnd:
    return RunEnd(outcome=Outcome(result=result), events=events)


def failure(error: str = "no", *, retry: bool | None = False) -> RunEnd:
    return RunEnd(outcome=Outcome(status="failed", error=error, retry=retry))


def with_plugins(folder: Folder, text: str, names: str = "abcdefgh") -> Folder:
    """Write a configuration whose plugins have these names of one letter."""
    plugins = "".join(f"  {name}: {{}}\n" for name in names)
    folder.write_as("config.yaml", f"plugin_roots: [plugins]\nplugins:\n{plugins}{text}")
    for name in names:
        folder.plugin(name)
    return folder


class ByHand:
    """The part of a service that ends jobs, step by step."""

    def __init__(self, bus: Bus, folder: Folder) -> None:
        self.bus = bus
        snapshot = examine_folder(folder.path, {})
        self.config: Config = snapshot.config
        self.plugins = discover(self.config).plugins
        for plugin in self.plugins.values():
            submission.follow(bus, plugin, self.config.service)
        self.submission = Submission(bus)
        engine = engine_of(bus)
        token = Fence(engine).begin(self.config.directory, self.config.hash)
        breakers, alarms = Breakers.of(bus), Alarms(bus, self.submission)
        self.endings = JobEndings(bus, token, self.submission, breakers, alarms)
        self.router = Router(bus, self.config, self.plugins)
        self.endings.use_config(self.config, self.router)
        self.contexts = Contexts.of(bus)
        self._queues = QueueSet(bus, map(submission.queue_of, self.plugins))

    def submit(self, plugin: str, command: str = "poll", **fields: Any) -> str:
        given: dict[str, Any] = {"submitted_by": "scheduler", **fields}
        return self.take_in([JobRequest(plugin=plugin, command=command, **given)])[0]

    def take_in(self, requests: Iterable[JobRequest]) -> list[str]:
        """Submit requests, each of which is taken in; return the ids of their jobs."""
        done = [self.submission.submit(request) for request in requests]
        assert all(isinstance(each, Submitted | Duplicate) for each in done)
        return [each.job_id for each in done]

    def begin(self, pipeline: str, payload: object = None) -> list[str]:
        with self.bus.transaction():
            given = {} if payload is None else payload
            return self.take_in(self.router.begin(pipeline, given, submitted_by="cli"))

    def claim(self) -> PluginJob | None:
        for claim in self._queues.claim("test", group="automation", limit=1):
            name = claim.queue.removeprefix("plugin.")
            context_id = origin(claim.message).get("context_id")
            return PluginJob(
                claim=claim,
                plugin=self.plugins[name],
                command=claim.message.type.removeprefix(claim.queue + "."),
                state={},
                context=self.contexts.values(context_id),
                started_at_ms=claim.claimed_at_ms,
                bus_dir=self.bus.layout.directory,
                passed_through=(),
                amendments=self.config.service.amendments,
                stop=StopSwitch(),
            )
        return None

    def step(self, answer: Answer) -> PluginJob | None:
        """Run the next job; one with a fault fails with it."""
        job = self.claim()
        if job is not None:
            end = failure(job.fault) if job.fault else answer(job)
            self.endings.store(job, end)
        return job

    def run(self, answer: Answer, limit: int = 1000) -> list[PluginJob]:
        """Run all jobs until none waits; return them in the order in which they ran."""
        ran: list[PluginJob] = []
        while (job := self.step(answer)) is not None:
            ran.append(job)
            assert len(ran) <= limit
        return ran


def answers(**by_plugin: RunEnd) -> Answer:
    """Answer for each plugin the same; others succeed without an event."""
    return lambda job: by_plugin.get(job.plugin.name, success())


def origin(message: Message) -> dict[str, Any]:
    found = message.headers.get("job", {})
    assert isinstance(found, dict)
    return found


def names(jobs: Iterable[PluginJob]) -> list[str]:
    return [f"{job.plugin.name}.{job.command}" for job in jobs]
