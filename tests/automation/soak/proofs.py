"""Proofs of a soak: exact counts from the tables and from the files that plugins append to."""

import json
import subprocess
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from ackbus import Bus
from ackbus.automation.records.facts import JobLog
from ackbus.schema.queries import engine_of, file_of

from ..service_process import ServiceProcess
from .configuration import ASLEEP, Configuration
from .stage import Senders


class Proofs:
    """The proofs of one run; each raises an AssertionError where it does not hold."""

    def __init__(self, bus: Bus, configuration: Configuration, senders: Senders) -> None:
        self.bus, self.configuration, self.senders = bus, configuration, senders
        self._rows = file_of(bus).rows
        self.jobs = {
            id: (plugin, state, attempt)
            for id, plugin, state, attempt in self._rows(
                "SELECT m.id, substr(q.name, 8), j.state, j.attempt FROM jobs j"
                " JOIN queues q ON q.id = j.queue_id JOIN messages m ON m.seq = j.seq"
                " WHERE q.name GLOB 'plugin.*'"
            )
        }

    def all(self) -> None:
        self.each_time_is_decided_once()
        self.each_event_reaches_each_route_once()
        self.each_run_has_its_steps_and_its_baggage()
        self.each_delivery_is_one_job()
        self.what_was_told_is_stored()
        self.each_attempt_has_a_claim_and_an_end()
        self.no_refused_configuration_was_in_force()

    def each_time_is_decided_once(self) -> None:
        """No nominal time is decided twice, and each one that fired has its job."""
        rows = times_are_decided_once(self.bus)
        minutes = [row for row in rows if row[1] == "cron"]
        for before, after in pairwise(minutes):
            assert after[3] - before[4] == 60_000, (before, after)
        assert sum(row[1] == "once" for row in rows) == 1
        assert {row[1] for row in rows} >= {"often", "jitter", "all", "young", "by_day", "by_night"}

    def each_event_reaches_each_route_once(self) -> None:
        """An event has one job for each route, and one for the first step."""
        made = {id for id, (plugin, state, _) in self.jobs.items() if plugin == "source"}
        assert {self.jobs[id][1] for id in made} == {"succeeded"}
        events = {
            message.id: message.in_reply_to
            for message in self.bus.read(type="plugin.event")
            if message.from_agent == "source" and message.in_reply_to is not None
        }
        assert Counter(events.values()) == Counter(made)
        followed = Counter(
            (message.headers["job"]["source_event_id"], message.type)
            for name in ("left", "right", "one")
            for message in self.bus.read(type=f"plugin.{name}.handle")
        )
        wanted = {
            (id, f"plugin.{name}.handle") for id in events for name in ("left", "right", "one")
        }
        assert followed == Counter(wanted)

    def each_run_has_its_steps_and_its_baggage(self) -> None:
        plugins = Counter(plugin for plugin, *_ in self.jobs.values())
        assert plugins["one"] == plugins["two"] == plugins["three"] == plugins["source"] > 0
        told = dict(line.split() for line in self.configuration.ran("baggage"))
        roots = [id for id, (plugin, *_) in self.jobs.items() if plugin == "source"]
        assert Counter(told.values()) == Counter(roots)
        assert {id for id, (plugin, *_) in self.jobs.items() if plugin == "three"} == set(told)

    def each_delivery_is_one_job(self) -> None:
        told = self.senders.answered
        assert all(len(set(ids)) == 1 for ids in told.values())
        hooked = [message.id for message in self.bus.read(type="plugin.hooked.handle")]
        assert Counter(hooked) == Counter(ids[0] for ids in told.values())

    def what_was_told_is_stored(self) -> None:
        """Each answer of the API is a job; what had no answer is one at most."""
        called = [id for id, (plugin, *_) in self.jobs.items() if plugin == "called"]
        assert len(set(self.senders.called)) == len(self.senders.called) > 0
        assert set(self.senders.called) <= set(called)
        assert len(called) <= self.senders.calls
        assert all(self.bus.get(id) is not None for id in self.senders.published)

    def each_attempt_has_a_claim_and_an_end(self) -> None:
        """A program that ran had a claim; each attempt that began is in the log; nothing runs."""
        assert {state for _, state, _ in self.jobs.values()} <= {"succeeded", "dead", "cancelled"}
        assert self._rows("SELECT count(*) FROM claims WHERE status = 'active'") == [(0,)]
        assert self._rows("SELECT count(*) FROM job_output") == [(0,)]
        claims = Counter(
            dict(
                self._rows(
                    "SELECT m.id, count(*) FROM claims c JOIN messages m ON m.seq = c.seq"
                    " GROUP BY m.id"
                )
            )
        )
        runs = Counter(self.configuration.runs())
        assert runs - claims == Counter()
        lasting = [
            id for id, (plugin, *_) in self.jobs.items() if plugin not in ("naughty", "deaf")
        ]
        not_cancelled = [id for id in lasting if self.jobs[id][1] != "cancelled"]
        assert {self.jobs[id][1] for id in not_cancelled} == {"succeeded"}
        assert set(not_cancelled) <= set(runs)
        log = JobLog(engine_of(self.bus))
        for id in not_cancelled:
            logged = [entry.attempt for entry in log.of_job(id)]
            assert logged == list(range(1, self.jobs[id][2] + 1)), id

    def no_refused_configuration_was_in_force(self) -> None:
        told = {int(line) for line in self.configuration.ran("generations")}
        assert told <= set(range(1, self.configuration.generation + 1))


