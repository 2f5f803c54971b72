"""The turns of a service: what each does, what it costs, and what has the next one come."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import apsw
import pytest

from ackbus import Bus, Queue
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs import dispatcher
from ackbus.automation.records.breakers import Breakers
from ackbus.automation.schedules.scheduler import Scheduler
from ackbus.automation.schedules.tables import Decisions
from ackbus.automation.service import Service
from ackbus.bus.doorbell import Doorbell
from ackbus.schema.errors import RowRefused
from ackbus.schema.message.times import now_ms
from ackbus.schema.processes import start_thread
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from ..performance.statements import name_of
from .conftest import Folder
from .running import OK, Running, serving

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2, tick_interval: 10m, on_failure: hear}
    plugins:
      echo: {enabled: true, retry: {max_attempts: 3, backoff_base: 300ms}}
      held: {enabled: true}
      hear: {enabled: true}
"""

ONE_WORKER = CONFIG.replace("max_workers: 2", "max_workers: 1")


class Turns(Service):
    """A service that counts its turns, and the statements of each; `after` is called at the end."""

    statements: list[Counter[str]]

    def _step(self) -> int | None:
        seen: Counter[str] = Counter()

        def note(_: apsw.Cursor, sql: str, __: object) -> bool:
            seen[name_of(sql.strip())] += 1
            return True

        connection = file_of(self.bus).connection
        connection.exec_trace = note
        try:
            return super()._step()
        finally:
            connection.exec_trace = None
            self.statements.append(seen)
            self.after()

    def after(self) -> None:
        pass


@pytest.fixture
def configured(folder: Folder, tmp_path: Path) -> Folder:
    folder.write(config=CONFIG)
    folder.plugin("echo", run=OK)
    folder.plugin("hear", run=OK)
    wait = f"echo $$ >> {tmp_path}/held\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\n"
    folder.plugin("held", run=OK.replace("cat >", f"{wait}cat >"))
    return folder


@contextmanager
def turning(
    bus: Bus, folder: Folder, after: Callable[[Turns], object] = lambda _: None
) -> Iterator[tuple[Running, Turns]]:
    with Bus.open(bus.layout.directory, write_timeout_s=0.1) as own:
        service = Turns(own, lambda: examine_folder(folder.path, {}))
        service.statements = []
        service.after = lambda: after(service)  # type: ignore[method-assign, assignment, return-value]
        with serving(bus, service) as run:
            yield run, service


def test_job_that_is_due_begins_in_the_turn_that_decides_so(bus: Bus, configured: Folder) -> None:
    every = CONFIG.replace(
        "echo: {enabled: true", "echo: {enabled: true, schedules: [{every: 200ms}]"
    )
    configured.write(config=every)
    waiting = []

    def look(service: Turns) -> None:
        waiting.append(Queue.open(service.bus, "plugin.echo").jobs.counts()["open"])

    def fired() -> int:
        decided = Decisions.of(bus).about("echo", "default", limit=50)
        return sum(each.verdict == "fired" for each in decided)

    with turning(bus, configured, look):
        wait_until(lambda: fired() >= 3)
    assert set(waiting) == {0}


