"""A service in a process of its own, whose clock is set while it runs."""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ackbus import Bus
from ackbus.automation.schedules.tables import Decision, Decisions

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess
from ..soak.proofs import times_are_decided_once

pytestmark = pytest.mark.slow

CONFIG = """
    plugin_roots: [plugins]
    service: {tick_interval: 200ms, max_workers: 4}
    plugins:
      echo:
        enabled: true
        schedules:
          - {id: often, every: 400ms, jitter: 200ms, command: poll, catch_up: run_once}
          - {id: minutes, cron: "* * * * *", timezone: UTC, command: handles, catch_up: run_all,
             catch_up_max: 3, if_running: queue}
          - {id: night, cron: "30 2 * * *", timezone: Europe/Berlin, command: nights}
          - {id: hours, cron: "30 * * * *", timezone: Europe/Berlin, command: hours}
"""
MANIFEST = """
    manifest_spec: ductile.plugin
    manifest_version: 1
    name: echo
    version: 1.0.0
    protocol: 2
    entrypoint: run.sh
    commands: {poll: {type: read}, handles: {type: read}, nights: {type: read}, hours: {type: read}}
"""


#: The command `bus`, by a clock that is off by as many nanoseconds as a file says. The product
#: looks at the clock by this one function.
PROGRAM = """
import os, time
from pathlib import Path

real, offset = time.time_ns, Path(os.environ["CLOCK"])
time.time_ns = lambda: real() + int(offset.read_text())

from ackbus.cli import main

main()
"""


class OffTime(ServiceProcess):
    """The service in a process whose clock is off."""

    program = (sys.executable, "-c", PROGRAM)


class Clock:
    """The clock of a service, which others set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset_s = 0.0
        self.add(0)

    def add(self, seconds: float) -> None:
        self.offset_s += seconds
        made = self.path.with_suffix(".new")
        made.write_text(str(round(self.offset_s * 1e9)))
        made.rename(self.path)

    def set(self, local: str, fold: int = 0) -> None:
        """Sets it to a local time of Berlin."""
        moment = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
        self.add(moment.timestamp() - time.time() - self.offset_s)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def service(folder: Folder, clock: Clock) -> Iterator[ServiceProcess]:
    """A service whose clock runs as `clock` says, from the autumn of 2026 on."""
    folder.write(config=CONFIG).plugin("echo", MANIFEST, OK)
    clock.set("2026-10-24T12:00:30")
    with OffTime(folder.path, CLOCK=str(clock.path)).ready() as service:
        yield service


def decided(bus: Bus, id: str) -> list[Decision]:
    """The decisions about a schedule, the oldest first."""
    return Decisions.of(bus).about("echo", id, limit=10_000)[::-1]


def comes(bus: Bus, id: str, is_it: Callable[[Decision], object], since: int) -> Decision:
    """Waits for a decision after some others, and returns it."""
    wait_until(lambda: any(is_it(each) for each in decided(bus, id)[since:]))
    return next(each for each in decided(bus, id)[since:] if is_it(each))


def goes_on(bus: Bus) -> None:
    """Waits until the schedule of a short interval has begun some more jobs."""
    count = len(decided(bus, "often"))
    wait_until(lambda: sum(d.verdict == "fired" for d in decided(bus, "often")[count:]) >= 4)


def test_clock_that_steps_back_an_hour_and_forward_a_day_repeats_and_stops_nothing(
    service: ServiceProcess, clock: Clock
) -> None:
    with service.open() as bus:
        goes_on(bus)
        clock.set("2026-10-24T12:00:59")
        first = comes(bus, "minutes", lambda each: each.verdict == "fired", 0)
        for step_s in (-3_600, -3_600, 3_600, 3_600):
            clock.add(step_s)
            goes_on(bus)
        count = len(decided(bus, "minutes"))
        clock.add(86_400)
        comes(bus, "minutes", lambda each: each.count > 1_000, count)
        goes_on(bus)
        clock.add(-86_400)
        goes_on(bus)
        assert service.stop() == 0
        times_are_decided_once(bus, twice="often")
        caught_up = [each for each in decided(bus, "minutes") if each.reason == "catch-up"]
        assert (first.nominal_ms % 60_000, len(caught_up)) == (0, 9)  # of each step forward
    assert "can't go on" not in service.log.read_text()


@pytest.mark.requirement("D-44")
def test_fixed_hour_that_comes_twice_as_summer_time_ends_has_one_job(
    service: ServiceProcess, clock: Clock
) -> None:
    """One of all hours has a job in each of the two."""
    with service.open() as bus:
        for fold in (0, 1):
            count = len(decided(bus, "hours"))
            clock.set("2026-10-25T02:29:58", fold=fold)
            comes(bus, "hours", lambda each: each.verdict == "fired", count)
        assert service.stop() == 0
        night = [each.nominal_ms for each in decided(bus, "night") if each.verdict == "fired"]
        hours = [each.nominal_ms for each in decided(bus, "hours") if each.verdict == "fired"]
        times_are_decided_once(bus, twice="often")
    begin = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    begin_ms = round(begin.timestamp() * 1000)
    assert night == [begin_ms]
    assert hours == [begin_ms, begin_ms + 3_600_000]
