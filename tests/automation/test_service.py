"""The service as a process: its lock, its signals, its log, its successors."""

import json
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.records.facts import Fence, JobLog
from ackbus.automation.status import status_of
from ackbus.schema.queries import engine_of, file_of
from ackbus.subscribers.jobs.jobs import Job, Jobs

from ..conftest import wait_until
from .conftest import Folder
from .running import OK, echo_and_held, held, running
from .service_process import ServiceProcess

pytestmark = pytest.mark.slow

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2, tick_interval: 200ms}
    plugins:
      echo: {enabled: true, retry: {max_attempts: 4, backoff_base: 1ms}}
      held: {enabled: true, retry: {max_attempts: 4, backoff_base: 1ms}}
"""


def configured(folder: Folder, tmp_path: Path, config: str = CONFIG) -> Folder:
    return echo_and_held(folder, tmp_path, config)


def submit(bus: Bus, plugin: str, command: str = "poll") -> Submitted:
    request = JobRequest(plugin=plugin, command=command, submitted_by="cli")
    done = Submission(bus).submit(request)
    assert isinstance(done, Submitted)
    return done


def job(bus: Bus, done: Submitted) -> Job:
    (found,) = Jobs.of(bus).of_message(done.seq)
    return found


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.requirement("D-01", "D-131", "D-132", "R-27", "R-08", "D-153")
def test_d_131_a_second_service_is_refused_before_it_touches_anything(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        done = submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        before = file_of(bus).rows("SELECT * FROM jobs"), Fence(engine_of(bus)).row().token
        second = service.run("automation", "start")
        assert second.returncode == 1
        assert f"process {service.process.pid} has" in second.stderr
        assert (
            file_of(bus).rows("SELECT * FROM jobs"),
            Fence(engine_of(bus)).row().token,
        ) == before
        lock = folder.path / "data" / "ductile.lock"
        assert lock.read_text().strip() == str(service.process.pid)
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o700
        service.kill()
        (tmp_path / "held.go").touch()
        service.start_again().ready()  # nothing has to be cleaned up
        wait_until(lambda: job(bus, done).state == "succeeded")
        assert service.stop() == 0


def test_services_of_two_folders_do_not_share_a_bus(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    other = Folder(tmp_path / "other")
    configured(other, tmp_path)
    bus_dir = str(tmp_path / "shared")
    with ServiceProcess(folder.path, BUS_DIR=bus_dir).ready() as first:
        second = ServiceProcess(other.path, BUS_DIR=bus_dir)
        assert second.process.wait(30) == 1
        assert "a service of the bus" in second.told.read_text()
        assert first.stop() == 0


@pytest.mark.requirement("D-133", "D-17", "X-33", "D-03")
def test_d_133_what_ran_when_the_service_was_killed_counts_an_attempt(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        done = submit(bus, "held")
        for attempt in range(1, 5):
            wait_until(lambda count=attempt: lines(tmp_path / "held") == count)  # type: ignore[misc]
            assert job(bus, done).attempt == attempt
            service.kill()
            service.start_again().ready()
        found = job(bus, done)
        log = JobLog(engine_of(bus)).of_job(done.job_id)
        told = [line for line in service.lines() if line["component"] == "recovery"]
        assert submit(bus, "echo") is not None
        service.stop()
    assert (found.state, found.attempt) == ("dead", 4)
    assert [(entry.status, entry.attempt) for entry in log] == [
        ("failed", 1),
        ("failed", 2),
        ("failed", 3),
        ("dead", 4),
    ]
    assert [line["level"] for line in told] == ["WARN"] * 4
    assert {line["job_id"] for line in told} == {done.job_id}


@pytest.mark.requirement("X-34")
def test_x_34_crashes_and_failures_share_the_count_and_each_has_its_reason(
    folder: Folder, tmp_path: Path
) -> None:
    path = tmp_path / "held"
    configured(folder, tmp_path)
    program = f"#!/bin/sh\nif [ ! -e {path} ]; then echo $$ > {path}; exec sleep 60; fi\n"
    program += f"echo $$ >> {path}\n[ $(wc -l < {path}) = 2 ] && exit 9\n" + OK.split("\n", 1)[1]
    folder.plugin("held", run=program)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        done = submit(bus, "held")
        wait_until(lambda: lines(path) == 1)
        service.kill()
        service.start_again().ready()
        wait_until(lambda: job(bus, done).state == "succeeded")
        log = JobLog(engine_of(bus)).of_job(done.job_id)
        service.stop()
    assert [entry.last_error for entry in log] == [
        "the service ended while it ran",
        "command exited with code 9; the response is not valid JSON: "
        "Input is a zero-length, empty document: line 1 column 1 (char 0)",
        None,
    ]
    assert job_attempt(log) == 3


def job_attempt(log: list[object]) -> int:
    return len(log)


@pytest.mark.requirement("D-134", "D-135", "D-136", "R-15", "R-16", "R-14")
def test_d_136_reload_takes_what_changed_and_a_broken_file_changes_nothing(
    folder: Folder, tmp_path: Path
) -> None:
    config = CONFIG.replace("max_workers: 2", "max_workers: 3")
    config = config.replace("held: {enabled: true", "held: {enabled: true, parallelism: 2")
    configured(folder, tmp_path, config)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        first = submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)

        folder.write(config="plugins: [")
        refused = service.run("automation", "reload")
        assert refused.returncode == 1
        assert any("the configuration is refused" in text for text in service.messages())
        echo = submit(bus, "echo")
        wait_until(lambda: job(bus, echo).state == "succeeded")

        queued = [submit(bus, "held") for _ in range(3)]
        wait_until(lambda: lines(tmp_path / "held") == 2)
        folder.plugin("third", run=OK)
        without = config.replace("held: {enabled: true", "held: {enabled: false")
        folder.write(config=without + "      third: {enabled: true}\n")
        done = service.run("automation", "reload", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["reloaded"] is True
        dead = [job(bus, each) for each in queued[1:]]
        assert [(each.state, each.error) for each in dead] == [("dead", "plugin removed")] * 2
        third = submit(bus, "third")
        wait_until(lambda: job(bus, third).state == "succeeded")
        (tmp_path / "held.go").touch()  # what ran goes on as it began
        wait_until(lambda: job(bus, first).state == job(bus, queued[0]).state == "succeeded")
        assert service.stop() == 0
    assert service.run("automation", "reload").returncode == 4


def test_job_that_fails_after_its_plugin_was_removed_is_dead(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    """Nobody would run another attempt."""
    configured(folder, tmp_path)
    folder.plugin("held", run=held(tmp_path / "held") + "exit 1\n")
    with running(bus, folder.path) as service:
        job_id = service.submit("held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        folder.write(config=CONFIG.replace("held: {enabled: true", "held: {enabled: false"))
        service.service.reload()
        wait_until(lambda: not service.service._control.is_to_reload)
        assert service.ended(service.submit("echo")).state == "succeeded"  # it has been taken
        (tmp_path / "held.go").touch()
        found = service.ended(job_id)
    assert (found.state, found.attempt) == ("dead", 1)
    assert str(found.error).endswith("; plugin removed")


def test_d_137_each_line_of_the_log_is_an_object(folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    folder.plugin("echo", run=OK.replace("cat >", "echo one >&2; echo two >&2\ncat >"))
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        done = submit(bus, "echo")
        wait_until(lambda: job(bus, done).state == "succeeded")
        service.stop()
    found = service.lines()
    for line in found:
        assert {"timestamp", "level", "component", "message"} <= set(line)
        assert set(line) <= {"timestamp", "level", "component", "plugin", "job_id", "message"}
    told = [line for line in found if line["message"].startswith("stderr: ")]
    assert [line["message"] for line in told] == ["stderr: one", "stderr: two"]
    assert {(line["level"], line["plugin"], line["job_id"]) for line in told} == {
        ("WARN", "echo", done.job_id)
    }


@pytest.mark.requirement("R-26", "D-140", "Q-16")
def test_d_140_what_a_plugin_prints_is_kept_as_it_is(bus: Bus, folder: Folder) -> None:
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    folder.plugin("echo", run=OK.replace("cat >", "echo token=hunter2 >&2\ncat >"))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        service.ended(job_id)
        (entry,) = service.log(job_id)
    assert entry.stderr == "token=hunter2\n"


@pytest.mark.requirement("R-25")
def test_r_25_systemd_is_told_that_it_is_ready_reloads_and_lives(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(30)
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "400000"}
        with ServiceProcess(folder.path, **environ) as service:
            seen: list[str] = []

            def hear(wanted: str) -> None:
                while not (seen and seen[-1].startswith(wanted)):
                    seen.append(told.recv(4096).decode())

            hear("READY=1")
            hear("WATCHDOG=1")
            seen.append("")
            hear("WATCHDOG=1")
            service.process.send_signal(signal.SIGHUP)
            hear("RELOADING=1\nMONOTONIC_USEC=")
            hear("READY=1")
            service.process.send_signal(signal.SIGTERM)
            hear("STOPPING=1")
            assert service.process.wait(30) == 0


@pytest.mark.requirement("D-141", "R-24")
def test_d_141_old_records_go_at_a_tick(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    configured(folder, tmp_path)
    engine = engine_of(bus)
    for name, days in (("old", 31), ("young", 29)):
        at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days * 86_400))
        engine.change(
            "INSERT INTO job_log (id, plugin, command, status, attempt, submitted_by, created_at,"
            " completed_at) VALUES (?, 'echo', 'poll', 'failed', 1, 'cli', ?, ?)",
            (f"{name}-1", at, at),
        )
    log = JobLog(engine)
    with running(bus, folder.path):
        wait_until(lambda: not log.of_job("old"))
    assert len(log.of_job("young")) == 1


@pytest.mark.requirement("D-53", "D-54", "R-07")
def test_d_54_init_runs_once_for_each_form_of_a_plugin_and_is_not_tried_again(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    config = "plugin_roots: [plugins]\nplugins:\n"
    config += "  echo: {enabled: true, max_attempts: 1, config: {n: 1}}\n"
    program = f'#!/bin/sh\ngrep -o \'"command":"[a-z]*"\' | cut -d \'"\' -f 4 >> {ran}\n'
    path = folder.write(config=config).plugin("echo", run=program + "exit 1\n")
    manifest = path / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("poll:", "init: {type: read}\n  poll:"))

    def inits() -> int:
        return ran.read_text().split().count("init") if ran.exists() else 0

    for _ in range(2):
        with running(bus, folder.path) as service:
            wait_until(lambda: inits() == 1)
            wait_until(lambda: status_of(bus)["plugins"]["echo"]["init"] == "failed")
            service.ended(service.submit("echo", "handle"))
    assert inits() == 1
    folder.write(config=config.replace("n: 1", "n: 2"))
    with running(bus, folder.path) as service:
        wait_until(lambda: inits() == 2)
        assert "health" not in ran.read_text()


@pytest.mark.requirement("D-144")
def test_d_144_status_tells_states_depth_last_runs_and_health(
    folder: Folder, tmp_path: Path
) -> None:
    configured(
        folder,
        tmp_path,
        CONFIG.replace("4, backoff_base: 1ms}}\n      held", "1, backoff_base: 1ms}}\n      held"),
    )
    folder.plugin("echo", run="#!/bin/sh\necho broken >&2; exit 3\n")
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        failed = submit(bus, "echo")
        submit(bus, "held")
        wait_until(lambda: job(bus, failed).state == "dead")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        done = service.run("automation", "status", "--json")
        found = json.loads(done.stdout)
        text = service.run("automation", "status").stdout
        (tmp_path / "held.go").touch()
        assert service.stop() == 0
    assert done.returncode == 0
    assert found["service"]["is_running"] is True
    assert (found["service"]["pid"], found["queue_depth"]) == (service.process.pid, 1)
    assert (found["running"], found["dead"]) == (1, 1)
    assert found["last_runs"][0]["plugin"] == "echo"
    assert found["last_runs"][0]["status"] == "failed"
    assert "echo poll failed: command exited with code 3: broken" in text
    assert service.run("automation", "status").returncode == 4


@pytest.mark.requirement("D-05")
def test_d_05_a_program_can_start_run_and_inspect_it_by_json_alone(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service:
        (listed, *_) = map(json.loads, service.run("plugin", "list", "--json").stdout.splitlines())
        assert listed["plugin"] == "echo"
        ran = service.run("plugin", "run", "echo", "--json")
        told = json.loads(ran.stdout)
        assert (ran.returncode, told["status"], told["result"]) == (0, "succeeded", "done")
        dry = service.run("plugin", "run", "echo", "--dry-run", "--json")
        assert json.loads(dry.stdout)["dry_run"] is True
        shown = json.loads(service.run("plugin", "show", "echo", "--json").stdout)
        assert shown["last_runs"][0]["job_id"] == told["job_id"]
        unknown = service.run("plugin", "run", "ecko")
        assert (unknown.returncode, "did you mean 'echo'?" in unknown.stderr) == (4, True)
        stopped = service.run("automation", "stop", "--json")
        assert json.loads(stopped.stdout)["stopped"] is True
        assert service.process.wait(30) == 0
        later = service.run("plugin", "run", "echo", "--json")
        assert later.returncode == 4
        assert json.loads(later.stdout)["status"] == "queued"
        assert "no service runs" in later.stderr


def test_stopped_service_hands_its_jobs_back_without_counting_an_attempt(
    folder: Folder, tmp_path: Path
) -> None:
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        done = submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        assert service.run("automation", "stop", "--now").returncode == 0
        found = job(bus, done)
        pid = int((tmp_path / "held").read_text())
    assert (found.state, found.attempt) == ("queued", 1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_fenced_service_claims_and_stores_nothing(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    """It was stopped for long, and another has begun in a way that no lock could prevent."""
    from ackbus.automation.records.facts import ServiceFenced

    configured(folder, tmp_path)

    def replaced() -> None:
        with running(bus, folder.path) as service:
            runs = service.submit("held")
            wait_until(lambda: lines(tmp_path / "held") == 1)
            Fence(engine_of(bus)).begin(folder.path, "another")
            waits = service.submit("echo")
            (tmp_path / "held.go").touch()
            wait_until(lambda: not service.thread.is_alive())
            assert service.job(runs).state == "running"
            assert (service.job(waits).state, service.claims(waits)) == ("queued", [])

    with pytest.raises(ServiceFenced):
        replaced()
