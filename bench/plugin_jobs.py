"""What does a job of a plugin cost beyond its program, and how late does a due one begin?

The program is a shell that prints a response. It runs alone, under the supervisor that runs all
programs; then as a job, from the commit of its request to its end with all that follows. Beside it
many jobs with 8 workers, how busy these keep all processors with programs that compute, the time
from a due time to its claim, and a service without work.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import (
    Contender,
    at_least,
    at_most,
    compare,
    options,
    percentiles,
    record,
    spreads,
    summary,
    tell,
)

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.submission import JobRequest, Submission, Submitted, job_of
from ackbus.automation.schedules.tables import Decisions
from ackbus.automation.service import Service
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.queues.queues import Queues
from ackbus.workers.processes.run_process import run_process
from ackbus.workers.processes.supervisors import Supervisors

#: How many jobs one after the other are in a round, and how many side by side.
ONE_BY_ONE, TOGETHER = 50, 400

#: How many plugins have a schedule, how often each is due, and for how long they are watched.
SCHEDULED, EVERY_MS, WATCHED_S = 20, 500, 10.0

#: How long after its start a service is watched, in milliseconds: at first everything is due.
STARTED_MS = 1500

#: How long a service without work is watched, in seconds.
IDLE_S = 10.0

#: The longest wait between two looks whether a job is over, in seconds.
_LOOK_S = 0.0002

#: How many programs compute side by side in a round, and how long each, in seconds.
COMPUTING, COMPUTES_S = 40, 0.2

COMPUTATION = f"""#!{sys.executable} -S
import time
while time.process_time() < {COMPUTES_S}: pass
print('{{"status":"ok","result":""}}')
"""

PROGRAM = """#!/bin/sh
echo '{"status":"ok","result":""}'
"""

MANIFEST = """
manifest_spec: ductile.plugin
manifest_version: 1
name: {name}
version: 1.0.0
protocol: 2
entrypoint: run.sh
commands: {{poll: {{type: read}}}}
"""


def folder(path: Path, plugins: dict[str, str], text: str = PROGRAM) -> Path:
    """Write a folder of configuration with plugins, each with its settings, and their program."""
    lines = [f"  {name}: {{enabled: true{settings}}}" for name, settings in plugins.items()]
    path.mkdir()
    head = "plugin_roots: [plugins]\nservice: {max_workers: 8}\nplugins:\n"
    (path / "config.yaml").write_text(head + "\n".join(lines) + "\n")
    for name in plugins:
        plugin = path / "plugins" / name
        plugin.mkdir(parents=True)
        (plugin / "manifest.yaml").write_text(MANIFEST.format(name=name))
        program = plugin / "run.sh"
        program.write_text(text)
        program.chmod(0o755)
    return path


@contextmanager
def serving(bus_dir: Path, config: Path) -> Iterator[Bus]:
    """Run the service of a folder in a thread of this process."""
    ready = threading.Event()
    with Bus.init(bus_dir) as bus, Bus.open(bus_dir) as own:
        service = Service(own, lambda: examine_folder(config, {}))

        def run() -> None:
            try:
                service.run(ready.set)
            finally:
                engine_of(own).close_thread()

        thread = threading.Thread(target=run)
        thread.start()
        ready.wait()
        try:
            yield bus
        finally:
            service.stop()
            thread.join()


def submit(submission: Submission) -> Submitted:
    """Submit a job, and return it."""
    done = submission.submit(JobRequest(plugin="p0", command="poll", submitted_by="cli"))
    assert isinstance(done, Submitted)
    return done


def wait_for(bus: Bus, done: Submitted) -> None:
    """Wait until a job is over."""
    while job_of(bus, done.seq, done.queue).ended_at_ms is None:
        time.sleep(_LOOK_S)


def programs(path: Path, supervisors: Supervisors, count: int) -> Contender:
    """Running the program alone; seconds for each."""

    def run() -> float:
        started = time.perf_counter()
        for _ in range(count):
            end = run_process(
                [str(path)], b"{}", env=dict(os.environ), timeout_s=60, supervisors=supervisors
            )
            assert end.exit_code == 0
        return (time.perf_counter() - started) / count

    return run


def jobs(bus: Bus, count: int) -> Contender:
    """Jobs one after the other, each from the commit of its request to its end."""
    submission = Submission(bus)

    def run() -> float:
        took = 0.0
        for _ in range(count):
            done = submit(submission)
            started = time.perf_counter()
            wait_for(bus, done)
            took += time.perf_counter() - started
        return took / count

    return run


def many_jobs(bus: Bus, count: int) -> Contender:
    """Many jobs side by side; seconds for each."""
    submission = Submission(bus)

    def run() -> float:
        started = time.perf_counter()
        last = [submit(submission) for _ in range(count)][-1]
        wait_for(bus, last)
        return (time.perf_counter() - started) / count

    return run


def due_and_claimed(bus: Bus, plugins: list[str], since_ms: int) -> list[tuple[float, float]]:
    """Return each due time since a moment, and when its job was claimed, in seconds."""
    found = []
    for name in plugins:
        info = Queues(bus).get(f"plugin.{name}")
        for decision in Decisions.of(bus).about(name, "default", limit=1000):
            message = None if decision.job_id is None else bus.get(decision.job_id)
            if message is not None and decision.nominal_ms >= since_ms:
                claims = Claims.of(bus).of_job(info, message.seq)
                due_s = decision.nominal_ms / 1000
                found += [(due_s, each.claimed_at_ms / 1000) for each in claims[:1]]
    return found


def main() -> None:
    """Ask, and write the record."""
    settings = options(__doc__ or "")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="ackbus-bench-") as scratch:
        place = Path(scratch)
        config = folder(place / "config", {"p0": ""})
        program = config / "plugins" / "p0" / "run.sh"
        with serving(place / "bus", config) as bus, Supervisors() as supervisors:
            one_by_one = settings.scaled(ONE_BY_ONE)
            times = compare(
                {
                    "the program alone": programs(program, supervisors, one_by_one),
                    "as a job": jobs(bus, one_by_one),
                    "jobs with 8 workers": many_jobs(bus, settings.scaled(TOGETHER)),
                },
                settings.rounds,
            )
            time.sleep(1)
            watched_s, before = settings.scaled(round(IDLE_S), 2), time.process_time()
            time.sleep(watched_s)
            idle = (time.process_time() - before) / watched_s
        computing = folder(place / "computing", {"p0": ""}, COMPUTATION)
        with serving(place / "computed", computing) as bus:
            run = many_jobs(bus, settings.scaled(COMPUTING))
            used = [COMPUTES_S / run() / (os.cpu_count() or 1) for _ in range(settings.rounds)]
        # Other intervals for each, so that they don't all want the workers at the same moment.
        plugins = {
            f"p{number}": f", schedules: [{{every: {EVERY_MS + 17 * number}ms}}]"
            for number in range(SCHEDULED)
        }
        every = folder(place / "every", plugins)
        with serving(place / "scheduled", every) as bus:
            since_ms = bus.now_ms() + STARTED_MS
            time.sleep(STARTED_MS / 1000 + settings.scaled(round(WATCHED_S), 2))
            late = [claimed - due for due, claimed in due_and_claimed(bus, list(plugins), since_ms)]
    beyond = [
        job - program
        for job, program in zip(times["as a job"], times["the program alone"], strict=True)
    ]
    tell(f"idle: {idle:.2%} of a processor; {len(late)} due times")
    targets = [
        at_most("a job beyond its program", 0.005, summary(beyond), "s"),
        at_most("due to claimed, p99", 0.05, summary([percentiles(late)["p99_ms"] / 1000]), "s"),
        at_least("8 workers that compute, part of all processors", 0.9, summary(used)),
        at_most("idle service, part of a processor", 0.003, summary([idle]), ""),
    ]
    record("jobs of plugins", spreads(times | {"due to claimed": late}), settings, targets=targets)


if __name__ == "__main__":
    main()
