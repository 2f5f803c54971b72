"""`bus demo --automation` as a person runs it: a real service, counts from the log."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.demo.automation import read_proof

from ..conftest import RunBus

pytestmark = pytest.mark.slow


def test_everything_happens_as_often_as_it_should(run_bus: RunBus, tmp_path: Path) -> None:
    done = run_bus("demo", "--automation", "--dir", tmp_path / "bus", "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)["summary"]
    assert summary["proof"] == {
        "jobs": 14,
        "ended_once": 14,
        "fired": 7,
        "skipped": {"the circuit breaker is open": 2},
        "fanned_out": {"events": 2, "alarm": 2, "chart": 2},
        "webhooks": 1,
        "steps": ["unpack", "check", "store"],
        "attempts": ["failed", "completed"],
        "breaker": ["closed", "open", "half_open", "closed"],
        "holds": True,
    }
    assert 3590 < summary["went_by_s"] < 3601
    assert "a signed webhook was taken, its repetition known, and a forged one refused" in done.err
    lines = (tmp_path / "bus/bus.jsonl").read_text().splitlines()
    with Bus.open(tmp_path / "bus") as bus:
        assert len(lines) == bus.log.newest_seq()


def test_the_commands_of_the_report_show_what_happened(run_bus: RunBus, tmp_path: Path) -> None:
    done = run_bus("demo", "--automation")
    assert (done.code, "Proof, counted in the log: it holds" in done.out) == (0, True), done.err
    _, _, below = done.out.partition("Look around:\n")
    looks, _, last = below.partition("See it all in the browser:\n")
    commands = [shlex.split(line)[1:] for line in looks.splitlines()]
    shown = {words[0]: run_bus(*words) for words in commands}
    assert {name: each.code for name, each in shown.items()} == dict.fromkeys(shown, 0)
    assert "the circuit breaker is open" in shown["schedule"].out
    assert "the scales are busy" in run_bus(*commands[2]).out
    assert "plugin.store.handle" in shown["trace"].out
    assert "shelf 4" in shown["search"].out
    removal = shlex.split(last.splitlines()[-1])
    assert removal[:2] == ["rm", "-rf"]
    assert commands[0][-1].startswith(removal[2])  # the folder of the configuration
    subprocess.run(removal, check=True)
    assert not Path(removal[2]).exists()


def test_the_proof_fails_where_a_job_is_too_many(run_bus: RunBus, tmp_path: Path) -> None:
    run_bus("demo", "--automation", "--dir", tmp_path / "bus")
    with Bus.open(tmp_path / "bus") as bus:
        assert read_proof(bus).holds
        Submission(bus).submit(JobRequest(plugin="alarm", command="handle", submitted_by="cli"))
        proof = read_proof(bus)
    assert (proof.holds, proof.fanned_out["alarm"], proof.ended_once) == (False, 3, 14)


def test_a_directory_with_a_bus_is_refused(run_bus: RunBus, bus: Bus) -> None:
    refused = run_bus("demo", "--automation", "--dir", bus.directory)
    assert (refused.code, "holds a bus already" in refused.err) == (3, True)
