"""Findings about an automation: measures, checks, and the watch that reports them.

`checks_of` is the only list of checks: `bus automation status`, the doctor, the metrics, the exit
codes for monitors and the alarms all report its findings.
"""

from __future__ import annotations

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path

from ..schema.directory.lock_holders import LockHolder, holders, kernel_lists_locks
from ..schema.errors import AckbusError
from ..schema.findings import GRADES, bad, examine, ok, warn
from ..schema.message.times import format_ts
from ..subscribers.jobs.jobs import Jobs
from ..subscribers.jobs.policy import AUTOMATION
from .config.values import ConfigFaults
from .jobs.submission import queue_of, queues_of_plugins
from .records.breakers import CLOSED, Breakers
from .records.facts import Activations, Fence, Inits
from .schedules.tables import Decisions, Schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..bus.local_bus import LocalBus
    from ..schema.findings import Check, Finding
    from .jobs.endings import Alarms
    from .records.breakers import Breaker
    from .records.facts import Activation, Init

# Measures of an automation, for its findings and metrics.
#
# They need neither a running service nor the packages that read a configuration.

#: Maximum age of a service's last heartbeat, in seconds; the service beats each minute.
MAX_BEAT_AGE_S = 180.0

#: A schedule that did not fire this many times in a row is starving.
STARVES_AFTER = 5

#: Maximum number of starving schedules that are reported.
MAX_STARVING = 100

#: How many due schedules are counted.
_MAX_DUE = 1_000

#: How long missed times are reported, in milliseconds: a day.
MISSED_FOR_MS = 86_400_000

#: How many of the newest decisions are searched for missed times.
_MAX_WALKED = 10_000

#: The states of jobs in the counts of queues: those that wait, and those that run.
_WAITING, _RUNNING = ("open", "time", "key"), "running"

#: The state of a failed init.
_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StarvingSchedule:
    """A schedule that does not fire when it is due.

    Attributes:
        plugin, id: the schedule.
        kept_back: how many times in a row it was kept from firing.
        last_fired_ms: when it fired last, in epoch milliseconds, or None.
        reason: why it did not fire the last time.
    """

    plugin: str
    id: str
    kept_back: int
    last_fired_ms: int | None
    reason: str

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.plugin}.{self.id} did not fire {self.kept_back} times: {self.reason}"

    def record(self) -> dict[str, object]:
        """Return its JSON object; the time is RFC 3339."""
        last = None if self.last_fired_ms is None else format_ts(self.last_fired_ms)
        return {
            "plugin": self.plugin,
            "id": self.id,
            "kept_back": self.kept_back,
            "last_fired": last,
            "reason": self.reason,
        }


def has_automation(bus: LocalBus) -> bool:
    """Whether a service has ever begun on a bus."""
    return Fence.of(bus).row().token > 0


def running_service(bus: LocalBus) -> LockHolder | int | None:
    """Return the process of the service of a bus, from the holder of the service's lock.

    Where the system does not tell the holder, from the service's own row while its beats are
    recent.
    """
    if kernel_lists_locks():
        return next(iter(holders(bus.layout.automation_lock)), None)
    row, age_s = Fence.of(bus).row(), beat_age_s(bus)
    return row.pid if age_s is not None and age_s < MAX_BEAT_AGE_S else None


def beat_age_s(bus: LocalBus) -> float | None:
    """Return the seconds since the service was last seen; None where it ended by itself."""
    row = Fence.of(bus).row()
    if row.pid is None or row.beat_at_ms is None:
        return None
    return max(0, bus.now_ms() - row.beat_at_ms) / 1000


def due_schedules(bus: LocalBus) -> int:
    """Return how many due schedules have no decision yet, counting up to 1,000."""
    return len(Schedules.of(bus).due(bus.now_ms(), _MAX_DUE))


def due_lag_s(bus: LocalBus) -> float:
    """Return how long the most overdue schedule has been due, in seconds; 0 if none is due."""
    due_ms = Schedules.of(bus).next_due()
    return 0.0 if due_ms is None else max(0, bus.now_ms() - due_ms) / 1000


def missed_times(bus: LocalBus) -> dict[str, int]:
    """Return how many times of each schedule, as PLUGIN.ID, were recorded as missed in a day."""
    since_ms = bus.now_ms() - MISSED_FOR_MS
    return Decisions.of(bus).missed_since(since_ms, _MAX_WALKED)


def starving_schedules(bus: LocalBus) -> list[StarvingSchedule]:
    """Return the schedules that were kept from firing at least `STARVES_AFTER` times in a row.

    Times outside of their days and windows don't count, and a paused schedule doesn't starve. The
    longest starving come first, `MAX_STARVING` at most.
    """
    starving = Schedules.of(bus).starving(STARVES_AFTER, MAX_STARVING)
    return [
        StarvingSchedule(
            schedule.plugin, schedule.id, schedule.kept_back, schedule.last_fired_ms, why
        )
        for schedule, why in starving
    ]


