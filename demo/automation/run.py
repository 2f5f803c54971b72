"""One run of the demo, from the empty folder to the proof."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from ...automation.places import bus_of
from ...automation.records.breakers import CLOSED, OPEN, Breakers
from ...automation.webhooks.deliveries import Deliveries
from ...automation.webhooks.signatures import BadSignature, sign, verify
from ...export.jsonl.exporter import Exporter
from ..stage import fresh_folder, named_place
from . import folder as of
from .jumping_service import JumpingService
from .proof import jobs_of, read_proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...automation.config.webhooks import WebhookEndpoint
    from ..stage import Progress, Say
    from .proof import AutomationProof

#: The ids of the delivery that comes twice, and of the forged one.
_DELIVERY, _FORGED = "delivery-1", "delivery-2"


@dataclass(frozen=True, slots=True)
class AutomationRun:
    """A run that came to its end.

    Attributes:
        directory: the bus, which stays.
        folder: the configuration, which stays too.
        took_s: how long it took, in seconds.
        went_by_s: the seconds that went by on the clock of the service.
        proof: what the log proves.
        first_step: the message of the pipeline's first job.
    """

    directory: str
    folder: str
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
    named = named_place(directory)
    began = time.monotonic()
    folder = Path(fresh_folder(), "automation")
    of.make_folder(folder)
    where = named or bus_of(folder)
    say(f"the configuration is in {folder}, the bus in {where}; both stay there")
    with JumpingService(folder, where) as service, progress("automating", len(_ACTS)) as move:
        for number, act in enumerate(_ACTS, 1):
            say(act(service, folder))
            move(number)
        Exporter(service.bus).export_once()
        proof = read_proof(service.bus)
        (first, *_) = jobs_of(service.bus, of.STEPS[0])
        went_by_s = service.ahead_s
    took_s = time.monotonic() - began
    return AutomationRun(where, str(folder), took_s, went_by_s, proof, first.seq)


def _schedule(service: JumpingService, folder: Path) -> str:
    """Wait for what is due at the start: the gauge fans out, and the pump fails."""
    service.wait(partial(_has_ended, service, of.GAUGE, 1), "the gauge reads the level")
    for target in of.TARGETS:
        service.wait(partial(_has_ended, service, target, 1), f"{target} hears of it")
    service.wait(partial(_has_ended, service, of.PUMP, 1), "the pump is tried")
    return f"{of.GAUGE} was due, and two routes handed on its event"


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
    service.wait(lambda: _has_ended(service, of.STEPS[0], 1), "the pipeline begins")
    return f"a signed webhook was {first}, its repetition {again}, and a forged one {forged}"


def _retry(service: JumpingService, folder: Path) -> str:
    """Wait for the failure of a step, and go on to its next attempt."""
    service.wait(partial(_waits, service, of.SHAKY), f"the step {of.SHAKY} fails")
    service.jump(2 * of.PAUSE_S)
    service.wait(partial(_has_ended, service, of.STEPS[-1], 1), "the pipeline ends")
    return f"the step {of.SHAKY} failed, was tried again, and the pipeline went on to its end"


def _open(service: JumpingService, folder: Path) -> str:
    """Go from one time of the pump to the next, until its breaker opens."""
    for _ in range(of.THRESHOLD - 1):
        service.next_time_of(of.PUMP)
    service.wait(lambda: _breaker(service) == OPEN, "the breaker opens")
    return f"{of.PUMP} failed {of.THRESHOLD} times in a row, and its breaker opened"


def _close(service: JumpingService, folder: Path) -> str:
    """Mend the pump, and go on until the rest of its breaker is over."""
    (folder / of.MENDED).touch()
    for _ in range(of.REST_MIN // of.PUMP_MIN + 1):
        service.next_time_of(of.PUMP)
    service.wait(lambda: _breaker(service) == CLOSED, "the breaker closes")
    return f"{of.REST_MIN} minutes of rest went by, one job tried {of.PUMP}, its breaker closed"


def _again(service: JumpingService, folder: Path) -> str:
    """Go to the end of the first hour: the gauge is due again."""
    service.next_time_of(of.GAUGE)
    for target in of.TARGETS:
        service.wait(partial(_has_ended, service, target, 2), f"{target} hears of it")
    service.wait(lambda: not service.has_live_jobs(of.PUMP), "the pump ends")
    return f"an hour was over: {of.GAUGE} was due again"


#: The acts of the demo, in order: each has something happen, waits for it, and says what it was.
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
    return Breakers.of(service.bus).get(of.PUMP, "poll").state


def _deliver(
    service: JumpingService, endpoint: WebhookEndpoint, sent: Mapping[str, str], body: bytes
) -> str:
    """Deliver a request as the listener does, and return what became of it."""
    headers = {name.lower(): value for name, value in sent.items()}
    try:
        signed = verify(endpoint, headers, body, service.bus.now_ms() / 1000)
    except BadSignature:
        return "refused"
    deliveries = Deliveries(service.bus, service.config, service.plugins)
    taken = deliveries.take(endpoint, headers, body, signed)
    return "known" if taken.is_repeated else "taken"
