"""The programs that take part by plain SQL do it right beside `bus`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import RunBus

EXAMPLES = Path(__file__).parents[2] / "examples" / "plain-sql"


def run(name: str, project: Path, env: dict[str, str]) -> None:
    program = [sys.executable, "-P", str(EXAMPLES / name)]
    done = subprocess.run(program, cwd=project, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.usefixtures("bus_dir")
def test_a_worker_without_ackbus_works_beside_it(
    run_bus: RunBus, project: Path, bus_env: dict[str, str]
) -> None:
    """P-16, K-01: fill, claim, lose, fail, complete, answer; everyone sees it."""
    run("worker.py", project, bus_env)
    listed = run_bus(
        "job", "list", "--queue", "builds", "--state", "succeeded", "--state", "cancelled"
    )
    assert [line.split()[3:5] for line in listed.out.splitlines()[1:]] == [
        ["cancelled", "0/4"],  # a duplicate, which never began
        ["succeeded", "1/4"],
        ["succeeded", "3/4"],
    ]
    answered = run_bus("check", "build-a")
    assert (answered.code, answered.out.splitlines()[-1]) == (0, "a.out")
    refused = run_bus("check", "build-a-again")
    assert refused.code == 1
    assert "duplicate of" in refused.out
    assert run_bus("doctor", "--full").code == 0


def test_signatures_without_ackbus_are_verified_by_it(
    run_bus: RunBus, bus: Bus, project: Path, bus_env: dict[str, str]
) -> None:
    keys = Path(bus_env["HOME"]) / ".config"
    env = bus_env | {"XDG_CONFIG_HOME": str(keys)}
    env.pop("BUS_KEYS_DIR", None)
    assert run_bus("key", "create", "alice", env=env).code == 0
    data = '{"ok":true,"took_s":1.5,"steps":1e16,"error":2.5e-5}'
    run_bus("publish", "task.done", "--data", data, "--from", "alice", "--header", "k=v", env=env)
    run("sign.py", project, env)
    checked = run_bus("verify", "--strict", env=env)
    assert (checked.code, os.linesep in checked.out) == (0, True), checked.err
    assert "2 signed" in checked.out
