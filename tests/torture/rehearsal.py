"""A run in one process, whose agents act by turns: the same each time."""

import os
from collections.abc import Callable
from pathlib import Path

from ackbus import Bus, Exporter, Queue
from ackbus.export.archive_writer import Archiver
from ackbus.export.jsonl import exporter as exporting
from ackbus.torture import roles
from ackbus.torture.history import JOB, QUEUE, ActHistory, RunFiles, path_of, roles_of
from ackbus.torture.roles import MAX_ATTEMPTS, AgentContext, AgentMail, Lifeline, WorkerRole

AGENTS, SEED = 12, 7

#: The clock of the bus stands still, so that no lease runs out: some moment, in epoch milliseconds.
NOW_MS = 1_700_000_000_000

#: A part of `bus.jsonl`, in bytes; and the newest message that is archived.
PART_BYTES, ARCHIVED = 16_384, 40

Turn = Callable[[AgentContext], object]


class Turns(Lifeline):
    """A lifeline that ends its agent after some turns, and waits for nothing."""

    def __init__(self, turns: int) -> None:
        self._left = turns

    @property
    def ending(self) -> bool:
        self._left -= 1
        return self._left < 0

    def wait(self, seconds: float) -> None:
        pass


class Rehearsal:
    """The agents of a run, on an empty bus."""

    def __init__(self, files: RunFiles) -> None:
        Bus.init(files.bus).close()
        self._files = files
        self._bus = Bus.open(files.bus, clock=lambda: NOW_MS)
        self._lives = dict.fromkeys(roles_of(AGENTS), 0)

    def play(self) -> None:
        """Has every kind of act done, and some of each kind cut off by a kill."""
        with self._bus as bus:
            Queue.create(bus, QUEUE, JOB, max_attempts=MAX_ATTEMPTS, backoff_s=0.0, addressed="*")
            exporting.MIN_ROTATE_BYTES = 4096  # as all tests have it
            Exporter(bus).rotate(PART_BYTES)
            for name in self._lives:
                bus.heartbeats.beat(name)
            for name in ("publisher-009", "publisher-011", "publisher-003"):
                self._live(name, roles.play_publisher, turns=30, is_killed=True)
            for name in ("reader-004", "reader-010"):
                self._live(name, lambda context: AgentMail(context).take(), is_killed=True)
            for name in ("worker-005", "worker-006", "worker-012"):
                self._live(name, lambda context: WorkerRole(context).work(), is_killed=True)
            for name in ("holder-007", "holder-008"):
                self._live(name, roles.play_holder, turns=10, is_killed=True)
            for name in ("publisher-003", "publisher-009", "publisher-011"):
                self._live(name, roles.play_publisher, turns=30)
            for name in ("holder-008", "holder-007"):
                self._live(name, roles.play_holder, turns=10)
            Exporter(bus).export_once()
            for name in ("worker-012", "worker-006", "worker-005"):
                self._live(name, _work)
            for name in ("reader-010", "reader-004"):
                self._live(name, roles.play_reader)
            with Archiver(bus) as archiver:
                archiver.archive(ARCHIVED)
            Exporter(bus).export_once()

    def _live(self, name: str, turn: Turn, turns: int = 0, is_killed: bool = False) -> None:
        """Has an agent act as the next of its processes, which may not hear of its last act."""
        self._lives[name] += 1
        history = ActHistory(self._files.histories, name, self._lives[name])
        turn(AgentContext(self._bus, history, Turns(turns), AGENTS, SEED))
        if is_killed:
            path = Path(path_of(self._files.histories, name, self._lives[name]))
            *lines, _ = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines))


def _work(context: AgentContext) -> None:
    worker = WorkerRole(context)
    while worker.work():
        pass


def rehearse(directory: Path) -> RunFiles:
    """Makes a run in a directory that is not there yet."""
    files = RunFiles(os.fspath(directory), made=False)
    directory.mkdir()
    Rehearsal(files).play()
    return files
