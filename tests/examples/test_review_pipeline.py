"""The review pipeline of the examples: three workers, one conversation, from end to end."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PIPELINE = Path(__file__).parents[2] / "examples" / "review-pipeline"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The directory of the example's bus."""
    path = tmp_path / "scratch"
    path.mkdir()
    return path


def run(scratch: Path, env: dict[str, str], *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the example, and ends whatever it has left running."""
    with subprocess.Popen(
        [PIPELINE / "run.sh", *args],
        env=env | {"TMPDIR": str(scratch), "USER": "alice"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def test_change_goes_through_three_workers_in_one_conversation(
    scratch: Path, bus_env: dict[str, str]
) -> None:
    """P-34, P-41, P-54, D-94: each follow-up is the next worker's job; the last one answers."""
    ended = run(scratch, bus_env)
    assert ended.returncode == 0, ended.stderr
    answer, *trace = ended.stdout.splitlines()
    assert json.loads(answer) == {
        "verdict": "mend it",
        "findings": [
            "line 3: space at the end",
            "line 2: prints",
            "line 6: something is left to do",
        ],
    }
    told = [line for line in trace if "→" in line]
    types = [
        "change.request",
        "change.linted",
        "change.remark",
        "change.remark",
        "change.reviewed",
        "change.done",
    ]
    assert [type for line, type in zip(told, types, strict=True) if f"  {type}  " in line] == types
    assert sum(": completed, attempt 1" in line for line in trace) == 3
    assert list(scratch.iterdir()) == []


def test_change_that_a_worker_refuses_ends_the_request_with_a_failure(
    scratch: Path, tmp_path: Path, bus_env: dict[str, str]
) -> None:
    """P-38, D-70: exit status 78 is not tried again; its answer ends the conversation."""
    empty = tmp_path / "empty"
    empty.touch()
    ended = run(scratch, bus_env, empty)
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[0] == "there is no change to look at"
    assert sum("claim" in line for line in ended.stdout.splitlines()) == 1
    assert list(scratch.iterdir()) == []
