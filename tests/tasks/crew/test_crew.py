"""Crews as real processes: kept running, ended whole, told of, and killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.schema.directory.lock_holders import started as started_at
from ackbus.schema.message.draft import Draft
from ackbus.schema.process_table import is_running
from ackbus.subscribers.queues.queue import Queue
from ackbus.tasks import crew as crew_lock
from ackbus.tasks.crew import WANTS_WORKER, Crew, CrewLock, RoleLog, running_pid, saved_state
from ackbus.tasks.crew_file import CrewFile, Role

from ...conftest import RunBus, wait_until
from ..conftest import enter
from .conftest import StartCrew

#: A role that notes the number of its process in a file, and stays.
STAYS = "sh -c 'echo $$ >>{name}; exec sleep 600'"


def pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def roles(bus: Bus) -> dict[str, Any]:
    return {role["name"]: role for role in (saved_state(bus) or {})["roles"]}


def test_role_that_ends_starts_again(start_crew: StartCrew, project: Path) -> None:
    """A killed role is back after a pause; the others go on."""
    start_crew(f"""
        processes:
          one: {STAYS.format(name="one")}
          two: {STAYS.format(name="two")}
    """)
    one, two = project / "one", project / "two"
    wait_until(lambda: pids(one) and pids(two))
    os.kill(pids(one)[0], signal.SIGKILL)
    wait_until(lambda: len(pids(one)) == 2)
    assert is_running(pids(one)[1])
    assert len(pids(two)) == 1


def test_role_that_can_not_run_as_configured_is_left(start_crew: StartCrew, bus: Bus) -> None:
    """Exit codes 2 and 78, and a missing command: starting again would change nothing."""
    start_crew("""
        processes:
          usage: sh -c 'echo no such option >&2; exit 2'
          config: sh -c 'exit 78'
          missing: /no/such/command
          other: sleep 600
    """)
    wait_until(lambda: [each["status"] for each in roles(bus).values()].count("failed") == 3)
    told = roles(bus)
    assert told["usage"]["last"] == "no such option"
    assert told["missing"]["ended"] == "there is no command '/no/such/command'"
    assert {each["starts"] for each in told.values()} == {1}
    log = (Path(bus.layout.directory) / "logs" / "usage.log").read_text()
    assert "no such option" in log
    assert "ended: command exited with code 2" in log


def test_stop_ends_everything(
    start_crew: StartCrew, project: Path, run_bus: RunBus, bus: Bus
) -> None:
    """`bus crew stop` waits until nothing of the crew is left, children of roles included."""
    start_crew("""
        processes:
          tree: sh -c 'setsid sleep 600 & echo $! >>child; echo $$ >>child; wait'
    """)
    child = project / "child"
    wait_until(lambda: len(pids(child)) == 2)
    status = run_bus("crew", "status", "--json")
    assert status.code == 0
    assert json.loads(status.out)["status"] == "running"
    stopped = run_bus("crew", "stop")
    assert (stopped.code, stopped.err) == (0, "")
    assert not any(map(is_running, pids(child)))
    assert roles(bus)["tree"]["status"] == "stopped"
    assert run_bus("crew", "stop").code == 4
    assert run_bus("crew", "status").code == 4


def test_roles_end_with_a_crew_that_is_killed(
    start_crew: StartCrew, project: Path, run_bus: RunBus
) -> None:
    """Killed by kill -9: nothing goes on that nobody looks after, and the next crew begins."""
    text = f'processes: {{one: "{STAYS.format(name="one")}"}}'
    crew = start_crew(text)
    one = project / "one"
    wait_until(lambda: pids(one))
    crew.kill()
    crew.wait()
    wait_until(lambda: not is_running(pids(one)[0]))
    assert run_bus("crew", "status").code == 4
    start_crew(text)
    wait_until(lambda: len(pids(one)) == 2)


@pytest.mark.slow
def test_second_crew_is_refused(start_crew: StartCrew, project: Path, run_bus: RunBus) -> None:
    """Pitfall: two by a read-then-unlink pid file. The kernel has the lock."""
    first = start_crew(f'processes: {{one: "{STAYS.format(name="one")}"}}')
    wait_until(lambda: pids(project / "one"))
    refused = run_bus("crew", "start", "crew.yaml")
    assert refused.code == 3
    assert f"a crew of this bus runs already: process {first.pid}" in refused.err
    behind = run_bus("crew", "start", "crew.yaml", "--detach")
    assert behind.code == 1
    assert f"process {first.pid}" in behind.err
    assert len(pids(project / "one")) == 1


@pytest.mark.slow
def test_crew_in_the_background(project: Path, bus_dir: Path, run_bus: RunBus) -> None:
    (project / "crew.yaml").write_text(f'processes: {{one: "{STAYS.format(name="one")}"}}')
    started = run_bus("crew", "start", "crew.yaml", "--detach", "--json")
    assert started.code == 0, started.err
    wait_until(lambda: pids(project / "one"))
    assert run_bus("crew", "stop", "--json").code == 0
    # Its lock is free a moment before its process has ended.
    wait_until(lambda: not started_at(json.loads(started.out)["pid"]))
    assert not is_running(pids(project / "one")[0])


def test_faulty_file_starts_nothing(project: Path, bus_dir: Path, run_bus: RunBus) -> None:
    (project / "crew.yaml").write_text("planner: {}\nworkers:\n  count: 0\n  what: 1\n")
    refused = run_bus("crew", "start", "crew.yaml")
    assert refused.code == 78
    assert "crew.yaml:1: planner.command: 'command' is missing" in refused.err
    assert "crew.yaml:4: workers.what: 'what' is not a setting here" in refused.err
    assert run_bus("crew", "start", "none.yaml").code == 2
    assert not (bus_dir / "crew.lock").exists()


def test_number_of_a_process_counts_with_its_host_and_boot(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pid that is reused is no crew: where the kernel does not tell, host, boot and age count."""
    with CrewLock(bus) as lock:
        lock.acquire()
        lock.tell({"roles": []})
        assert running_pid(bus) == os.getpid()
        monkeypatch.setattr(crew_lock, "kernel_lists_locks", lambda: False)
        assert running_pid(bus) == os.getpid()
        for name, value in {"host": "elsewhere", "boot": "before", "at_ms": 1}.items():
            lock.tell({"roles": [], name: value})
            assert running_pid(bus) is None, name
    monkeypatch.undo()
    assert running_pid(bus) is None


