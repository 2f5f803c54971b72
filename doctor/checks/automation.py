"""Checks of the automation: its service, what waits for it, and what its operator should see."""

from __future__ import annotations

from pathlib import Path

from ...automation import attention
from ...automation.config.faults import ConfigFaults
from ...automation.jobs.plugin_queues import queue_of
from ...automation.records.fence import Fence
from ...schema.directory.lock_holders import Holder
from ...schema.errors import AckbusError
from ...schema.findings import ok, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...schema.findings import Finding

#: How many names a line has at most.
_SHOWN = 5


def checks_of_automation(bus: Bus) -> dict[str, Callable[[], Finding]]:
    """Return the checks of the automation; none where no service has ever begun."""
    try:
        has_begun = attention.has_automation(bus)
    except (AckbusError, TypeError):  # the checks say what is wrong
        has_begun = True
    if not has_begun:
        return {}
    return {
        "service": lambda: _service(bus),
        "orphans": lambda: _orphans(bus),
        "schedules": lambda: _schedules(bus),
        "breakers": lambda: _breakers(bus),
        "inits": lambda: _inits(bus),
        "configuration": lambda: _configuration(bus),
    }


def _service(bus: Bus) -> Finding:
    """Look for a service, and for what waits for one."""
    found, start = attention.running_service(bus), f"'bus automation start{_config(bus)}'"
    due, lag_s = attention.due_schedules(bus), attention.due_lag_s(bus)
    if found is None:
        waiting = sum(count for count, _ in attention.live_counts(bus).values())
        if due or waiting:
            return warn(
                f"none runs; schedules that are due: {due}, jobs that wait: {waiting}", start
            )
        return ok("none runs, and nothing waits for one")
    if isinstance(found, Holder) and found.is_stopped:
        return warn(str(found), f"let it go on: 'kill -CONT {found.pid}'")
    who = str(found) if isinstance(found, Holder) else f"process {found}"
    age_s = attention.beat_age_s(bus)
    if age_s is None or age_s > attention.MAX_BEAT_AGE_S or lag_s > attention.MAX_BEAT_AGE_S:
        told = f"{who} does not get on: schedules that are due: {due}, for {lag_s:.0f} s"
        return warn(told, f"see its log; 'bus automation stop --now{_config(bus)}', then {start}")
    return ok(f"{who} runs")


def _orphans(bus: Bus) -> Finding:
    """Look for jobs that run without a service, and those that no plugin will do."""
    counts = attention.live_counts(bus)
    running = {name: run for name, (_, run) in counts.items() if run}
    if running and attention.running_service(bus) is None:
        told = f"jobs that ran when the service ended: {_listed(running)}"
        return warn(told, "the next start of the service decides about them")
    plugins = _plugins(bus)
    known = counts.keys() if plugins is None else {queue_of(name) for name in plugins}
    lost = {name: wait for name, (wait, _) in counts.items() if wait and name not in known}
    if lost:
        told = f"jobs of plugins that the configuration does not run: {_listed(lost)}"
        return warn(told, "enable the plugins, or 'bus automation reload', which ends the jobs")
    return ok("none")


def _schedules(bus: Bus) -> Finding:
    """Look for schedules that do not fire when they are due."""
    starving = attention.starving_schedules(bus)
    if not starving:
        return ok("none starves")
    told = "; ".join(str(each) for each in starving[:_SHOWN])
    more = f" (and {len(starving) - _SHOWN} more)" if len(starving) > _SHOWN else ""
    name = f"{starving[0].plugin}.{starving[0].id}"
    return warn(told + more, f"see 'bus schedule history {name}{_config(bus)}'")


def _breakers(bus: Bus) -> Finding:
    shut = attention.shut_breakers(bus)
    if not shut:
        return ok("all are closed")
    told = {f"{each.plugin} {each.command}": each.failure_count for each in shut}
    advice = f"see why by 'bus automation logs {shut[0].plugin}'; 'bus automation reset' closes one"
    return warn(f"not closed, after failures: {_listed(told)}", advice)


def _inits(bus: Bus) -> Finding:
    failed = attention.failed_inits(bus)
    if not failed:
        return ok("none has failed")
    told = "; ".join(f"{each.plugin}: {each.error or 'no reason'}" for each in failed[:_SHOWN])
    return warn(told, "mend it, then 'bus automation reload' tries again")


def _configuration(bus: Bus) -> Finding:
    """Compare the configuration of the service with its seal."""
    directory = Fence.of(bus).row().directory
    if directory is None:
        return ok("no service has taken one")
    try:
        from ...automation.config.files.checksums import read_seal
        from ...automation.differences import from_seal
    except ImportError:
        return ok("it can't be read here: pip install 'ackbus[automation]'")
    try:
        found = from_seal(Path(directory))
        is_sealed = bool(read_seal(Path(directory))[0])
    except ConfigFaults as error:
        return warn(str(error), f"'bus config check {directory}'")
    if not is_sealed:
        return warn(f"{directory} was never sealed", f"'bus config lock {directory}' seals it")
    if found:
        told = ", ".join(f"{each.file} ({each.state})" for each in found[:_SHOWN])
        return warn(
            f"not as it was sealed: {told}",
            f"see 'bus config diff {directory}'; 'bus config lock {directory}' seals it as it is",
        )
    return ok(f"{directory} is as it was sealed")


def _plugins(bus: Bus) -> set[str] | None:
    """Return the plugins that the configuration names; None where it can't be read here."""
    directory = Fence.of(bus).row().directory
    try:
        from ...automation.places import plugins_of
    except ImportError:
        return None
    try:
        return None if directory is None else plugins_of(Path(directory))
    except ConfigFaults:
        return None


def _config(bus: Bus) -> str:
    directory = Fence.of(bus).row().directory
    return "" if directory is None else f" --config {directory}"


def _listed(counts: dict[str, int]) -> str:
    told = [f"{count} of {name}" for name, count in sorted(counts.items())]
    return ", ".join(told[:_SHOWN]) + (", …" if len(told) > _SHOWN else "")
