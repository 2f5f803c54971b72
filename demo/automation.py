"""The demo of the automation: its folder, one run of it, and the proof."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import orjson

from ..automation.active_config import examine_folder, files_of
from ..automation.config.sources import write_seal
from ..automation.jobs.events import ENDED, EVENT, EVENT_TYPE
from ..automation.log import ServiceLog
from ..automation.records.breakers import CLOSED, OPEN, Breakers
from ..automation.schedules.tables import Decisions, Schedules
from ..automation.service import Service
from ..automation.service_lock import bus_of
from ..automation.webhooks import BadSignature, WebhookDeliveries, sign, verify
from ..bus.doorbell import ring
from ..bus.local_bus import LocalBus
from ..export.jsonl.exporter import Exporter
from ..schema.processes import start_thread
from ..subscribers.jobs.claims import COMPLETED, Claims
from ..subscribers.jobs.errors import QueueNotFound
from ..subscribers.jobs.jobs import Jobs
from ..subscribers.queues.queues import Queues
from .run import TIMEOUT_S, Stage, wait_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from threading import Thread
    from types import TracebackType
    from typing import TextIO

    from ..automation.config.models import WebhookEndpoint
    from ..schema.message.message import Message
    from ..subscribers.jobs.jobs import Job
    from .run import Progress, Say

# The demo's folder of configuration: its plugins, schedules, routes and pipeline.

#: The scheduled plugins, and the targets of the two routes for the gauge's event.
GAUGE, PUMP = "gauge", "pump"
LEVEL = "level.read"
TARGETS = ("alarm", "chart")

#: The pipeline that a webhook begins, and its steps, each a plugin of its name.
PIPELINE, ARRIVED = "delivery", "delivery.arrived"
STEPS = ("unpack", "check", "store")
#: The step whose first attempt fails.
SHAKY = "check"

#: The path that takes the webhook.
HOOK = "/delivery"

#: The file that mends the pump.
MENDED = "mended"

#: How many failures in a row open the breaker of the pump; how long it rests, in minutes.
THRESHOLD, REST_MIN = 3, 25

#: How often the gauge and the pump are due, in minutes.
GAUGE_MIN, PUMP_MIN = 60, 10

#: The first pause before another attempt, in seconds.
PAUSE_S = 30

_CONFIG = f"""\
environment_vars: {{include: [secrets.env]}}
plugin_roots: [plugins]
service: {{max_workers: 2, log_level: debug}}
plugins:
  {GAUGE}:
    schedules: [{{every: {GAUGE_MIN}m}}]
  {PUMP}:
    schedules: [{{every: {PUMP_MIN}m}}]
    retry: {{max_attempts: 1}}
    circuit_breaker: {{threshold: {THRESHOLD}, reset_after: {REST_MIN}m}}
  alarm: {{}}
  chart: {{}}
  unpack: {{}}
  check:
    retry: {{max_attempts: 4, backoff_base: {PAUSE_S}s}}
  store: {{}}
routes:
  - {{from: {GAUGE}, event_type: {LEVEL}, to: alarm}}
  - {{from: {GAUGE}, event_type: {LEVEL}, to: chart}}
pipelines:
  - name: {PIPELINE}
    on: {ARRIVED}
    steps:
      - {{id: unpack, uses: unpack}}
      - {{id: check, uses: check}}
      - {{id: store, uses: store}}
webhooks:
  endpoints:
    - path: {HOOK}
      event_type: {ARRIVED}
      secret_ref: shop
      signature_header: X-Signature
      delivery_id: "header:X-Delivery"
tokens:
  - {{name: shop, key: "${{SHOP}}"}}
"""

_MANIFEST = """\
manifest_spec: ductile.plugin
manifest_version: 1
name: %s
version: 1.0.0
protocol: 2
entrypoint: run.sh
working_directory: plugin
commands:
  poll: {type: read}
  handle: {type: write}
