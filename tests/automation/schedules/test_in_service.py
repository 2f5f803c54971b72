"""Schedules in a real service: real plugins, real time, and kill -9."""

import pytest

from ackbus import Bus
from ackbus.automation.schedules.tables import Decisions, Schedules

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, running

CONFIG = """
    service: {tick_interval: 100ms}
    plugin_roots: [plugins]
    plugins:
      echo:
        enabled: true
        schedules:
          - every: 200ms
"""


@pytest.mark.requirement("D-35", "D-53")
def test_a_service_begins_jobs_as_they_are_due(bus: Bus, folder: Folder) -> None:
    folder.write(config=CONFIG).plugin("echo", run=OK)

    def fired() -> int:
        decided = Decisions.of(bus).about("echo", "default", limit=50)
        return sum(each.verdict == "fired" for each in decided)

    with running(bus, folder.path):
        wait_until(lambda: fired() >= 3)
    known = Schedules.of(bus).get("echo", "default")
    assert known is not None
    assert known.last_job_id is not None
    last = bus.get(known.last_job_id)
    assert last is not None
    assert last.headers["submitted_by"] == "scheduler"
    assert last.headers["job"]["schedule"] == "default"
