"""Findings: one list, which status, doctor, metrics, alarms and exit codes for monitors tell of."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackbus import Bus
from ackbus.automation.attention import FOUND, MISSED_FOR_MS, findings
from ackbus.automation.records.facts import Fence
from ackbus.automation.schedules.tables import Decisions
from ackbus.schema.queries import engine_of
from ackbus.server.monitoring import Metrics

from ..conftest import RunBus, wait_until
from .conftest import Folder
from .running import OK, dumping, response, running
from .service_process import ServiceProcess

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2, tick_interval: 200ms, on_failure: tell}
    plugins:
      echo: {enabled: true, schedules: [{id: hourly, every: 1h}]}
      broken: {enabled: true, retry: {max_attempts: 1}}
      tell: {enabled: true}
"""

WITH_INIT = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: broken
    version: 1.0.0
    protocol: 2
    entrypoint: run.sh
    commands: {init: {type: read}, poll: {type: read}}
"""

Line = dict[str, str]


@pytest.fixture
def configured(folder: Folder) -> Folder:
    folder.write(config=CONFIG)
    folder.plugin("echo", run=OK)
    folder.plugin("tell", run=dumping())
    folder.plugin("broken", run=OK)
    folder.lock()
    return folder


@pytest.fixture
def service(configured: Folder) -> Iterator[ServiceProcess]:
    with ServiceProcess(configured.path).ready() as process:
        yield process


def miss(bus: Bus, count: int = 3, *, id: str = "hourly", ago_ms: int = 3_600_000) -> None:
    """Record times of a schedule of `echo` as missed, some time ago."""
    at_ms = bus.now_ms() - ago_ms
    with Bus.open(bus.directory, clock=lambda: at_ms) as then, then.transaction():
        entry = type("Entry", (), {"plugin": "echo", "id": id, "hash": "h"})
        span = (at_ms - count, at_ms, count)
        Decisions(engine_of(then)).add_run(entry, span, "missed", "nobody was there")  # type: ignore[arg-type]


def not_ok(lines: list[Line]) -> dict[str, str]:
    return {each["check"]: each["state"] for each in lines if each["state"] != "ok"}


def status(run_bus: RunBus, service: ServiceProcess) -> tuple[int, dict[str, str]]:
    """The exit code for monitors, and the state of each finding."""
    done = run_bus(
        "automation", "status", "--exit-code", "--json", "--config", service.folder, cwd=Path("/")
    )
    return done.code, not_ok(json.loads(done.out)["findings"])


def doctor(run_bus: RunBus, bus_dir: Path) -> tuple[int, dict[str, str]]:
    done = run_bus("doctor", "--exit-code", "--json", "--dir", bus_dir)
    return done.code, not_ok([*map(json.loads, done.out.splitlines())])


def age_beat(service: ServiceProcess) -> None:
    """Set the last beat of a service back by an hour, as if its loop did not get on."""
    with closing(sqlite3.connect(service.bus_dir / "bus.db")) as database, database:
        database.execute("UPDATE automation_service SET beat_at_ms = beat_at_ms - 3600000")


def attention(bus: Bus) -> dict[str, float]:
    """The metric of each check."""
    return {
        sample.labels["check"]: sample.value
        for family in text_string_to_metric_families(Metrics(bus).text().decode())
        for sample in family.samples
        if sample.name == "ackbus_automation_attention"
    }


@pytest.mark.slow
def test_a_monitor_is_told_well_look_and_broken(run_bus: RunBus, service: ServiceProcess) -> None:
    wait_until(lambda: status(run_bus, service) == (0, {}))
    assert doctor(run_bus, service.bus_dir)[0] == 0
    with service.open() as bus:
        assert set(attention(bus).values()) == {0}
        miss(bus)
        assert status(run_bus, service) == (1, {"missed times": "warn"})
        assert doctor(run_bus, service.bus_dir) == (1, {"missed times": "warn"})
        assert attention(bus)["missed times"] == 1
        shown = service.run("automation", "status").stdout
        assert "missed times: in the last 24 hours: 3 of echo.hourly; see 'bus sch" in shown
    service.process.send_signal(signal.SIGSTOP)
    age_beat(service)
    assert status(run_bus, service)[1]["service"] == "warn"  # that it is stopped explains it
    service.process.send_signal(signal.SIGCONT)
    service.kill()
    code, found = status(run_bus, service)
    assert (code, found) == (2, {"missed times": "warn"})


@pytest.mark.slow
def test_a_loop_that_does_not_get_on_is_broken(run_bus: RunBus, service: ServiceProcess) -> None:
    def is_told() -> bool:
        age_beat(service)  # again, should it beat once more
        return status(run_bus, service) == (2, {"service": "bad"})

    wait_until(is_told)
    assert doctor(run_bus, service.bus_dir) == (2, {"service": "bad"})
    assert service.run("automation", "status").returncode == 0  # it runs
    assert run_bus("doctor", "--dir", service.bus_dir).code == 1
    with service.open() as bus:
        assert attention(bus)["service"] == 2


@pytest.mark.slow
def test_what_is_not_known_has_a_code_of_its_own(
    run_bus: RunBus, configured: Folder, service: ServiceProcess, tmp_path: Path
) -> None:
    config, bus_dir = ("--config", configured.path), service.bus_dir
    asked = ("automation", "status", "--exit-code")
    for words in (
        (*asked, *config, "--nothing"),  # usage
        (*asked, *config, "word"),
        (*asked, *config, "--config"),
        ("automation", "statsu", "--exit-code", *config),
        ("automation", "--exit-code", "status", *config),
        ("automatoin", "status", "--exit-code", *config),
        ("automation", "stop", "--exit-code", *config),
        ("doctor", "--exit-code", "--full", "--nothing"),
        ("doctor", "--exit-code", "--repair", "--dir", bus_dir),
        (*asked, "--config", tmp_path / "missing"),  # no configuration
        (*asked, "--config", tmp_path),
        asked,
        (*asked, *config, "--dir", tmp_path / "missing"),  # no bus
        ("doctor", "--exit-code", "--dir", tmp_path / "missing"),
        (*asked, "--help"),
    ):
        done = run_bus(*words, cwd=Path("/"))
        assert (done.code, bool(done.err)) == (3, words[-1] != "--help"), words
    # Elsewhere these words mean something else, and keep their codes.
    assert run_bus("publish", "--exit-code").code == 2
    assert run_bus("automation", "status", "--nothing").code == 2
    assert status(run_bus, service)[0] == 0


def test_a_missed_time_is_told_for_a_day(bus: Bus) -> None:
    def told() -> str:
        return next(each.text for each in findings(bus) if each.check == "missed times")

    Fence.of(bus).begin(Path("/nowhere"), "hash")
    assert told() == "none in the last 24 hours"
    miss(bus, 7, id="old", ago_ms=MISSED_FOR_MS + 60_000)
    assert told() == "none in the last 24 hours"
    miss(bus, 2, id="new", ago_ms=MISSED_FOR_MS - 60_000)
    miss(bus, 3, id="new")
    miss(bus, id="x; rm -rf ~")
    assert told() == "in the last 24 hours: 5 of echo.new, 3 of echo.x; rm -rf ~"


def test_an_alarm_tells_once_of_a_finding_that_turns_up(
    bus: Bus, folder: Folder, configured: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ackbus.automation.service._BEAT_S", 0.05)
    no = response(status="error", error="no such host", retry=False)
    folder.plugin("broken", WITH_INIT, run=no)

    def alarms() -> list[dict[str, str]]:
        return [
            each.payload
            for each in bus.read(type="plugin.tell.handle")
            if each.headers["event"]["type"] == FOUND  # type: ignore[index]
        ]

    with running(bus, folder.path) as service:
        wait_until(alarms)
        (alarm,) = alarms()
        told = {name: alarm[name] for name in ("check", "state", "text")}
        assert told == {"check": "inits", "state": "warn", "text": "broken: no such host"}
        assert "bus automation reload" in alarm["advice"]
        beats = Fence.of(bus).row().beat_at_ms
        wait_until(lambda: (Fence.of(bus).row().beat_at_ms or 0) > (beats or 0) + 200)
        assert len(alarms()) == 1  # some looks later
        folder.plugin("broken", WITH_INIT, run=OK)
        folder.write(config=CONFIG.replace("broken: {", "broken: {config: {again: 1}, "))
        service.service.reload()
        wait_until(lambda: all(each.state == "ok" for each in findings(bus, files=False)))
        wait_until(lambda: (Fence.of(bus).row().beat_at_ms or 0) > (beats or 0) + 400)
        folder.plugin("broken", WITH_INIT, run=no)
        folder.write(config=CONFIG.replace("broken: {", "broken: {config: {again: 2}, "))
        service.service.reload()
        wait_until(lambda: len(alarms()) == 2)
