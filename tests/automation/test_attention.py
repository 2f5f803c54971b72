"""Doctor and metrics know the automation: its service, jobs, breakers, inits, configuration."""

import json
import signal
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackbus import Bus, Draft
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.records.facts import Fence
from ackbus.server.monitoring import Metrics

from ..conftest import RunBus, wait_until
from .conftest import Folder
from .running import OK, held, response, running
from .service_process import ServiceProcess
from .test_service import lines, submit

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2, tick_interval: 200ms}
    plugins:
      echo: {enabled: true, schedules: [{every: 1h}]}
      held: {enabled: true}
      break: {enabled: true, retry: {max_attempts: 1}}
"""


def configured(folder: Folder, tmp_path: Path) -> Folder:
    folder.write(config=CONFIG)
    folder.plugin("echo", run=OK)
    folder.plugin("held", run=held(tmp_path / "held"))
    folder.plugin("break", run=response(status="error", error="no"))
    folder.lock()
    return folder


Found = dict[str, tuple[str, str, str]]


def doctor(run_bus: RunBus, directory: object) -> Found:
    """State, text and advice of each check of the automation."""
    done = run_bus("doctor", "--json", "--dir", directory)
    found = {each["check"]: each for each in map(json.loads, done.out.splitlines())}
    return {
        name: (each["state"], each["text"], each["advice"])
        for name in ("service", "orphans", "breakers", "inits", "configuration")
        if (each := found.get(name)) is not None
    }


def not_ok(found: Found) -> dict[str, str]:
    return {name: text for name, (state, text, _) in found.items() if state != "ok"}


def metrics(found: Metrics) -> dict[tuple[str, ...], float]:
    """The metrics of the automation, by name, and by plugin, outcome and command."""
    names = ("plugin", "outcome", "command")
    return {
        (
            sample.name.removeprefix("ackbus_automation_"),
            *(sample.labels[name] for name in names if name in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(found.text().decode())
        for sample in family.samples
        if sample.name.startswith("ackbus_automation_") and not sample.name.endswith("_created")
    }


def test_a_bus_without_automation_has_no_line_of_it(bus: Bus, run_bus: RunBus) -> None:
    assert doctor(run_bus, bus.directory) == {}
    assert metrics(Metrics(bus)) == {}


@pytest.mark.slow
def test_the_doctor_tells_of_a_service_that_was_killed_and_what_waits_for_it(
    run_bus: RunBus, folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        wait_until(lambda: len(list(bus.read(type="plugin.ended"))) == 1)
        well = doctor(run_bus, service.bus_dir)
        assert (not_ok(well), len(well)) == ({}, 5)
        assert f"process {service.process.pid}" in well["service"][1]
        service.process.send_signal(signal.SIGSTOP)
        stopped = doctor(run_bus, service.bus_dir)["service"]
        assert (stopped[0], "which is stopped" in stopped[1]) == ("warn", True)
        service.process.send_signal(signal.SIGCONT)
        submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        service.kill()
        submit(bus, "echo")
        killed = doctor(run_bus, service.bus_dir)
        (tmp_path / "held.go").touch()
        assert killed["service"] == (
            "warn",
            "none runs; schedules that are due: 0, jobs that wait: 1",
            f"'bus automation start --config {folder.path}'",
        )
        assert killed["orphans"][:2] == (
            "warn",
            "jobs that ran when the service ended: 1 of plugin.held",
        )
        service.start_again().ready()
        wait_until(lambda: not_ok(doctor(run_bus, service.bus_dir)) == {})
        assert service.stop() == 0
        assert doctor(run_bus, service.bus_dir)["service"][:2] == (
            "ok",
            "none runs, and nothing waits for one",
        )


@pytest.mark.slow
def test_the_doctor_tells_of_breakers_inits_orphans_and_a_changed_configuration(
    run_bus: RunBus, bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    path = configured(folder, tmp_path).plugin("break", run=response(status="error", error="no"))
    manifest = path / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("poll:", "init: {type: read}\n  poll:"))
    with running(bus, folder.path):
        wait_until(lambda: doctor(run_bus, bus.directory)["inits"][0] == "warn")
        breakers = Breakers.of(bus)
        with bus.transaction():
            for number in range(3):
                breakers.note("break", "poll", False, f"j-{number}", "scheduler")
    folder.write(config=CONFIG.replace("held: {enabled: true}", "held: {enabled: false}"))
    submit(bus, "held")
    told = not_ok(doctor(run_bus, bus.directory))
    assert told["inits"] == "break: no"
    assert told["breakers"] == "not closed, after failures: 3 of break poll"
    assert (
        told["orphans"] == "jobs of plugins that the configuration does not run: 1 of plugin.held"
    )
    config = folder.path / "config.yaml"
    assert told["configuration"] == f"not as it was sealed: {config} (changed)"
    (folder.path / ".checksums").unlink()
    assert "was never sealed" in doctor(run_bus, bus.directory)["configuration"][1]
    config.unlink()
    found = doctor(run_bus, bus.directory)["configuration"]
    assert (found[0], str(config) in found[1]) == ("warn", True)


@pytest.mark.slow
def test_a_schedule_that_nobody_decides_about_is_told(
    run_bus: RunBus, folder: Folder, tmp_path: Path
) -> None:
    folder = configured(folder, tmp_path)
    directory, later = tmp_path / "bus", 2 * 3_600_000
    with Bus.init(directory) as bus, running(bus, folder.path):
        wait_until(lambda: len(list(bus.read(type="plugin.ended"))) == 1)
    with Bus.open(directory, clock=lambda: bus.now_ms() + later) as ahead:
        found = metrics(Metrics(ahead))
        assert found["up",] == 0
        assert 3500 < found["due_lag_seconds",] < 3700


def test_metrics_count_jobs_by_plugin_and_outcome_and_open_breakers(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    told = Metrics(bus)
    with running(bus, folder.path) as service:
        for plugin in ("echo", "break", "break"):
            service.ended(service.submit(plugin))
        breakers = Breakers.of(bus)
        with bus.transaction():
            for number in range(3):
                breakers.note("break", "poll", False, f"j-{number}", "scheduler")
    ends = sum(each.from_agent == "echo" for each in bus.read(type="plugin.ended"))
    bus.log.append([Draft("plugin.ended", {"status": "dead"}, from_agent="somebody")])  # no end
    found = metrics(told)
    assert found["jobs_total", "echo", "succeeded"] == ends > 0
    assert found["jobs_total", "break", "dead"] == 2
    assert ("jobs_total", "somebody", "dead") not in found
    assert (found["open_breakers",], found["breaker_failures", "break", "poll"]) == (1, 3)
    assert (found["due_lag_seconds",], found["failed_inits",]) == (0, 0)


def test_a_path_of_a_configuration_is_shown_without_its_control_characters(
    bus: Bus, run_bus: RunBus
) -> None:
    Fence.of(bus).begin(Path("/nowhere\x1b[31m"), "hash")
    done = run_bus("doctor", "--dir", bus.directory)
    assert r"configuration: /nowhere\x1b[31m" in done.out
    assert "\x1b" not in done.out