def test_log_begins_again_and_keeps_older_ones(bus: Bus) -> None:
    log = RoleLog(bus, "worker-1", max_bytes=100)
    for number in range(12):
        log.write(b"%02d " % number + b"x" * 36 + b"\n")
    log.close()
    folder = Path(log.path).parent
    kept = {
        path.name: [line[:2] for line in path.read_text().split("\n") if line]
        for path in folder.iterdir()
    }
    assert kept == {
        "worker-1.log": ["10", "11"],
        "worker-1.log.1": ["08", "09"],
        "worker-1.log.2": ["06", "07"],
    }


class TestSpareWorkers:
    """U-82: the crew starts further workers, up to `max`, while they are wanted."""

    @pytest.fixture
    def crew(self, bus: Bus, project: Path) -> Crew:
        def worker(number: int) -> Role:
            argv = ("sh", "-c", "exec sleep 600")
            return Role(f"worker-{number}", argv, is_worker=True, is_spare=number > 1)

        lock = CrewLock(bus)
        lock.acquire()
        file = CrewFile(str(project / "crew.yaml"), str(project), {}, (worker(1), worker(2)))
        return Crew(bus, file, lock)

    def statuses_when(
        self, crew: Crew, is_enough: Any, each_time: Any = lambda: None, rounds: int = 3
    ) -> list[str]:
        """Run the crew for some looks, or until a status is there, and return the last ones."""
        seen: list[list[str]] = []

        def look() -> None:
            each_time()
            seen.append([state.status for state in crew.states()])
            if is_enough(seen[-1]) or len(seen) == rounds:
                crew.stop()

        crew.run(look)
        return seen[-1]

    def test_u_82_planner_that_waits_gets_a_worker(self, bus: Bus, crew: Crew) -> None:
        """U-82: no idle worker: the crew starts one up to the most."""
        bus.heartbeats.beat("worker-1", "working")
        bus.heartbeats.beat("planner", WANTS_WORKER)
        assert self.statuses_when(crew, lambda s: s[1] == "running") == ["running", "running"]

    def test_u_82_job_that_waits_while_all_work_gets_a_worker(self, bus: Bus, crew: Crew) -> None:
        """U-82: also for jobs that came by another door."""
        wait_for_worker(bus)
        statuses = self.statuses_when(crew, lambda s: s[1] == "running", lambda: beat(bus))
        assert statuses == ["running", "running"]

    def test_nobody_is_started_while_a_worker_is_idle(self, bus: Bus, crew: Crew) -> None:
        wait_for_worker(bus)
        statuses = self.statuses_when(crew, lambda s: False, lambda: beat(bus, "idle"))
        assert statuses == ["running", "spare"]


def wait_for_worker(bus: Bus) -> None:
    Queue.create(bus, "jobs", "task.job", addressed="tasks")
    enter(bus, Draft("task.job", {"prompt": "x"}, from_agent="me", to_agent="tasks"))


def beat(bus: Bus, status: str = "working") -> None:
    bus.heartbeats.beat("worker-1", status)
