"""A service that is killed (kill -9): runs, what followed and what is stored, counted exactly."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.endings import JOB_DEAD
from ackbus.automation.jobs.submission import JobRequest, Submission, follow, queue_of
from ackbus.automation.plugins.discovery import discover
from ackbus.automation.records.facts import JobLog
from ackbus.automation.service import Service
from ackbus.schema.queries import engine_of, file_of
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.jobs.jobs import Job, Jobs
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import QueueSet

from ..conftest import wait_until
from ..sizes import size
from .conftest import Folder
from .killing import STRIDES, Act, Steps, kills, whole
from .running import OK
from .service_process import ServiceProcess

pytestmark = pytest.mark.slow

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 3}
    plugins:
      source: {enabled: true, retry: {max_attempts: 100, backoff_base: 1ms}}
      left: {enabled: true, retry: {max_attempts: 100, backoff_base: 1ms}}
      right: {enabled: true, parallelism: 1, retry: {max_attempts: 100, backoff_base: 1ms}}
    routes:
      - {from: source, event_type: made, to: left}
      - {from: source, event_type: made, to: right}
"""


def appending(path: Path, answer: str) -> str:
    """The program of a plugin that appends the id of its job to a file, and takes some time."""
    return f"#!/bin/sh\ncat > /dev/null\necho $BUS_JOB_ID >> {path}\nsleep 0.02\necho '{answer}'\n"


MADE = '{"status":"ok","result":"","events":[{"type":"made","payload":{"n":1}}]}'
DONE = '{"status":"ok","result":""}'


@pytest.mark.requirement("D-17", "D-02", "D-03", "D-103", "D-27")
def test_nothing_is_lost_and_nothing_follows_twice_through_random_kills(
    folder: Folder, tmp_path: Path
) -> None:
    """Each attempt that began has a claim; each event has one job for each of its two targets."""
    count, kills, chance = size(sample=20, whole=300), size(sample=4, whole=60), random.Random(7)
    ran = {name: tmp_path / name for name in ("source", "left", "right")}
    folder.write(config=CONFIG)
    for name, path in ran.items():
        folder.plugin(name, run=appending(path, MADE if name == "source" else DONE))
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        submission = Submission(bus)
        for _ in range(count):
            submission.submit(JobRequest(plugin="source", command="poll", submitted_by="cli"))
        for _ in range(kills):
            begun = lines(ran)
            wanted = begun + chance.randrange(1, 12)
            wait_until(lambda n=wanted: lines(ran) >= n or is_over(bus, count))  # type: ignore[misc]
            service.kill()
            service.start_again().ready()
        wait_until(lambda: is_over(bus, count))
        assert service.stop() == 0
        found = jobs(bus)
        assert Counter(name for name, *_ in found.values()) == {
            "source": count,
            "left": count,
            "right": count,
        }
        assert {state for _, state, _ in found.values()} == {"succeeded"}
        events = list(bus.read(type="plugin.event"))
        assert len(events) == count
        assert {event.in_reply_to for event in events} == {
            job_id for job_id, (name, *_) in found.items() if name == "source"
        }
        followed = Counter(
            (message.headers["job"]["source_event_id"], message.type)
            for message in bus.read(type="plugin.*.handle")
        )
        assert set(followed.values()) == {1}
        assert len(followed) == 2 * count
        attempts = Counter({job_id: attempt for job_id, (_, _, attempt) in found.items()})
        runs = Counter(line for path in ran.values() for line in path.read_text().split())
        assert set(runs) == set(found)
        # A kill may come between a claim and its program: then the attempt counts, and ran nothing.
        assert all(runs[job_id] <= attempts[job_id] for job_id in found)
        assert sum((attempts - runs).values()) <= kills * 3
        log = JobLog(engine_of(bus))
        for job_id, (_, _, attempt) in found.items():
            assert [entry.attempt for entry in log.of_job(job_id)] == list(range(1, attempt + 1))


def lines(ran: dict[str, Path]) -> int:
    return sum(len(path.read_text().split()) for path in ran.values() if path.exists())


def jobs(bus: Bus) -> dict[str, tuple[str, str, int]]:
    """The plugin, the state and the last attempt of each job, by its id."""
    rows = file_of(bus).rows("SELECT id, plugin, status, attempt FROM job_queue")
    return {id: (plugin, state, attempt) for id, plugin, state, attempt in rows}


def is_over(bus: Bus, count: int) -> bool:
    found = jobs(bus).values()
    return len(found) == 3 * count and {state for _, state, _ in found} == {"succeeded"}


# Killed at each step -------------------------------------------------------------------------

PLUGINS = """
    plugin_roots: [plugins]
    service: {max_workers: 2, on_failure: hear}
    plugins:
      echo: {enabled: true, parallelism: 2}
      hear: {enabled: true}
"""


def prepared(folder: Folder, bus_dir: Path) -> list[int]:
    """Makes the queues of two plugins, and two jobs in one; returns their seqs."""
    folder.write(config=PLUGINS)
    for name in ("echo", "hear"):
        folder.plugin(name, run=OK)
    config = folder.load()
    request = JobRequest(plugin="echo", command="poll", submitted_by="scheduler")
    with Bus.open(bus_dir) as bus:
        for plugin in discover(config).plugins.values():
            follow(bus, plugin, config.service)
        found = [Submission(bus).submit(request) for _ in range(2)]
    return [each.seq for each in found]


def claim(bus: Bus) -> None:
    QueueSet(bus, [queue_of("echo")]).claim("service", group="automation", limit=2)


