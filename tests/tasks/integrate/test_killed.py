"""An integrator that is killed loses nothing and does nothing twice; and there is one at a time."""

import signal
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ackbus import Queue
from ackbus.git.target_refs import LocalTarget
from ackbus.schema.errors import Refused
from ackbus.tasks.records.task import lease_of_target

from ...conftest import ROOT, wait_until
from ...git_branches.conftest import has_ended
from ...sizes import size
from .conftest import Yard, bare_remote, lines

BUS = Path(sysconfig.get_path("scripts"), "bus")

#: More than an integration has.
_MOST_STEPS = 400


def doomed(yard: Yard, fatal: int, remote: str = "") -> int:
    """Runs an integrator that is killed before a step; returns how it ended."""
    command = [sys.executable, "-m", "tests.tasks.integrate.doomed", yard.bus.directory]
    done = subprocess.run(
        [*command, str(yard.git.path), str(fatal), remote],
        cwd=ROOT,
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


def again(yard: Yard, **rules: object) -> None:
    """Integrates at once: a git that a killed integrator had started is waited for."""
    yard.integrate(**rules)


@pytest.mark.slow
@pytest.mark.parametrize("is_remote", [False, True])
def test_killed_before_any_step_it_loses_nothing_and_lands_nothing_twice(
    yard: Yard, is_remote: bool
) -> None:
    """U-55, U-58: kill -9 at every step, restart: landed once, recorded once, trees clean."""
    remote = bare_remote(yard) if is_remote else None
    rules = {"remote": "origin"} if is_remote else {}
    stride = size(sample=11, whole=1)
    was_killed = True
    numbers = range(1, _MOST_STEPS, stride)
    for done, fatal in enumerate(numbers, 1):
        name = f"t{fatal}"
        yard.task(name, **{name: "x\n"})
        was_killed = doomed(yard, fatal, "origin" if is_remote else "") == -signal.SIGKILL
        again(yard, **rules)
        task = yard.tasks.get(name)
        assert (task.state, task.attempt) == ("COMPLETED", 1), fatal
        assert yard.git.ok("rev-list", "--first-parent", "--count", "main") == str(done + 1)
        assert yard.git.ok("status", "--porcelain") == "", fatal
        assert task.commit_id == yard.main
        if remote is not None:
            assert remote.ok("rev-parse", "main") == yard.main
        states = [landing.state for landing in yard.landings(name)]
        assert states.count("landed") == 1
        assert set(states) <= {"landed", "abandoned"}
        outcomes = [
            message.payload["outcome"]
            for message in yard.said("integration_outcome")
            if message.payload["task"] == name
        ]
        assert outcomes == ["landed"], fatal
        if not was_killed:
            break
    assert not was_killed, "there are more steps"
    jobs = Queue.open(yard.bus, "completions").jobs.list()
    assert {job.state for job in jobs} == {"succeeded"}
    assert all(job.attempt == 1 for job in jobs)  # a killed integrator counts no attempt
    assert len(yard.git.ok("worktree", "list").splitlines()) == 1


@pytest.mark.slow
def test_killed_during_a_check_takes_the_check_along(yard: Yard, tmp_path: Path) -> None:
    """U-55, U-58: kill -9 in the middle of a check, and a restart at once."""
    yard.task("one", a=lines(l5="five"))
    told = tmp_path / "told"
    check = f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 600"
    command = [BUS, "integrate", "--once", "--repo", yard.git.path, "--check", check]
    command += ["--dir", yard.bus.directory]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(told.exists)
    with pytest.raises(Refused, match="another integrator works on 'main'"):
        yard.integrate()
    assert len(list(yard.bus.leases.list())) == 1
    process.kill()
    process.wait()
    wait_until(lambda: has_ended(int(told.read_text())))
    again(yard)
    assert yard.tasks.get("one").state == "COMPLETED"
    assert yard.bus.leases.list() == []


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_git_that_a_killed_integrator_left_is_waited_for(
    yard: Yard, tmp_path: Path, is_stopped: bool
) -> None:
    """It was refused after half a second, so that an integrator that was started again ended."""
    yard.task("one", a=lines(l5="five"))
    hook = yard.git.path / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    # It ends with the test, too: "told" is removed with the folder.
    wait = "touch told; while [ -e told ] && [ ! -e go ]; do sleep 0.02; done"
    hook.write_text(
        f'#!/bin/sh\n[ "$1" = prepared ] && grep -q refs/heads/main && (cd {tmp_path}; {wait})\n:\n'
    )
    hook.chmod(0o755)
    command = [BUS, "integrate", "--repo", yard.git.path, "--dir", yard.bus.directory]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((tmp_path / "told").exists)
    process.kill()
    process.wait()
    integrator = yard.integrator()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(integrator.run, once=not is_stopped)
        wait_until(lambda: yard.warnings)
        if is_stopped:
            integrator.stop()
            running.result(60)
        (tmp_path / "go").touch()
        running.result(60)
    assert len(yard.warnings) == 1
    assert "a killed integrator has left a git that is at work" in yard.warnings[0]
    assert yard.tasks.get("one").state == ("APPROVED" if is_stopped else "COMPLETED")


@pytest.mark.slow
def test_signal_stops_a_check_and_the_entry_stays_in_the_queue(yard: Yard, tmp_path: Path) -> None:
    yard.task("one", a=lines(l5="five"))
    told = tmp_path / "told"
    command = [BUS, "integrate", "--repo", yard.git.path, "--dir", yard.bus.directory]
    command += ["--check", f"touch {told}; sleep 600"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(told.exists)
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"")
    assert yard.integrate() == {"one": "landed"}
    (job,) = Queue.open(yard.bus, "completions").jobs.list()
    assert (job.state, job.attempt) == ("succeeded", 1)


@pytest.mark.slow
def test_lease_taken_away_during_a_check_lands_nothing_under_the_old_token(yard: Yard) -> None:
    """Promise 2: fencing is checked in the transaction that publishes the intent."""
    yard.task("one", a=lines(l5="five"))
    name = lease_of_target(yard.place.common_dir, "main")
    steal = f"""
    test -e {yard.git.path}/.git/stolen && exit 0
    touch {yard.git.path}/.git/stolen
    {sys.executable} -c '
from ackbus import Bus
with Bus.open("{yard.bus.directory}") as bus:
    bus.leases.release(bus.leases.get("{name}"))
    bus.leases.acquire("{name}", "thief", lease_s=60)
'"""
    before = yard.main
    assert yard.integrate(steal) == {"one": "landed"}  # the lock is its own: it begins again
    assert any("does not hold lease" in words for words in yard.warnings)
    tokens = [landing.onto for landing in yard.landings("one")]
    assert tokens == [before]
    assert len(yard.said("integration_started")) == 2
    assert len(yard.said("check_result")) == 1  # of the try that had the lease at its end


@pytest.mark.slow
def test_two_integrators_of_a_thread_each_land_each_task_once(yard: Yard) -> None:
    """U-56: one runs at a time."""
    for number in range(6):
        yard.task(f"t{number}", **{f"f{number}": "x\n"})
    commands = [
        [BUS, "integrate", "--once", "--repo", yard.git.path, "--dir", yard.bus.directory]
        for _ in range(2)
    ]
    ends = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in commands]
    codes = sorted(end.wait(60) for end in ends)
    assert codes in ([0, 3], [0, 4])  # refused, or too late to find anything
    assert {yard.tasks.get(f"t{number}").state for number in range(6)} == {"COMPLETED"}
    assert yard.git.ok("rev-list", "--first-parent", "--count", "main") == "7"


def test_half_moved_tree_of_a_kill_is_put_back(yard: Yard) -> None:
    """A kill after the files went along, and before the ref moved."""
    task = yard.task("one", a=lines(l5="five"))
    assert task.head is not None
    target = LocalTarget(yard.place, "main")
    before = yard.main
    yard.git.ok("read-tree", "-m", "-u", before, task.head)
    assert yard.git.ok("status", "--porcelain") == "M  a"
    target.mend(task.head, before)
    assert yard.git.ok("status", "--porcelain") == ""
    assert yard.main == before