"""

_ANSWER = """#!/bin/sh
cat >/dev/null
%s
"""


def _ok(result: str, events: str = "") -> str:
    return f"""echo '{{"status": "ok", "result": "{result}"{events}}}'"""


def _unless(condition: str, error: str, then: str, otherwise: str = ":") -> str:
    print_error = f"""echo '{{"status": "error", "error": "{error}"}}'"""
    return f"if [ -e {condition} ]; then {then}; else {otherwise}; {print_error}; fi"


_PROGRAMS = {
    GAUGE: _ok("the level is 7", f', "events": [{{"type": "{LEVEL}", "payload": {{"level": 7}}}}]'),
    PUMP: _unless(f"../../{MENDED}", "no pressure", _ok("the pump runs")),
    "alarm": _ok("nobody has to come"),
    "chart": _ok("a point was drawn"),
    "unpack": _ok("three boxes"),
    SHAKY: _unless("tried", "the scales are busy", _ok("the weight is right"), ": >tried"),
    "store": _ok("shelf 4"),
}


def make_folder(folder: Path) -> None:
    """Write the configuration and its plugins, and seal it."""
    for name, program in _PROGRAMS.items():
        plugin = folder / "plugins" / name
        plugin.mkdir(parents=True, mode=0o755)
        (plugin / "manifest.yaml").write_text(_MANIFEST % name)
        (plugin / "run.sh").write_text(_ANSWER % program)
        (plugin / "run.sh").chmod(0o755)
    variables = folder / "secrets.env"
    variables.touch(mode=0o600)
    variables.write_text(f"SHOP={secrets.token_hex(16)}\n")
    (folder / "config.yaml").write_text(_CONFIG)
    write_seal(*files_of(folder))


# The proof: counts of the log and the tables after the run, without any memory of the run.

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
        fired: how many times of schedules fired, each with one job of its own.
        skipped: how many were skipped, and why.
        fanned_out: how many events the gauge sent, and how many jobs each target had.
        webhooks: how many pipeline runs the webhook's two deliveries began.
        steps: the steps of the pipeline that succeeded, in order.
        attempts: how the attempts at the step `SHAKY` ended.
        breaker: the states of the pump's breaker, in order.
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


def read_proof(bus: LocalBus) -> AutomationProof:
    """Count the proof from the log and the tables."""
    messages = list(bus.read())
    jobs = [message for message in messages if _is_job(message)]
    ends = Counter(message.in_reply_to for message in messages if message.type == ENDED)
    events = [m for m in messages if m.type == EVENT and m.headers.get(EVENT_TYPE) == LEVEL]
    decisions = [
        decision
        for plugin in (GAUGE, PUMP)
        for decision in Decisions.of(bus).about(plugin, "default", limit=_MAX_DECISIONS)
    ]
    by_schedule = {job.id for job in jobs if job.headers["submitted_by"] == "scheduler"}
    fired = [
        decision
        for decision in decisions
        if decision.verdict == "fired" and decision.job_id in by_schedule
    ]
    arrived = [m for m in messages if m.type == EVENT and m.headers.get(EVENT_TYPE) == ARRIVED]
    history = Breakers.of(bus).history(PUMP)
    return AutomationProof(
        jobs=len(jobs),
        ended_once=sum(ends[job.id] == 1 for job in jobs),
        fired=len(fired) if len(fired) == len(by_schedule) else 0,
        skipped=dict(
            Counter(decision.reason for decision in decisions if decision.verdict == "skipped")
        ),
        fanned_out={
            "events": len(events),
            **{target: len(jobs_of(bus, target)) for target in TARGETS},
        },
        webhooks=len(arrived),
        steps=[step for step in STEPS for job in jobs_of(bus, step) if job.state == "succeeded"],
        attempts=[status for job in jobs_of(bus, SHAKY) for status in _attempts(bus, job)],
        breaker=[
            *(change.from_state or "" for change in history[:1]),
            *(change.to_state for change in history),
        ],
    )


def jobs_of(bus: LocalBus, plugin: str) -> list[Job]:
    """Return the jobs of a plugin, in order."""
    jobs = Jobs.of(bus)
    job_lists = (jobs.of_message(message.seq) for message in bus.read(type=f"plugin.{plugin}.*"))
    return [job for of_message in job_lists for job in of_message]


def _is_job(message: Message) -> bool:
    return message.type.startswith("plugin.") and "submitted_by" in message.headers


def _attempts(bus: LocalBus, job: Job) -> list[str]:
    try:
        queue = Queues(bus).get(job.queue)
    except QueueNotFound:
        return []
    return [claim.status for claim in Claims.of(bus).of_job(queue, job.seq)]


# The service of the demo in a thread of its own, on a clock that jumps.


@dataclass
class JumpingClock:
    """A clock that follows another one, and can be moved ahead of it."""

    base: Callable[[], int]
    ahead_ms: int = 0

    def __call__(self) -> int:
        """Return the time, in epoch milliseconds."""
        return self.base() + self.ahead_ms

    def jump(self, seconds: float) -> None:
        """Go forward at once."""
        self.ahead_ms += round(seconds * 1000)


@dataclass
class _ServiceState:
    """The state of the service: whether it is ready, and the errors that ended it."""

    is_ready: bool = False
    errors: list[BaseException] = field(default_factory=list)


class JumpingService:
    """A running service; leaving the `with` block ends it.

    Args:
        folder: the folder of its configuration.
        directory: the directory of its bus, which is made.

    Attributes:
        bus: the bus, by the clock of the demo.
        config: the configuration.
        plugins: the names of its plugins.
    """

    def __init__(self, folder: Path, directory: str) -> None:
        self._folder = folder
        self._directory = directory
        self._state = _ServiceState()

    def jump(self, seconds: float) -> None:
        """Move the clock forward; what is due then is done."""
        self._clock.jump(seconds)
        ring(self.bus)

    def next_time_of(self, plugin: str) -> None:
        """Move the clock to the next time of a schedule, and wait until its job has ended."""
        schedules = Schedules.of(self.bus)

        def due_ms() -> int | None:
            schedule = schedules.get(plugin, "default")
            return None if schedule is None else schedule.due_ms

        due = due_ms()
        assert due is not None
        self.jump(max(0, due - self._clock()) / 1000)
        self.wait(lambda: due_ms() != due, f"it is decided about a time of {plugin}")
        self.wait(lambda: not self.has_live_jobs(plugin), f"a job of {plugin} ends")

    def has_live_jobs(self, plugin: str) -> bool:
        """Whether a job of a plugin waits or runs."""
        return any(job.ended_at_ms is None for job in jobs_of(self.bus, plugin))

    def wait(self, is_done: Callable[[], bool], what: str) -> None:
        """Wait until something has happened.

        Raises:
            AckbusError: it does not happen.
        """
        wait_until(is_done, f"{what} (see {self._log_path})", lambda: self._state.errors)

    @property
    def ahead_s(self) -> float:
        """The seconds by which the clock is ahead."""
        return self._clock.ahead_ms / 1000

    @property
    def _log_path(self) -> Path:
        return self._folder / "service.jsonl"

    def __enter__(self) -> JumpingService:
        self._by_the_host = LocalBus.init(self._directory)
        self._clock = JumpingClock(self._by_the_host.now_ms)
        self.bus = LocalBus.open(self._directory, clock=self._clock)
        snapshot = examine_folder(self._folder, {})
        self.config, self.plugins = snapshot.config, tuple(snapshot.plugins)
        self._log_file: TextIO = self._log_path.open("w", encoding="utf-8")
        self._log = ServiceLog(self._log_file)
        self._log.__enter__()
        self._log.use_config(self.config.service)
        self._thread: Thread = start_thread(self._run, "service of the demo")
        self.wait(lambda: self._state.is_ready, "the service begins")
        return self

    def _run(self) -> None:
        def ready() -> None:
            self._state.is_ready = True

        try:
            with LocalBus.open(self._directory, clock=self._clock) as bus:
                self._service = Service(bus, lambda: examine_folder(self._folder, {}))
                self._service.run(ready)
        except BaseException as error:
            self._state.errors.append(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._service.stop()
        if error is not None:
            self._service.stop()  # at once
        self._thread.join(TIMEOUT_S)
        self.bus.close()
        self._by_the_host.close()
        self._log.__exit__()
        self._log_file.close()


#: The ids of the delivery that comes twice, and of the forged one.
_DELIVERY, _FORGED = "delivery-1", "delivery-2"


@dataclass(frozen=True, slots=True)
class AutomationRun:
    """A run that came to its end.

    Attributes:
        directory: the bus, which stays.
        folder: the configuration, which stays too.
        made: the paths that the demo made, to be removed by a person.
        took_s: how long it took, in seconds.
        went_by_s: the seconds that went by on the clock of the service.
        proof: what the log proves.
        first_step: the message of the pipeline's first job.
    """

    directory: str
    folder: str
    made: list[str]
    took_s: float
    went_by_s: float
    proof: AutomationProof
    first_step: int


def run_automation_demo(*, directory: str | None, say: Say, progress: Progress) -> AutomationRun:
    """Run the demo to its end; its configuration and its bus stay on disk.

    Args:
        directory: the directory for the bus; None takes that of the configuration's service.
        say: prints one line about the run.
        progress: shows how much is done.

    Raises:
        Refused: `directory` holds a bus already.
        AckbusError: something that was to happen does not.
    """
    stage = Stage(directory)
    began = time.monotonic()
    folder = Path(stage.fresh_folder(), "automation")
    make_folder(folder)
    where = stage.named or bus_of(folder)
    say(f"the configuration is in {folder}, the bus in {where}; both stay there")
    with JumpingService(folder, where) as service, progress("automating", len(_ACTS)) as move:
        for number, act in enumerate(_ACTS, 1):
            say(act(service, folder))
            move(number)
        Exporter(service.bus).export_once()
        proof = read_proof(service.bus)
        (first, *_) = jobs_of(service.bus, STEPS[0])
        went_by_s = service.ahead_s
    took_s = time.monotonic() - began
    return AutomationRun(where, str(folder), stage.made, took_s, went_by_s, proof, first.seq)


def _schedule(service: JumpingService, folder: Path) -> str:
    """Wait for what is due at the start: the gauge fans out, and the pump fails."""
    service.wait(partial(_has_ended, service, GAUGE, 1), "the gauge reads the level")
    for target in TARGETS:
        service.wait(partial(_has_ended, service, target, 1), f"{target} hears of it")
    service.wait(partial(_has_ended, service, PUMP, 1), "the pump is tried")
    return f"{GAUGE} was due, and two routes handed on its event"


def _webhook(service: JumpingService, folder: Path) -> str:
    """Send a delivery signed, once more, and forged; its pipeline begins once."""
    webhooks = service.config.webhooks
    assert webhooks is not None
    (endpoint,) = webhooks.endpoints
    body = orjson.dumps({"order": 17, "boxes": 3})
    headers = sign(endpoint, body, id=_DELIVERY, now_s=service.bus.now_ms() / 1000)
    first = _deliver(service, endpoint, {**headers, "X-Delivery": _DELIVERY}, body)
    again = _deliver(service, endpoint, {**headers, "X-Delivery": _DELIVERY}, body)
    forged = _deliver(service, endpoint, {**headers, "X-Delivery": _FORGED}, body + b" ")
    service.wait(lambda: _has_ended(service, STEPS[0], 1), "the pipeline begins")
    return f"a signed webhook was {first}, its repetition {again}, and a forged one {forged}"


def _retry(service: JumpingService, folder: Path) -> str:
    """Wait for the failure of a step, and go on to its next attempt."""
    service.wait(partial(_waits, service, SHAKY), f"the step {SHAKY} fails")
    service.jump(2 * PAUSE_S)
    service.wait(partial(_has_ended, service, STEPS[-1], 1), "the pipeline ends")
    return f"the step {SHAKY} failed, was tried again, and the pipeline went on to its end"


def _open(service: JumpingService, folder: Path) -> str:
    """Go from one time of the pump to the next, until its breaker opens."""
    for _ in range(THRESHOLD - 1):
        service.next_time_of(PUMP)
    service.wait(lambda: _breaker(service) == OPEN, "the breaker opens")
    return f"{PUMP} failed {THRESHOLD} times in a row, and its breaker opened"


def _close(service: JumpingService, folder: Path) -> str:
    """Mend the pump, and go on until the rest of its breaker is over."""
    (folder / MENDED).touch()
    for _ in range(REST_MIN // PUMP_MIN + 1):
        service.next_time_of(PUMP)
    service.wait(lambda: _breaker(service) == CLOSED, "the breaker closes")
    return f"{REST_MIN} minutes of rest went by, one job tried {PUMP}, its breaker closed"


def _again(service: JumpingService, folder: Path) -> str:
    """Go to the end of the first hour: the gauge is due again."""
    service.next_time_of(GAUGE)
    for target in TARGETS:
        service.wait(partial(_has_ended, service, target, 2), f"{target} hears of it")
    service.wait(lambda: not service.has_live_jobs(PUMP), "the pump ends")
    return f"an hour was over: {GAUGE} was due again"


#: The acts of the demo, in order: each makes something happen, waits for it, and describes it.
_ACTS: tuple[Callable[[JumpingService, Path], str], ...] = (
    _schedule,
    _webhook,
    _retry,
    _open,
    _close,
    _again,
)


def _has_ended(service: JumpingService, plugin: str, count: int) -> bool:
    return sum(job.ended_at_ms is not None for job in jobs_of(service.bus, plugin)) >= count


def _waits(service: JumpingService, plugin: str) -> bool:
    """Whether a job has failed, and waits for another attempt."""
    return any(job.attempt > 1 and job.ended_at_ms is None for job in jobs_of(service.bus, plugin))


def _breaker(service: JumpingService) -> str:
    return Breakers.of(service.bus).get(PUMP, "poll").state


def _deliver(
    service: JumpingService, endpoint: WebhookEndpoint, sent: Mapping[str, str], body: bytes
) -> str:
    """Deliver a request as the listener does, and return `taken`, `known` or `refused`."""
    headers = {name.lower(): value for name, value in sent.items()}
    try:
        signed = verify(endpoint, headers, body, service.bus.now_ms() / 1000)
    except BadSignature:
        return "refused"
    deliveries = WebhookDeliveries(service.bus, service.config, service.plugins)
    taken = deliveries.take(endpoint, headers, body, signed)
    return "known" if taken.is_repeated else "taken"