def open_breakers(bus: LocalBus) -> list[Breaker]:
    """Return the circuit breakers that are not closed."""
    return [breaker for breaker in Breakers.of(bus).states() if breaker.state != CLOSED]


def failed_inits(bus: LocalBus) -> list[Init]:
    """Return the plugins that could not be set up."""
    return [init for init in Inits.of(bus).all().values() if init.state == _FAILED]


def last_activation(bus: LocalBus) -> Activation:
    """Return the outcome of the last activation: plugins left out, or why it was refused."""
    return Activations.of(bus).last()


def hash_in_force(bus: LocalBus) -> str | None:
    """Return the hash of the service's active configuration, or of its last one if it has ended."""
    return Fence.of(bus).row().config_hash


def live_counts(bus: LocalBus) -> dict[str, tuple[int, int]]:
    """Return the numbers of waiting and of running jobs of each plugin that has any."""
    jobs, live = Jobs.of(bus), {}
    for info in queues_of_plugins(bus):
        counts = jobs.counts(info)
        waiting = sum(counts.get(state, 0) for state in _WAITING)
        if waiting or counts.get(_RUNNING):
            live[info.name] = (waiting, counts.get(_RUNNING, 0))
    return live


#: The checks that read the folder of configuration, which takes a second where it is large.
_READ_FILES = frozenset({"orphans", "configuration"})

#: How many names a line has at most.
_SHOWN = 5


def checks_of(bus: LocalBus) -> dict[str, Check]:
    """Return the checks of the automation; none where no service has ever begun."""
    try:
        has_begun = has_automation(bus)
    except (AckbusError, TypeError):  # the checks say what is wrong
        has_begun = True
    if not has_begun:
        return {}
    return {
        "service": lambda: _service(bus),
        "orphans": lambda: _orphans(bus),
        "missed times": lambda: _missed(bus),
        "schedules": lambda: _schedules(bus),
        "breakers": lambda: _breakers(bus),
        "inits": lambda: _inits(bus),
        "plugins": lambda: _left_out(bus),
        "configuration": lambda: _configuration(bus),
    }


def findings(bus: LocalBus, *, files: bool = True) -> Iterator[Finding]:
    """Yield the finding of each check; without `files` only of those that read just the bus."""
    checks = checks_of(bus)
    yield from examine(
        {name: check for name, check in checks.items() if files or name not in _READ_FILES}
    )


def _service(bus: LocalBus) -> Finding:
    """Look for a service, and for what waits for one."""
    service, start = running_service(bus), f"'bus automation start{_config(bus)}'"
    due, lag_s = due_schedules(bus), due_lag_s(bus)
    if service is None:
        waiting = sum(count for count, _ in live_counts(bus).values())
        if due or waiting:
            return warn(
                f"none runs; schedules that are due: {due}, jobs that wait: {waiting}", start
            )
        return ok("none runs, and nothing waits for one")
    if isinstance(service, LockHolder) and service.is_stopped:
        return warn(str(service), f"let it go on: 'kill -CONT {service.pid}'")
    process = str(service) if isinstance(service, LockHolder) else f"process {service}"
    age_s = beat_age_s(bus)
    if age_s is None or age_s > MAX_BEAT_AGE_S or lag_s > MAX_BEAT_AGE_S:
        return bad(
            f"{process} does not get on: schedules that are due: {due}, for {lag_s:.0f} s",
            f"see its log; 'bus automation stop --now{_config(bus)}', then {start}",
        )
    return ok(f"{process} runs")


def _orphans(bus: LocalBus) -> Finding:
    """Look for jobs that run without a service, and jobs whose plugin is not in use."""
    counts = live_counts(bus)
    running = {name: run for name, (_, run) in counts.items() if run}
    if running and running_service(bus) is None:
        return warn(
            f"jobs that ran when the service ended: {_listed(running)}",
            "the next start of the service decides about them",
        )
    plugins = _plugins(bus)
    queues = counts.keys() if plugins is None else {queue_of(name) for name in plugins}
    lost = {name: wait for name, (wait, _) in counts.items() if wait and name not in queues}
    if lost:
        return warn(
            f"jobs of plugins that the configuration does not run: {_listed(lost)}",
            "enable the plugins, or 'bus automation reload', which ends the jobs",
        )
    return ok("none")


def _missed(bus: LocalBus) -> Finding:
    missed = missed_times(bus)
    if not missed:
        return ok("none in the last 24 hours")
    history = f"'bus schedule history {shlex.quote(min(missed))}{_config(bus)}'"
    advice = f"see {history}; 'bus schedule backfill' begins them late"
    return warn(f"in the last 24 hours: {_listed(missed)}", advice)