def times_are_decided_once(bus: Bus, *, twice: str = "") -> list[tuple[Any, ...]]:
    """Each nominal time has one decision, and each that fired has one job.

    Args:
        bus: the bus.
        twice: an interval whose clock went over some hours twice: it has other times in each.

    Returns:
        All decisions but those that were reopened, by schedule and time.
    """
    rows = file_of(bus).rows(
        "SELECT plugin, schedule_id, config_hash, nominal_ms, until_ms, count, decision, job_id"
        " FROM schedule_decisions decided WHERE decision <> 'reopened' AND NOT EXISTS ("
        "  SELECT 1 FROM schedule_decisions WHERE turn = decided.turn + 1 AND (plugin, schedule_id,"
        "  config_hash, nominal_ms) = (decided.plugin, decided.schedule_id, decided.config_hash,"
        "  decided.nominal_ms)) ORDER BY plugin, schedule_id, config_hash, nominal_ms"
    )
    for before, after in pairwise(rows):
        is_other = before[:3] != after[:3] or before[1] == twice
        assert is_other or before[4] < after[3], (before, after)
    fired = [row[7] for row in rows if row[6] == "fired"]
    assert Counter(fired) == Counter(
        message.id
        for message in bus.read(type="plugin.*.*")
        if message.headers.get("submitted_by") == "scheduler"
    )
    return rows


def nothing_is_left(folder: Path) -> None:
    """No program of a plugin outlives its service, nor does what it has started."""
    ps = ["ps", "-A", "-o", "stat=,args="]
    lines = subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    marks = (str(folder), f"sleep {ASLEEP}")
    assert [line for line in lines if line[0] != "Z" and any(mark in line for mark in marks)] == []


def is_clean(service: ServiceProcess) -> None:
    """The bus is whole by its own commands, and the export is the log."""
    bus_dir = str(service.bus_dir)
    for words in ("export", "verify", "doctor"):
        done = service.command(words, "--dir", bus_dir)
        assert done.returncode == 0, done.stdout + done.stderr
    with service.open() as bus:
        lines = [message.to_line() for message in bus.read()]
    assert (service.bus_dir / "bus.jsonl").read_bytes() == b"\n".join([*lines, b""])
    assert all(json.loads(line) for line in lines)
