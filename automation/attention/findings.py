"""The findings about an automation: each check, how things are, and what to do next.

This list is the one place: `bus automation status`, the doctor, the metrics, the exit codes for
monitors and the alarms all tell of what is in it. One more check is one more line of `checks_of`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ...schema.directory.lock_holders import Holder
from ...schema.errors import AckbusError
from ...schema.findings import bad, examine, ok, warn
from ..config.faults import ConfigFaults
from ..jobs.plugin_queues import queue_of
from ..records.fence import Fence
from . import measures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...bus.bus import Bus
    from ...schema.findings import Check, Finding

#: The checks that read the folder of configuration, which takes a second where it is large.
_READ_FILES = frozenset({"orphans", "configuration"})

#: How many names a line has at most.
_SHOWN = 5


def checks_of(bus: Bus) -> dict[str, Check]:
    """Return the checks of the automation; none where no service has ever begun."""
    try:
        has_begun = measures.has_automation(bus)
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


def findings(bus: Bus, *, files: bool = True) -> Iterator[Finding]:
    """Yield the finding of each check; without files only of those that read none but the bus."""
    checks = checks_of(bus)
    yield from examine({n: each for n, each in checks.items() if files or n not in _READ_FILES})


def _service(bus: Bus) -> Finding:
    """Look for a service, and for what waits for one."""
    service, start = measures.running_service(bus), f"'bus automation start{_config(bus)}'"
    due, lag_s = measures.due_schedules(bus), measures.due_lag_s(bus)
    if service is None:
        waiting = sum(count for count, _ in measures.live_counts(bus).values())
        if due or waiting:
            return warn(
                f"none runs; schedules that are due: {due}, jobs that wait: {waiting}", start
            )
        return ok("none runs, and nothing waits for one")
    if isinstance(service, Holder) and service.is_stopped:
        return warn(str(service), f"let it go on: 'kill -CONT {service.pid}'")
    process = str(service) if isinstance(service, Holder) else f"process {service}"
    age_s = measures.beat_age_s(bus)
    if age_s is None or age_s > measures.MAX_BEAT_AGE_S or lag_s > measures.MAX_BEAT_AGE_S:
        return bad(
            f"{process} does not get on: schedules that are due: {due}, for {lag_s:.0f} s",
            f"see its log; 'bus automation stop --now{_config(bus)}', then {start}",
        )
    return ok(f"{process} runs")


def _orphans(bus: Bus) -> Finding:
    """Look for jobs that run without a service, and those that no plugin will do."""
    counts = measures.live_counts(bus)
    running = {name: run for name, (_, run) in counts.items() if run}
    if running and measures.running_service(bus) is None:
        return warn(
            f"jobs that ran when the service ended: {_listed(running)}",
            "the next start of the service decides about them",
        )
    plugins = _plugins(bus)
    known = counts.keys() if plugins is None else {queue_of(name) for name in plugins}
    lost = {name: wait for name, (wait, _) in counts.items() if wait and name not in known}
    if lost:
        return warn(
            f"jobs of plugins that the configuration does not run: {_listed(lost)}",
            "enable the plugins, or 'bus automation reload', which ends the jobs",
        )
    return ok("none")


def _missed(bus: Bus) -> Finding:
    missed = measures.missed_times(bus)
    if not missed:
        return ok("none in the last 24 hours")
    history = f"'bus schedule history {shlex.quote(min(missed))}{_config(bus)}'"
    advice = f"see {history}; 'bus schedule backfill' begins them late"
    return warn(f"in the last 24 hours: {_listed(missed)}", advice)


def _schedules(bus: Bus) -> Finding:
    """Look for schedules that do not fire when they are due."""
    starving = measures.starving_schedules(bus)
    if not starving:
        return ok("none starves")
    name = f"{starving[0].plugin}.{starving[0].id}"
    return warn(_first(map(str, starving)), f"see 'bus schedule history {name}{_config(bus)}'")


def _breakers(bus: Bus) -> Finding:
    shut = measures.shut_breakers(bus)
    if not shut:
        return ok("all are closed")
    failures = {f"{breaker.plugin} {breaker.command}": breaker.failure_count for breaker in shut}
    advice = f"see why by 'bus automation logs {shut[0].plugin}'; 'bus automation reset' closes one"
    return warn(f"not closed, after failures: {_listed(failures)}", advice)


def _inits(bus: Bus) -> Finding:
    failed = measures.failed_inits(bus)
    if not failed:
        return ok("none has failed")
    reasons = (f"{init.plugin}: {init.error or 'no reason'}" for init in failed)
    return warn(_first(reasons), "mend it, then 'bus automation reload' tries again")


def _left_out(bus: Bus) -> Finding:
    left_out = measures.last_taking(bus).left_out
    if not left_out:
        return ok("all that are configured are loaded")
    reasons = (f"{name}: {why}" for name, why in sorted(left_out.items()))
    return warn(
        f"configured and not loaded: {_first(reasons)}",
        f"see 'bus config check{_config(bus, '')}', then 'bus automation reload{_config(bus)}'",
    )


def _configuration(bus: Bus) -> Finding:
    """Compare the configuration of the service with its seal."""
    if refused := measures.last_taking(bus).refused:
        return warn(
            f"the last reload was refused, and the one before is in force: {refused}",
            f"mend it, then 'bus automation reload{_config(bus)}'",
        )
    directory = Fence.of(bus).row().directory
    if directory is None:
        return ok("no service has taken one")
    try:
        from ..config.files.checksums import read_seal
        from ..differences import from_seal
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


def _plugins(bus: Bus) -> set[str] | None:
    """Return the plugins that the configuration names; None where it can't be read here."""
    directory = Fence.of(bus).row().directory
    try:
        from ..places import plugins_of
    except ImportError:
        return None
    try:
        return None if directory is None else plugins_of(Path(directory))
    except ConfigFaults:
        return None


def _config(bus: Bus, option: str = "--config ") -> str:
    directory = Fence.of(bus).row().directory
    return "" if directory is None else f" {option}{shlex.quote(directory)}"


def _listed(counts: dict[str, int]) -> str:
    return _first((f"{count} of {name}" for name, count in sorted(counts.items())), ", ")


def _first(texts: Iterable[str], separator: str = "; ") -> str:
    """Return as many texts as a line has, and how many more there are."""
    shown = list(texts)
    rest = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return separator.join([*shown[:_SHOWN], *rest])
