"""bus schedule: coming times, decisions, and acts by hand, beside a real service."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..automation.conftest import Folder
from ..automation.running import OK
from ..automation.service_process import ServiceProcess
from ..conftest import RunBus, wait_until
from .conftest import assert_error

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


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "config").write(config=CONFIG)
    for name in ("echo", "quiet"):
        folder.plugin(name, run=OK)
    return folder


@pytest.fixture
def service(folder: Folder, bus_env: dict[str, str]) -> Iterator[Folder]:
    """The folder of a service that is ready."""
    with ServiceProcess(folder.path, **bus_env).ready() as process:
        yield folder
        process.stop()


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


def test_a_schedule_is_named_by_its_plugin_and_id(run_bus: RunBus, folder: Folder) -> None:
    place = ("--config", str(folder.path))
    assert_error(run_bus("schedule", "next", "echo", *place), 2, "echo.default, echo.nightly")
    assert_error(
        run_bus("schedule", "next", "ecco.nightly", *place), 4, "did you mean 'echo.nightly'"
    )
    never = run_bus("schedule", "pause", "echo.nightly", "--dry-run", *place)
    assert_error(never, 1, "start the service with 'bus automation start'")
    found = run_bus("schedule", "next", "echo.nightly", *place, "--count", "1", "--json")
    assert json.loads(found.out)["local"][11:16] in ("02:30", "03:00")


def test_people_look_at_schedules_and_change_them_beside_the_service(
    run_bus: RunBus, service: Folder
) -> None:
    """D-05: by --json alone."""
    place = ("--config", str(service.path), "--json")

    def records(*line: str) -> list[dict[str, object]]:
        done = run_bus("schedule", *line, *place)
        return [json.loads(each) for each in done.out.splitlines()]

    wait_until(lambda: records("history", "echo.default"))
    (first,) = records("history", "echo.default")
    assert (first["decision"], first["count"]) == ("fired", 1)
    listed = {each["id"]: each for each in records("list")}
    # An interval goes on from where the service stands with it, and not from now.
    (coming,) = records("next", "echo.default", "--count", "1")
    assert coming["at"] == listed["default"]["next"]
    assert listed["nightly"]["times"] == "cron 30 2 * * *"
    assert listed["default"]["last_job_id"] == first["job_id"]
    assert records("pause", "echo.default", "--dry-run")[0]["dry_run"] is True
    records("pause", "echo.default")
    assert next(e for e in records("list") if e["id"] == "default")["paused_at"] is not None
    paused = run_bus("schedule", "next", "echo.default", *place)
    assert "echo.default is paused" in paused.err
    records("resume", "echo.default")
    (run,) = records("run", "echo.default")
    assert (run["decision"], run["reason"]) == ("fired", "by hand")
    assert len(records("history", "echo.default")) == 2
