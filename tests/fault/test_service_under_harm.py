"""The service of automation on a full disk and under a set clock: jobs end once, and it goes on."""

from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.service import Service
from ackbus.schema.message.times import now_ms

from ..automation.conftest import Folder
from ..automation.running import Running, echo_and_held, running, serving
from ..conftest import wait_until
from .conftest import SmallDisk

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2}
    plugins:
      held: {enabled: true}
      echo: {enabled: true}
"""


def begins(service: Running, tmp_path: Path) -> str:
    job_id = service.submit("held")
    wait_until((tmp_path / "held").exists)
    return job_id


def test_end_of_a_job_waits_for_room_on_a_full_disk(small_disk: SmallDisk, tmp_path: Path) -> None:
    """Its program does not run twice, and the next job runs as soon as there is room."""
    folder = echo_and_held(Folder(tmp_path / "config"), tmp_path, CONFIG)
    with Bus.init(small_disk.path / "bus") as bus, running(bus, folder.path) as service:
        job_id = begins(service, tmp_path)
        small_disk.leave(0)
        (tmp_path / "held.go").touch()
        wait_until(lambda: service.service._dispatcher.has_unwritten)
        assert service.job(job_id).state == "running"
        small_disk.make_room()
        assert service.ended(job_id).state == "succeeded"
        assert service.ended(service.submit("echo")).state == "succeeded"
        assert len((tmp_path / "held").read_text().splitlines()) == 1


@pytest.mark.parametrize("step_s", [-3_600, 86_400])
def test_clock_that_is_set_ends_no_running_job(bus_dir: Path, tmp_path: Path, step_s: int) -> None:
    """An hour back, a day forward: no lease runs out, and what waits its turn has it."""
    offset_ms = [0]

    def clock() -> int:
        return now_ms() + offset_ms[0]

    folder = echo_and_held(Folder(tmp_path / "config"), tmp_path, CONFIG)
    with Bus.open(bus_dir, clock=clock) as bus, Bus.open(bus_dir, clock=clock) as own:
        service = Service(own, lambda: examine_folder(folder.path, {}))
        with serving(bus, service) as run:
            job_id = begins(run, tmp_path)
            offset_ms[0] = step_s * 1000
            assert run.ended(run.submit("echo")).state == "succeeded"
            (tmp_path / "held.go").touch()
            found = run.ended(job_id)
    assert (found.state, found.attempt) == ("succeeded", 1)
