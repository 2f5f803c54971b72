"""bus schedule: coming times, decisions, and acts by hand, beside a real service."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from ..conftest import RunBus, wait_until
from .conftest import StartBus, assert_error

pytestmark = pytest.mark.slow  # starts processes

CONFIG = """
    service: {tick_interval: 100ms}
    plugin_roots: [plugins]
    plugins:
      echo:
        enabled: true
        schedules:
          - {every: 1h}
          - {id: nightly, cron: "30 2 * * *", timezone: Europe/Berlin}
      quiet:
        enabled: true
"""

MANIFEST = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: {name}
    version: 1.0.0
    protocol: 2
    entrypoint: run.sh
    commands:
      poll: {{type: read}}
"""

OK = """#!/bin/sh
cat > /dev/null
echo '{"status": "ok", "result": "done"}'
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "config"
    for name in ("echo", "quiet"):
        plugin = folder / "plugins" / name
        plugin.mkdir(parents=True)
        (plugin / "manifest.yaml").write_text(dedent(MANIFEST).format(name=name))
        (plugin / "run.sh").write_text(OK)
        os.chmod(plugin / "run.sh", 0o755)
    (folder / "config.yaml").write_text(dedent(CONFIG))
    return folder


@pytest.fixture
def service(folder: Path, start_bus: StartBus) -> Iterator[Path]:
    """A service that is ready."""
    process = start_bus("automation", "start", "--config", str(folder))
    lock = folder / "data" / "ductile.lock"
    wait_until(lambda: lock.exists() or process.poll() is not None)
    yield folder
    process.terminate()
    process.wait(timeout=60)


def test_coming_times_have_zone_and_offset(run_bus: RunBus) -> None:
    """Through a change of clocks; one object a line."""
    line = ["schedule", "next", "--cron", "30 2 * * *", "--timezone", "Europe/Berlin"]
    found = run_bus(*line, "--from", "2026-03-28T00:00:00Z", "--count", "2", "--json")
    assert [json.loads(each) for each in found.out.splitlines()] == [
        {"at": "2026-03-28T01:30:00Z", "local": "2026-03-28T02:30:00+01:00"},
        {"at": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00"},
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--cron '61 * * * *'", "minute '61' is not 0 to 59"),
        ("--cron '* * *'", "has 3 fields"),
        ("--every 0s", "--every"),
        ("--every 5m --cron '* * * * *'", "give one of NAME, --cron and --every"),
        ("--every 5m --timezone Mars/Base", "no time zone 'Mars/Base'"),
        ("--every 5m --from yesterday", "'yesterday' is not a time"),
    ],
)
def test_a_wrong_rule_is_one_line(run_bus: RunBus, line: str, said: str) -> None:
    import shlex

    assert_error(run_bus("schedule", "next", *shlex.split(line)), 2, said)


def test_a_schedule_is_named_by_its_plugin_and_id(run_bus: RunBus, folder: Path) -> None:
    place = ("--config", str(folder))
    assert_error(run_bus("schedule", "next", "echo", *place), 2, "echo.default, echo.nightly")
    assert_error(
        run_bus("schedule", "next", "ecco.nightly", *place), 4, "did you mean echo.nightly"
    )
    found = run_bus("schedule", "next", "echo.nightly", *place, "--count", "1", "--json")
    assert json.loads(found.out)["local"][11:16] in ("02:30", "03:00")


def test_people_look_at_schedules_and_change_them_beside_the_service(
    run_bus: RunBus, service: Path
) -> None:
    """D-05: by --json alone."""
    place = ("--config", str(service), "--json")

    def records(*line: str) -> list[dict[str, object]]:
        done = run_bus("schedule", *line, *place)
        return [json.loads(each) for each in done.out.splitlines()]

    wait_until(lambda: records("history", "echo.default"))
    (first,) = records("history", "echo.default")
    assert (first["decision"], first["count"]) == ("fired", 1)
    listed = {each["id"]: each for each in records("list")}
    assert listed["nightly"]["times"] == "cron 30 2 * * *"
    assert listed["default"]["last_job_id"] == first["job_id"]
    assert records("pause", "echo.default", "--dry-run")[0]["dry_run"] is True
    records("pause", "echo.default")
    assert next(e for e in records("list") if e["id"] == "default")["paused_at"] is not None
    records("resume", "echo.default")
    (run,) = records("run", "echo.default")
    assert (run["decision"], run["reason"]) == ("fired", "by hand")
    assert len(records("history", "echo.default")) == 2
