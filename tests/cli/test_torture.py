"""`bus torture` from outside: its directory, its exit codes, and that no process stays behind."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ..conftest import RunBus, wait_until
from .conftest import StartBus

pytestmark = pytest.mark.slow  # starts many processes

#: A run of little more than a second.
SHORT = ("torture", "run", "--agents", "8", "--minutes", "0.02", "--kill-every", "0.2")


def agents_of(directory: Path) -> list[str]:
    """The processes of the agents of a run."""
    shown = subprocess.run(["ps", "-wweo", "args"], stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if f"{directory}/histories" in line]


def test_it_leaves_nothing_behind_when_all_proofs_hold(run_bus: RunBus, project: Path) -> None:
    done = run_bus(*SHORT, "--seed", "5")
    assert done.code == 0, done.out
    assert "8 agents in" in done.err
    assert "--seed 5 makes the same choices again" in done.err
    assert done.err.endswith("bus: the time is over; now the proof\n")
    first, second, third, _, *proofs = done.out.splitlines()
    assert " kill" in first
    assert first.endswith("0 locked errors")
    assert "99 of 100 within" in second
    assert third.startswith("the write-ahead log had at most")
    assert len(proofs) == 11
    assert all(line.startswith("holds  ") for line in proofs)
    assert list(project.iterdir()) == []


def test_a_directory_with_something_in_it_is_refused(run_bus: RunBus, project: Path) -> None:
    """Never a bus that has other messages."""
    there = project / "run"
    there.mkdir()
    (there / "mine").write_text("keep me")
    done = run_bus(*SHORT)
    assert done.code == 3
    assert done.err.startswith(
        "bus: run is not empty, and the torture takes a directory of its own"
    )
    assert [path.name for path in there.iterdir()] == ["mine"]


def test_fewer_agents_than_there_are_kinds_are_refused(run_bus: RunBus, project: Path) -> None:
    done = run_bus("torture", "--agents", "7")
    assert done.code == 2
    assert "--agents" in done.err
    assert list(project.iterdir()) == []


def test_a_failed_proof_is_exit_code_1_and_everything_stays(
    start_bus: StartBus, project: Path
) -> None:
    """A process that is told of a locked database is enough."""
    histories = project / "run" / "histories"
    process = start_bus(*SHORT)
    wait_until(histories.exists)
    (histories / "unlucky").mkdir()
    lines = [{"at": 1, "act": "logged", "error": "database is locked"}]
    (histories / "unlucky" / "000001.jsonl").write_text(json.dumps(lines[0]) + "\n")
    out, _ = process.communicate(timeout=60)
    told = out.decode().splitlines()
    assert process.returncode == 1
    assert told[0].endswith("1 locked error")
    assert "       - life 1 of unlucky, at logged: database is locked" in told
    assert told[-1].endswith(f"stay in {project / 'run'}")
    assert (project / "run" / "bus" / "bus.db").exists()


def test_a_bus_that_can_no_longer_be_read_is_one_line(start_bus: StartBus, project: Path) -> None:
    """The proof itself must not end in a traceback on a disk that fails."""
    database = project / "run" / "bus" / "bus.db"
    process = start_bus(*SHORT)
    wait_until(lambda: len(agents_of(project / "run")) == 8)
    database.unlink()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    last = err.decode().splitlines()[-1]
    assert last.startswith("bus: ")
    assert last.endswith(f"; what there is stays in {project / 'run'}")


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGKILL])
def test_its_agents_end_with_it(
    start_bus: StartBus, project: Path, ended_by: signal.Signals
) -> None:
    directory = project / "run"
    process = start_bus("torture", "run", "--agents", "8")
    wait_until(lambda: len(agents_of(directory)) == 8)
    process.send_signal(ended_by)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if ended_by == signal.SIGINT else -signal.SIGKILL)
    wait_until(lambda: agents_of(directory) == [])
    if ended_by == signal.SIGINT:
        last = f"bus: interrupted; what there is stays in {directory}\n"
        assert err.decode().endswith(last)


def test_a_terminal_shows_how_far_it_is(on_terminal: Callable[..., str], project: Path) -> None:
    sent = on_terminal("torture", "run", "--agents", "8", until=b"torturing")
    assert "torturing" in sent
    assert "interrupted" in sent
    assert os.path.exists(project / "run")