def _schedules(bus: LocalBus) -> Finding:
    """Look for schedules that do not fire when they are due."""
    starving = starving_schedules(bus)
    if not starving:
        return ok("none starves")
    name = f"{starving[0].plugin}.{starving[0].id}"
    return warn(_first(map(str, starving)), f"see 'bus schedule history {name}{_config(bus)}'")


def _breakers(bus: LocalBus) -> Finding:
    shut = open_breakers(bus)
    if not shut:
        return ok("all are closed")
    failures = {f"{breaker.plugin} {breaker.command}": breaker.failure_count for breaker in shut}
    advice = f"see why by 'bus automation logs {shut[0].plugin}'; 'bus automation reset' closes one"
    return warn(f"not closed, after failures: {_listed(failures)}", advice)


def _inits(bus: LocalBus) -> Finding:
    failed = failed_inits(bus)
    if not failed:
        return ok("none has failed")
    reasons = (f"{init.plugin}: {init.error or 'no reason'}" for init in failed)
    return warn(_first(reasons), "mend it, then 'bus automation reload' tries again")


def _left_out(bus: LocalBus) -> Finding:
    left_out = last_activation(bus).left_out
    if not left_out:
        return ok("all that are configured are loaded")
    reasons = (f"{name}: {why}" for name, why in sorted(left_out.items()))
    return warn(
        f"configured and not loaded: {_first(reasons)}",
        f"see 'bus config check{_config(bus, '')}', then 'bus automation reload{_config(bus)}'",
    )


def _configuration(bus: LocalBus) -> Finding:
    """Compare the configuration of the service with its seal."""
    if refused := last_activation(bus).refused:
        return warn(
            f"the last reload was refused, and the one before is in force: {refused}",
            f"mend it, then 'bus automation reload{_config(bus)}'",
        )
    directory = Fence.of(bus).row().directory
    if directory is None:
        return ok("no service has taken one")
    try:
        from .active_config import from_seal
        from .config.sources import read_seal
    except ImportError:
        return ok("it can't be read here: pip install 'ackbus[automation]'")
    try:
        changes = from_seal(Path(directory))
        is_sealed = bool(read_seal(Path(directory))[0])
    except ConfigFaults as error:
        return warn(str(error), f"'bus config check {directory}'")
    if not is_sealed:
        return warn(f"{directory} was never sealed", f"'bus config lock {directory}' seals it")
    if changes:
        files = (f"{change.file} ({change.state})" for change in changes)
        return warn(
            f"not as it was sealed: {_first(files, ', ')}",
            f"see 'bus config diff {directory}'; 'bus config lock {directory}' seals it as it is",
        )
    return ok(f"{directory} is as it was sealed")


def _plugins(bus: LocalBus) -> set[str] | None:
    """Return the plugins that the configuration names; None where it can't be read here."""
    directory = Fence.of(bus).row().directory
    try:
        from .service_lock import plugins_of
    except ImportError:
        return None
    try:
        return None if directory is None else plugins_of(Path(directory))
    except ConfigFaults:
        return None


def _config(bus: LocalBus, option: str = "--config ") -> str:
    directory = Fence.of(bus).row().directory
    return "" if directory is None else f" {option}{shlex.quote(directory)}"


def _listed(counts: dict[str, int]) -> str:
    return _first((f"{count} of {name}" for name, count in sorted(counts.items())), ", ")


def _first(texts: Iterable[str], separator: str = "; ") -> str:
    """Return as many texts as a line has, and how many more there are."""
    shown = list(texts)
    rest = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return separator.join([*shown[:_SHOWN], *rest])


# The watch of a service: reports each new finding once.

#: The type of the event that the plugin of `on_failure` handles.
FOUND = "ductile.service.finding"

#: Checks that the watch does not report: a service can't notice that it hangs itself, and missed
#: times and breakers raise their own alarms.
_TOLD_OTHERWISE = frozenset({"service", "missed times", "breakers"})

_log = logging.getLogger("ackbus.automation.attention")


class Watch:
    """Reports each finding that has become worse since the last step.

    Args:
        bus: the bus.
        alarms: tells the plugin that `on_failure` names.
        check: raises where another service has begun; in the transaction of the alarm.
    """

    def __init__(self, bus: LocalBus, alarms: Alarms, check: Callable[[], object]) -> None:
        self._bus = bus
        self._alarms = alarms
        self._check = check
        self._grades: dict[str, int] = {}

    def step(self) -> None:
        """Look once; a few index walks where all is well."""
        for finding in findings(self._bus, files=False):
            before = self._grades.get(finding.check, 0)
            self._grades[finding.check] = GRADES[finding.state]
            if GRADES[finding.state] <= before or finding.check in _TOLD_OTHERWISE:
                continue
            _log.warning("%s: %s; %s", finding.check, finding.text, finding.advice)
            payload = {"check": finding.check, "state": finding.state, "text": finding.text}
            with self._bus.transaction():
                self._check()
                self._alarms.tell(FOUND, AUTOMATION, payload | {"advice": finding.advice})
