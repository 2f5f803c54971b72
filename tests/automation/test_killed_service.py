"""A service that is killed (kill -9): runs, what followed and what is stored, counted exactly."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ackbus import Bus
from ackbus.automation.jobs.alarms import Alarms
from ackbus.automation.jobs.endings import Endings
from ackbus.automation.jobs.job_request import JobRequest, Submitted
from ackbus.automation.jobs.plugin_queues import bury_removed, follow, queue_of
from ackbus.automation.jobs.recovery import recover
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.plugins.discovery import discover
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.records.fence import Fence
from ackbus.automation.records.job_log import JobLog
from ackbus.schema.queries import engine_of, file_of
from ackbus.subscribers.jobs.claims import Claims
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import QueueSet

from ..conftest import wait_until
from ..sizes import size
from .conftest import Folder
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
    count, kills, chance = size(sample=40, whole=300), size(sample=8, whole=60), random.Random(7)
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


# Killed at each statement --------------------------------------------------------------------


def killed_at(bus_dir: Path, at: int, act: Callable[[Bus], None]) -> bool:
    """Do something in a child that is killed before statement `at`; say whether there was one."""
    child = os.fork()
    if child == 0:
        try:
            _do(bus_dir, at, act)
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def _do(bus_dir: Path, at: int, act: Callable[[Bus], None]) -> None:
    seen = 0

    def count(_: apsw.Cursor, __: str, ___: object) -> bool:
        nonlocal seen
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    with Bus.open(bus_dir) as bus:
        file_of(bus).connection.exec_trace = count
        act(bus)
        file_of(bus).connection.exec_trace = None


def endings_of(bus: Bus) -> Endings:
    submission = Submission(bus)
    token = Fence(engine_of(bus)).begin(Path("config"), "h")
    breakers = Breakers.of(bus)
    return Endings(bus, token, submission, breakers, Alarms(bus, submission))


def prepared(folder: Folder, bus_dir: Path, count: int) -> list[int]:
    """Makes the queue of a plugin with some jobs in it; returns their seqs."""
    plugins = "plugins: {echo: {enabled: true, parallelism: 2}}"
    folder.write(config=f"plugin_roots: [plugins]\nservice: {{max_workers: 2}}\n{plugins}\n")
    folder.plugin("echo", run=OK)
    with Bus.open(bus_dir) as bus:
        take(folder)(bus)
        submission = Submission(bus)
        request = JobRequest(plugin="echo", command="poll", submitted_by="scheduler")
        found = [submission.submit(request) for _ in range(count)]
    return [each.seq for each in found if isinstance(each, Submitted)]


def take(folder: Folder) -> Callable[[Bus], None]:
    config = folder.load()
    plugins = discover(config).plugins

    def act(bus: Bus) -> None:
        for plugin in plugins.values():
            follow(bus, plugin, config.service)
        bury_removed(bus, set(plugins))

    return act


def claim(bus: Bus) -> None:
    QueueSet(bus, [queue_of("echo")]).claim("service", group="automation", limit=2)


STRIDES = [3, pytest.param(1, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.requirement("D-133")
def test_recovery_that_is_killed_anywhere_counts_one_attempt(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    bus.close()
    at, died = 1, True
    while died:
        seqs = prepared(folder, bus_dir, 2)
        with Bus.open(bus_dir) as opened:
            claim(opened)
        died = killed_at(bus_dir, at, recovers)
        with Bus.open(bus_dir) as opened:
            recover(opened, endings_of(opened))
            found = [Jobs.of(opened).of_message(seq)[0] for seq in seqs]
            assert [(job.state, job.attempt) for job in found] == [("queued", 2)] * 2, at
            log = JobLog(engine_of(opened))
            for seq in seqs:
                message = opened.get(seq)
                assert message is not None
                assert [entry.attempt for entry in log.of_job(message.id)] == [1]
            Queue.open(opened, queue_of("echo")).jobs.purge()
        at += stride
    assert at > 20


def recovers(bus: Bus) -> None:
    recover(bus, endings_of(bus))


@pytest.mark.parametrize("stride", STRIDES)
def test_claim_that_is_killed_anywhere_is_whole_or_not_there(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    bus.close()
    at, died = 1, True
    while died:
        seqs = prepared(folder, bus_dir, 2)
        died = killed_at(bus_dir, at, claim)
        with Bus.open(bus_dir) as opened:
            info = Queue.open(opened, queue_of("echo")).info
            active = [seq for _, seq in Claims.of(opened).active(info)]
            states = {seq: Jobs.of(opened).of_message(seq)[0].state for seq in seqs}
            assert active in ([], seqs), at
            assert set(states.values()) == {"running" if active else "queued"}, at
            recover(opened, endings_of(opened))
            Queue.open(opened, queue_of("echo")).jobs.purge()
        at += stride
    assert at > 10


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.requirement("D-136", "R-15")
def test_configuration_that_is_taken_again_after_a_kill_is_taken_whole(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    """A plugin is removed, another has other limits; the next start does what a kill has left."""
    bus.close()
    at, died = 1, True
    while died:
        seqs = prepared(folder, bus_dir, 2)
        folder.write(
            config="plugin_roots: [plugins]\n"
            f"plugins: {{other: {{enabled: true, retry: {{max_attempts: {1 + at % 90}}}}}}}\n"
        )
        folder.plugin("other", run=OK)
        act = take(folder)
        died = killed_at(bus_dir, at, act)
        with Bus.open(bus_dir) as opened:
            act(opened)
            found = [Jobs.of(opened).of_message(seq)[0] for seq in seqs]
            assert [(job.state, job.error) for job in found] == [("dead", "plugin removed")] * 2
            policy = Queue.open(opened, queue_of("other")).info.policy
            assert policy.max_attempts == 1 + at % 90
        at += stride
    assert at > 10
