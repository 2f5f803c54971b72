"""A service that is killed at each step of a tick: each nominal time is decided once."""

from collections import Counter
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.endings import TIMES_MISSED
from ackbus.automation.schedules.tables import Decision, Decisions
from ackbus.automation.service import Service

from ...sizes import case
from ..conftest import Folder
from ..killing import Act, Steps, kills

CONFIG = """
    plugin_roots: [plugins]
    service: {on_failure: hear}
    plugins:
      hear: {enabled: true}
      feed:
        enabled: true
        schedules:
          - {id: all, every: 5m, command: one, catch_up: run_all, if_running: queue}
          - {id: lost, cron: "*/5 * * * *", timezone: UTC, command: two, if_running: queue}
          - {id: busy, every: 5m, command: three, catch_up: run_once, if_running: skip}
          - {id: last, every: 17m, command: four, if_running: cancel}
"""

#: The clock goes on by so much between two ticks, in milliseconds.
MINUTES_MS = 17 * 60_000
BEGIN_MS = 1_780_000_000_000 - 1_780_000_000_000 % 60_000


class Ticking(Service):
    """A service whose steps count in one tick; then it ends."""

    def tick(self, steps: Steps) -> None:
        self._steps = steps
        self.run()

    def _loop(self, listener: object) -> None:
        self._steps.begin()
        self.scheduler.tick()
        self._steps.end()


class Told:
    """The decisions that are stored, and what came of them."""

    def __init__(self, bus: Bus) -> None:
        self.decisions: list[Decision] = [
            each
            for id in ("all", "lost", "busy", "last")
            for each in reversed(Decisions.of(bus).about("feed", id, limit=10_000))
        ]
        self.jobs = Counter(message.id for message in bus.read(type="plugin.feed.*"))
        self.alarms = sum(
            message.headers["event"]["type"] == TIMES_MISSED
            for message in bus.read(type="plugin.hear.handle")
        )

    def check(self) -> None:
        """Each time is decided once; one that fired has one job, a run of missed ones one alarm."""
        fired = [each.job_id for each in self.decisions if each.verdict == "fired"]
        assert Counter(fired) == self.jobs
        assert self.alarms == sum(each.verdict == "missed" for each in self.decisions)
        for before, after in zip(self.decisions, self.decisions[1:], strict=False):
            assert before.id != after.id or before.until_ms < after.nominal_ms
        lost = [each for each in self.decisions if each.id == "lost"]
        span_ms = lost[-1].until_ms - lost[0].nominal_ms if lost else -300_000
        assert sum(each.count for each in lost) == span_ms // 300_000 + 1


@pytest.mark.slow
@pytest.mark.parametrize("stride", [case(29, by_day=True), case(1, by_day=False)])
@pytest.mark.requirement("D-35", "D-41")
def test_tick_that_is_killed_anywhere_has_decided_all_or_nothing(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    bus.close()
    folder.write(config=CONFIG)
    commands = "{one: {type: read}, two: {type: read}, three: {type: read}, four: {type: read}}"
    for name in ("feed", "hear"):
        path = folder.plugin(name) / "manifest.yaml"
        text = path.read_text().partition("commands:")[0]
        path.write_text(f"{text}commands: {commands[:-1]}, handle: {{type: write}}}}\n")
    time_ms, before = [BEGIN_MS], [0]

    def clock() -> int:
        return time_ms[0]

    def tick(bus: Bus, steps: Steps) -> None:
        Ticking(bus, lambda: examine_folder(folder.path, {})).tick(steps)

    def prepare(_: int) -> Act:
        with Bus.open(bus_dir, clock=clock) as opened:
            before[0] = len(Told(opened).decisions)
        time_ms[0] += MINUTES_MS
        return tick

    with Bus.open(bus_dir, clock=clock) as opened:
        tick(opened, Steps.uncounted(opened))
    for step in kills(bus_dir, stride, 80, prepare, clock):
        with Bus.open(bus_dir, clock=clock) as opened:
            killed = Told(opened)
            killed.check()
            tick(opened, Steps.uncounted(opened))
            whole = Told(opened)
            whole.check()
            assert len(whole.decisions) > before[0]
            assert len(killed.decisions) in (before[0], len(whole.decisions)), step
