"""Plugins that keep to nothing: each has one end, nothing of them is left, and others run on."""

import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted
from ackbus.automation.records.facts import JobLog
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.jobs import Job, Jobs

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess

pytestmark = pytest.mark.slow

MIB = 1024 * 1024

#: The programs, by the command that each is for, and the error of each in its end or on stderr.
#: `$M` is a number of seconds by which what they leave behind is found.
PROGRAMS = {
    "flood": ("head -c 104857600 /dev/zero | tr '\\0' x", r"more than 10485760 bytes"),
    "murmur": ("head -c 104857600 /dev/zero | tr '\\0' e >&2; ok", None),
    "silent": (":", r"^protocol error: "),
    "config": ("exit 78", r"forbids another attempt"),
    "killed": ("kill -9 $$", r"signal 9|SIGKILL"),
    "holds": ("sleep $M & ok", None),
    "holds_deaf": ("(trap '' TERM; sleep $M; sleep $M) & ok", None),
    "leaves": ("for n in 1 2 3 4 5 6 7 8 9; do (setsid sh -c '(sleep $M &)'); done; ok", None),
    "deaf": ("trap '' TERM; sleep $M; sleep $M", r"^timed out after 1 seconds"),
    "hungry": (f"{sys.executable} -c 'bytes(1 << 30)'", r"MemoryError"),
    "busy": ("while :; do :; done", r"signal (9|24)|SIG(KILL|XCPU)"),
    "many_files": (
        f"{sys.executable} -c '[open(\"run.sh\") for n in range(99)]'",
        r"Too many open",
    ),
}

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 3}
    plugins:
      good: {enabled: true}
      bad:
        enabled: true
        parallelism: 2
        timeouts: {deaf: 1s}
        retry: {max_attempts: 2, backoff_base: 1ms}
        limits: {memory: 512MiB, cpu: 2s, open_files: 64}
"""


@pytest.fixture
def marker() -> str:
    return f"86400.{uuid.uuid4().int}"


@pytest.fixture
def service(folder: Folder, marker: str) -> Iterator[ServiceProcess]:
    commands = ", ".join(f"{name}: {{type: read}}" for name in PROGRAMS)
    manifest = folder.plugin("bad") / "manifest.yaml"
    text = manifest.read_text().partition("commands:")[0]
    manifest.write_text(f"{text}commands: {{{commands}}}\n")
    cases = "".join(
        f'  *\'"command":"{name}"\'*) {program} ;;\n' for name, (program, _) in PROGRAMS.items()
    )
    ok = 'ok() { echo \'{"status": "ok", "result": "done"}\'; }'
    run = f"#!/bin/sh\nexport M={marker}\n{ok}\ncase $(cat) in\n{cases}esac\n"
    (folder.path / "plugins" / "bad" / "run.sh").write_text(run)
    folder.plugin("good", run=OK)
    folder.write(config=CONFIG)
    with ServiceProcess(folder.path).ready() as service:
        yield service


def submit(bus: Bus, plugin: str, command: str = "poll") -> Submitted:
    done = Submission(bus).submit(JobRequest(plugin=plugin, command=command, submitted_by="cli"))
    assert isinstance(done, Submitted)
    return done


def ended(bus: Bus, submitted: Submitted) -> Job:
    """Waits for the end of a job."""

    def job() -> Job:
        (found,) = Jobs.of(bus).of_message(submitted.seq)
        return found

    wait_until(lambda: job().ended_at_ms is not None, 90)
    return job()


def most_memory(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def left(marker: str) -> list[str]:
    """The processes that have the marker among their arguments."""
    ps = ["ps", "-A", "-o", "stat=,args="]
    lines = subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [line for line in lines if marker in line and not line.startswith("Z")]


def test_each_unruly_plugin_has_its_end_and_keeps_no_other_from_running(
    service: ServiceProcess, marker: str
) -> None:
    with service.open() as bus:
        jobs = {command: submit(bus, "bad", command) for command in PROGRAMS}
        assert all(ended(bus, submit(bus, "good")).state == "succeeded" for _ in range(5))
        for command, (_, error) in PROGRAMS.items():
            job = ended(bus, jobs[command])
            log = JobLog(engine_of(bus)).of_job(jobs[command].job_id)
            attempts = 1 if error is None or command == "config" else 2
            assert len(log) == job.attempt == attempts, (command, job)
            if error is None:
                assert job.state == "succeeded", (command, job)
            else:
                assert job.state == "dead", command
                told = f"{job.error}\n{log[-1].stderr}"
                assert re.search(error, told), (command, told)
            assert all(len(entry.result or "") <= 10 * MIB for entry in log)
            assert all(len(entry.stderr or "") <= 65_536 for entry in log)
        assert left(marker) == []
        assert most_memory(service.process.pid) < 400 * MIB
        assert ended(bus, submit(bus, "good")).state == "succeeded"
    assert service.stop() == 0
