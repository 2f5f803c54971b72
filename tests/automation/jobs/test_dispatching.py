"""The order of jobs, and how many run side by side, by real programs that note their times."""

from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.automation.jobs.submission import JobRequest, Submission, follow
from ackbus.automation.plugins.discovery import discover
from ackbus.automation.status import status_of
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue_set import QueueSet

from ...conftest import wait_until
from ...subscribers.conftest import Clock
from ..conftest import Folder
from ..running import OK, running

CONFIG = """
    plugin_roots: [plugins]
    service: {{max_workers: {workers}}}
    plugins:
      slow: {{enabled: true{slow}}}
      fast: {{enabled: true}}
"""


def noting(path: Path, *, held: bool = False) -> str:
    """The program of a plugin that notes its begin and end; a held one waits for a file."""
    wait = f"while [ ! -e {path}.go ]; do sleep 0.02; done\n" if held else ""
    return f"#!/bin/sh\necho begin $BUS_JOB_ID >> {path}\n{wait}cat > /dev/null\n" + (
        f"echo end $BUS_JOB_ID >> {path}\n" + OK.split("\n", 2)[2]
    )


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def most_at_once(path: Path) -> int:
    now = most = 0
    for what, _ in lines(path):
        now += 1 if what == "begin" else -1
        most = max(most, now)
    return most


def configure(folder: Folder, programs: dict[str, str], *, workers: int, slow: str = "") -> None:
    folder.write(config=CONFIG.format(workers=workers, slow=slow))
    for name, program in programs.items():
        folder.plugin(name, run=program)