def test_jobs_run_while_no_schedule_can_be_decided(
    bus: Bus, configured: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[int] = []

    def refuse(_: Scheduler) -> None:
        refused.append(1)
        raise RowRefused("UNIQUE constraint failed")

    with turning(bus, configured) as (run, _):
        monkeypatch.setattr(Scheduler, "tick", refuse)
        assert run.ended(run.submit("echo")).state == "succeeded"
    assert refused


@pytest.mark.slow
def test_job_whose_time_comes_while_none_may_begin_costs_no_turns(
    bus: Bus, configured: Folder, tmp_path: Path
) -> None:
    # Time enough for the other job to begin before the next attempt.
    configured.write(config=ONE_WORKER.replace("3, backoff_base: 300ms", "2, backoff_base: 3s"))
    configured.plugin("echo", run="#!/bin/sh\nexit 1\n")
    with turning(bus, configured) as (run, service):
        failing = run.submit("echo")
        wait_until(lambda: run.job(failing).attempt == 2)
        held = run.submit("held")
        wait_until((tmp_path / "held").exists)
        before = len(service.statements)
        wait_until(lambda: now_ms() > run.job(failing).available_at_ms + 300)
        assert run.job(failing).attempt == 2
        assert len(service.statements) - before < 20
        (tmp_path / "go").touch()
        assert run.ended(held).state == "succeeded"
        assert run.ended(failing).state == "dead"


def test_job_that_is_stored_in_the_middle_of_a_turn_begins_at_the_next(
    bus: Bus, configured: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a writer that rings no bell; the longest sleep is ten minutes."""
    submitted: list[str] = []

    def store_once(service: Turns) -> None:
        if submitted:
            return
        monkeypatch.setattr(Doorbell, "ring", lambda _: None)
        with Bus.open(service.bus.layout.directory) as other:
            submitted.append(Running(other, service, threading.current_thread()).submit("echo"))

    with turning(bus, configured, store_once) as (run, _):
        wait_until(lambda: submitted)
        assert run.ended(submitted[0]).state == "succeeded"


# Jobs that can't begin ------------------------------------------------------------------------


def test_job_for_which_there_is_no_thread_begins_a_little_later(
    bus: Bus, configured: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its attempt does not count, and trying costs no turns."""
    refused: list[int] = []

    def refuse(target: Callable[[], object], name: str) -> threading.Thread:
        if not refused or now_ms() < refused[0] + 500:
            refused.append(now_ms())
            raise RuntimeError("can't start new thread")
        return start_thread(target, name)

    monkeypatch.setattr(dispatcher, "start_thread", refuse)
    with turning(bus, configured) as (run, service):
        before = len(service.statements)
        job_id = run.submit("echo")
        job = run.ended(job_id)
        assert (job.state, job.attempt) == ("succeeded", 1)
        first, *others = run.claims(job_id)
        assert first.error == "it can't begin: can't start new thread"
        assert [each.status for each in others] == ["completed"]
        assert [(each.status, each.attempt) for each in run.log(job_id)] == [("succeeded", 1)]
        assert len(service.statements) - before < 30


@pytest.mark.requirement("D-17")
def test_job_that_can_not_begin_is_logged_and_counted_and_told(
    bus: Bus, configured: Folder
) -> None:
    """The state of its plugin is damaged."""
    with turning(bus, configured) as (run, _):
        file_of(bus).rows(
            "INSERT INTO plugin_state (plugin_name, state) VALUES ('echo', ?)",
            ('{"a": "\\ud800"}',),
        )
        job_id = run.submit("echo", submitted_by="scheduler")
        job = run.ended(job_id)
        assert (job.state, job.attempt) == ("dead", 1)
        (entry,) = run.log(job_id)
        assert entry.status == "failed"
        assert str(entry.last_error).startswith("it can't begin: ")
        breaker = Breakers.of(bus).get("echo", "poll")
        assert (breaker.failure_count, breaker.last_job_id) == (1, job_id)
        (told,) = bus.read(type="plugin.hear.handle")
        assert run.ended(told.id).state == "succeeded"


def test_job_that_can_not_even_be_handed_back_keeps_no_other_from_beginning(
    bus: Bus, configured: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were claimed at once; another writer holds the bus as the first can't begin."""
    blocking = ExitStack()
    blocker = blocking.enter_context(Bus.open(bus.layout.directory))
    steps = iter(("block", "go on"))

    def begin(target: Callable[[], object], name: str) -> threading.Thread:
        step = next(steps, None)
        if step == "block":
            blocking.enter_context(blocker.transaction())
            raise RuntimeError("can't start new thread")
        if step == "go on":
            blocking.close()
        return start_thread(target, name)

    monkeypatch.setattr(dispatcher, "start_thread", begin)
    with turning(bus, configured) as (run, _):
        with bus.transaction():
            first, second = run.submit("echo"), run.submit("hear")
        assert run.ended(second).state == "succeeded"
        assert run.ended(first).state == "succeeded"


# What a turn costs ----------------------------------------------------------------------------


def test_turn_looks_once_at_the_queues_and_opens_none_for_what_runs(
    bus: Bus, configured: Folder, tmp_path: Path
) -> None:
    with turning(bus, configured) as (run, service):
        run.submit("held")
        wait_until((tmp_path / "held").exists)
        before = len(service.statements)
        for _ in range(3):
            bus.publish("note", from_agent="me")
        wait_until(lambda: len(service.statements) > before)
        idle = service.statements[before]
        (tmp_path / "go").touch()
        wait_until(lambda: any(each["work.end_claim"] for each in service.statements))
        ended = next(each for each in service.statements if each["work.end_claim"])
    assert idle["work.work_of_queues"] == 1
    assert idle["work.queue"] == 0
    assert idle["work.claim_status"] == 1
    assert ended["work.queue"] <= 2