def job(bus: Bus, seq: int) -> Job:
    (found,) = Jobs.of(bus).of_message(seq)
    return found


@pytest.mark.parametrize("stride", STRIDES)
def test_claim_that_is_killed_anywhere_is_whole_or_not_there(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    bus.close()
    seqs: list[int] = []

    def prepare(_: int) -> Act:
        seqs[:] = prepared(folder, bus_dir)
        return whole(claim)

    for step in kills(bus_dir, stride, 10, prepare):
        with Bus.open(bus_dir) as opened:
            queue = Queue.open(opened, queue_of("echo"))
            active = [seq for _, seq in Claims.of(opened).active(queue.info)]
            assert active in ([], seqs), step
            state = "running" if active else "queued"
            assert [job(opened, seq).state for seq in seqs] == [state] * 2, step
            queue.jobs.lose_running("the test goes on")
            queue.jobs.purge()


class Beginning(Service):
    """A service whose steps count until jobs can run; then it ends."""

    def begin(self, steps: Steps) -> None:
        steps.begin()
        self.run(steps.end)

    def _loop(self, listener: object) -> None:
        """Run no job."""


def begins(folder: Folder) -> Act:
    return lambda bus, steps: Beginning(bus, lambda: examine_folder(folder.path, {})).begin(steps)


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.requirement("D-133", "X-33")
def test_start_that_is_killed_anywhere_counts_one_attempt_of_what_ran(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    """Of two jobs that ran one has another attempt; the other had its last, which is told once."""
    bus.close()
    seqs: list[int] = []

    def prepare(_: int) -> Act:
        seqs[:] = prepared(folder, bus_dir)
        with Bus.open(bus_dir) as opened:
            claim(opened)
            for table in ("jobs", "claims"):
                file_of(opened).rows(f"UPDATE {table} SET attempt = 4 WHERE seq = ?", (seqs[1],))
        return begins(folder)

    for step in kills(bus_dir, stride, 60, prepare):
        with Bus.open(bus_dir) as opened:
            begins(folder)(opened, Steps.uncounted(opened))
            found = [job(opened, seq) for seq in seqs]
            assert [(each.state, each.attempt) for each in found] == [("queued", 2), ("dead", 4)]
            ids = [message.id for seq in seqs if (message := opened.get(seq)) is not None]
            log = JobLog(engine_of(opened))
            assert [[each.attempt for each in log.of_job(id)] for id in ids] == [[1], [4]], step
            dead = [
                message.headers["job"]["parent_job_id"]
                for message in opened.read(type="plugin.hear.handle")
                if message.headers["event"]["type"] == JOB_DEAD
            ]
            assert (dead.count(ids[0]), dead.count(ids[1])) == (0, 1), step
            Queue.open(opened, queue_of("echo")).jobs.purge()


class Reloading(Beginning):
    """A service that takes another configuration as soon as it has begun; then it ends."""

    def reload_after(self, change: Callable[[], None], steps: Steps) -> None:
        self._change, self._steps = change, steps
        self.run()

    def _loop(self, listener: object) -> None:
        self._change()
        self._steps.begin()
        self._reload()
        self._steps.end()


def configure(folder: Folder, number: int) -> None:
    """Writes a configuration that differs in all from the one of the last number."""
    other = ("left", "right")[number % 2]
    folder.write(
        config=f"""
        plugin_roots: [plugins]
        plugins:
          {other}: {{enabled: true}}
          echo:
            enabled: true
            retry: {{max_attempts: {1 + number % 90}}}
            schedules: [{{every: {1 + number % 90}h}}]
            config: {{number: {number}}}
        """
    )


def in_the_tables(bus: Bus) -> list[object]:
    """The parts of a configuration that are stored: rules, schedules, jobs that set up plugins."""
    file = file_of(bus)
    return [
        file.rows("SELECT max_attempts FROM queues WHERE name = 'plugin.echo'"),
        file.rows("SELECT config_hash FROM schedules"),
        file.rows("SELECT count(*) FROM messages WHERE type = 'plugin.echo.init'"),
    ]


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.requirement("D-134", "D-136", "R-15")
def test_reload_that_is_killed_anywhere_has_taken_all_or_nothing(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    """A job of a plugin that was removed is dead at the next start at the latest."""
    bus.close()
    noted = folder.path / "noted"
    for name in ("echo", "left", "right"):
        path = folder.plugin(name, run=OK) / "manifest.yaml"
        path.write_text(path.read_text().replace("poll:", "init: {type: read}\n  poll:"))

    def prepare(step: int) -> Act:
        configure(folder, 2 * step)

        def act(bus: Bus, steps: Steps) -> None:
            service = Reloading(bus, lambda: examine_folder(folder.path, {}))

            def change() -> None:
                request = JobRequest(plugin="left", command="poll", submitted_by="cli")
                waits = service.submission.submit(request)
                noted.write_text(json.dumps([waits.seq, in_the_tables(bus)]))
                configure(folder, 2 * step + 1)

            service.reload_after(change, steps)

        return act

    for step in kills(bus_dir, stride, 60, prepare):
        seq, before = json.loads(noted.read_text())
        with Bus.open(bus_dir) as opened:
            after = json.loads(json.dumps(in_the_tables(opened)))
            same = [was == now for was, now in zip(before, after, strict=True)]
            assert same in ([True] * 3, [False] * 3), (step, before, after)
            begins(folder)(opened, Steps.uncounted(opened))
            assert in_the_tables(opened)[0] == [(1 + (2 * step + 1) % 90,)]
            found = job(opened, seq)
            assert (found.state, found.error) == ("dead", "plugin removed"), step