@pytest.mark.requirement("D-16", "R-03", "R-17", "X-28", "D-28")
def test_d_16_one_worker_runs_all_plugins_in_the_order_of_the_requests(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    path = tmp_path / "ran"
    configure(folder, dict.fromkeys(("slow", "fast"), noting(path)), workers=1)
    with running(bus, folder.path) as service:
        ids = [service.submit(name) for name in ("slow", "fast", "fast", "slow", "fast") * 2]
        for job_id in ids:
            assert service.ended(job_id).state == "succeeded"
    assert lines(path) == [[what, job_id] for job_id in ids for what in ("begin", "end")]


@pytest.mark.slow
def test_d_28_as_many_run_at_once_as_there_are_workers_and_no_more(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    path = tmp_path / "ran"
    configure(folder, dict.fromkeys(("slow", "fast"), noting(path, held=True)), workers=3)
    with running(bus, folder.path) as service:
        ids = [service.submit(name) for name in ("slow", "fast") * 10]
        wait_until(lambda: len(lines(path)) == 3)
        Path(f"{path}.go").touch()
        for job_id in ids:
            service.ended(job_id)
    assert most_at_once(path) == 3


@pytest.mark.slow
@pytest.mark.requirement("D-29", "D-30", "D-31")
@pytest.mark.parametrize(
    ("slow", "at_once"), [(", parallelism: 2", 2), ("", 5)], ids=["capped", "safe"]
)
def test_d_31_full_plugin_does_not_delay_another(
    bus: Bus, folder: Folder, tmp_path: Path, slow: str, at_once: int
) -> None:
    path = tmp_path / "slow"
    programs = {"slow": noting(path, held=True), "fast": OK}
    configure(folder, programs, workers=6, slow=slow)
    with running(bus, folder.path) as service:
        held = [service.submit("slow") for _ in range(5)]
        wait_until(lambda: len(lines(path)) == at_once)
        quick = service.submit("fast")
        assert service.ended(quick).state == "succeeded"
        assert len(lines(path)) == at_once
        (tmp_path / "slow.go").touch()
        for job_id in held:
            service.ended(job_id)
    assert most_at_once(path) == at_once


@pytest.mark.requirement("D-30")
def test_d_30_author_who_says_that_it_is_not_safe_has_one_at_a_time(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    path = tmp_path / "ran"
    configure(folder, {"slow": noting(path), "fast": OK}, workers=4)
    manifest = folder.path / "plugins" / "slow" / "manifest.yaml"
    manifest.write_text(manifest.read_text() + "concurrency_safe: false\n")
    with running(bus, folder.path) as service:
        for job_id in [service.submit("slow") for _ in range(5)]:
            service.ended(job_id)
    assert most_at_once(path) == 1


@pytest.mark.requirement("D-25", "D-27")
def test_d_25_jobs_with_one_key_never_overlap(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    path = tmp_path / "ran"
    configure(folder, {"slow": noting(path, held=True), "fast": OK}, workers=5)
    with running(bus, folder.path) as service:
        submitted = [
            service.submit("slow", "handle", dedupe_key=key, dedupe_ttl_s=None)
            for key in ("a", "b", "a", "b")
        ]
        wait_until(lambda: len(lines(path)) == 2)
        service.ended(service.submit("fast"))  # a turn in which the others could have begun
        assert len(lines(path)) == 2
        Path(f"{path}.go").touch()
        for job_id in submitted:
            service.ended(job_id)
    assert most_at_once(path) == 2
    runs = [job_id for what, job_id in lines(path) if what == "begin"]
    assert sorted(runs) == sorted(submitted)


@pytest.mark.requirement("D-33", "D-69", "D-73")
def test_d_33_job_that_waits_for_another_attempt_blocks_nobody(bus: Bus, folder: Folder) -> None:
    retry = ", retry: {max_attempts: 5, backoff_base: 60s}"
    configure(folder, {"slow": "#!/bin/sh\nexit 1\n", "fast": OK}, workers=1, slow=retry)
    with running(bus, folder.path) as service:
        failing = service.submit("slow")
        wait_until(lambda: service.job(failing).attempt == 2)
        assert service.ended(service.submit("fast")).state == "succeeded"
        job = service.job(failing)
        (claim,) = service.claims(failing)
    assert (job.state, job.max_attempts) == ("queued", 5)
    pause_ms = job.available_at_ms - (claim.ended_at_ms or 0)
    assert 60_000 <= pause_ms < 120_000


@pytest.mark.slow
def test_d_32_limits_hold_for_what_a_predecessor_left(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    """They are counted in the tables, so a restart does not forget them."""
    path = tmp_path / "ran"
    programs = {"slow": noting(path, held=True), "fast": OK}
    configure(folder, programs, workers=4, slow=", parallelism: 1")
    with running(bus, folder.path) as service:
        ids = [service.submit("slow") for _ in range(6)]
        wait_until(lambda: lines(path))
    path.unlink()  # the stop ended that run, which noted no end
    Path(f"{path}.go").touch()
    with running(bus, folder.path) as service:
        for job_id in ids:
            assert service.ended(job_id).state == "succeeded"
    assert most_at_once(path) == 1


@pytest.mark.requirement("D-34", "R-18", "Q-18")
def test_d_34_status_tells_of_jobs_that_wait_for_over_a_minute(
    bus_dir: Path, folder: Folder
) -> None:
    clock = Clock()
    configure(folder, {"slow": OK, "fast": OK}, workers=1)
    config = folder.load()
    with Bus.open(bus_dir, clock=clock) as bus:
        for plugin in discover(config).plugins.values():
            follow(bus, plugin, config.service)
        for name in ("slow", "fast"):
            request = JobRequest(plugin=name, command="poll", submitted_by="cli")
            Submission(bus).submit(request)
        QueueSet(bus, ["plugin.slow"]).claim("here", group="automation", limit=1)
        clock.advance(59)
        assert status_of(bus)["is_saturated"] is False
        clock.advance(2)
        found = status_of(bus)
        assert (found["is_saturated"], found["oldest_wait_s"]) == (True, 61.0)
        assert found["plugins"]["slow"]["median_wait_s"] is None
        assert found["plugins"]["slow"]["jobs_a_day"] == 0


def test_job_that_is_cancelled_is_ended_at_once(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    path = tmp_path / "ran"
    program = f"#!/bin/sh\necho begin $$ >> {path}\nexec sleep 60\n"
    configure(folder, {"slow": program, "fast": OK}, workers=1)
    with running(bus, folder.path) as service:
        job_id = service.submit("slow")
        wait_until(lambda: lines(path))
        seq = bus.get(job_id).seq  # type: ignore[union-attr]
        Queue.open(bus, "plugin.slow").jobs.cancel(seq, "not wanted")
        assert service.ended(service.submit("fast")).state == "succeeded"  # it has the one worker
        wait_until(lambda: service.log(job_id))
        (entry,) = service.log(job_id)
        (job,) = Jobs.of(bus).of_message(seq)
    assert (job.state, entry.status, entry.last_error) == ("cancelled", "dead", "not wanted")
