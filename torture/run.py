"""One run, from the empty directory to the proof: kills at random, and measures meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from ..bus.bus import Bus
from ..export.jsonl.exporter import MIN_ROTATE_BYTES, Exporter
from ..schema.directory.layout import Layout
from ..schema.errors import AckbusError
from ..subscribers.queues.queue import Queue
from .crew import INTERRUPTED, Crew
from .history import JOB, QUEUE, cast_of, choose_place, is_in_act, named
from .proofs import prove
from .roles import BACKOFF_S, MAX_ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Protocol

    from .history import Place, Plan
    from .proofs import Proof

    class Screen(Protocol):
        """Shows a run to its user: this room prints nothing."""

        def note(self, text: str) -> None:
            """Print one line about the run."""

        def progress(
            self, what: str, total: int
        ) -> AbstractContextManager[Callable[[int], object]]:
            """Return a context whose function takes the amount done."""

        def report(
            self, plan: Plan, crew: Crew, measures: Measures, proof: Proof, stays_in: str | None
        ) -> None:
            """Print the measurements and the proofs."""

# The measurements of a run: the write-ahead log, and the resources of long-living processes.

#: How often is measured, in seconds.
MEASURE_EVERY_S = 1.0

#: Processes that lived for fewer measurements tell nothing of growth: they were filling caches.
MIN_MEASUREMENTS = 60

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one number in the processes that lived long.

    Attributes:
        processes: how many these were.
        first, last: the median of the first and of the last third of their lives.
        most_grown: by how much it grew in the process where it grew most, between these thirds.
        max: the largest value of all.
    """

    processes: int
    first: float
    last: float
    most_grown: float
    max: float


class Measures:
    """Takes measurements of one run.

    Attributes:
        max_wal_bytes: how long the write-ahead log was at most.
        clock_step_ms: by how much the machine's clock was put forward or back meanwhile, at most.
    """

    def __init__(self, bus_directory: str) -> None:
        self._wal = Layout(bus_directory).database + "-wal"
        self.max_wal_bytes = 0
        self.clock_step_ms = 0.0
        self._clock = _clock_difference_ms()
        self._memory: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._descriptors: dict[tuple[str, int], list[int]] = defaultdict(list)

    def take(self, processes: Mapping[str, tuple[int, int]]) -> None:
        """Measure once.

        Args:
            processes: the life and the process of each agent.
        """
        self.max_wal_bytes = max(self.max_wal_bytes, _size(self._wal))
        self.clock_step_ms = max(self.clock_step_ms, abs(_clock_difference_ms() - self._clock))
        for name, (life, pid) in processes.items():
            used = _usage(pid)
            if used is not None:
                self._memory[name, life].append(used[0])
                self._descriptors[name, life].append(used[1])

    @property
    def memory(self) -> Growth | None:
        """Of resident memory, in bytes; None where no process lived long."""
        return _growth(self._memory)

    @property
    def descriptors(self) -> Growth | None:
        """Of open file descriptors; None where no process lived long."""
        return _growth(self._descriptors)


def _growth(lives: Mapping[tuple[str, int], list[int]]) -> Growth | None:
    long = [values for values in lives.values() if len(values) >= MIN_MEASUREMENTS]
    if not long:
        return None
    firsts = [median(values[: len(values) // 3]) for values in long]
    lasts = [median(values[-len(values) // 3 :]) for values in long]
    grown = max(last - first for first, last in zip(firsts, lasts, strict=True))
    return Growth(len(long), median(firsts), median(lasts), grown, max(map(max, long)))


def _usage(pid: int) -> tuple[int, int] | None:
    """Return resident memory and open descriptors; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            resident = int(file.read().split()[1]) * _PAGE_BYTES
        return resident, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, IndexError):  # it has ended, or this is no Linux
        return None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _clock_difference_ms() -> float:
    return (time.time() - time.monotonic()) * 1000


# The conductor: kills and suspends agents at random for a set time, and measures meanwhile.

#: How many kills there are for each suspension.
KILLS_A_SUSPENSION = 5

#: How long a process is suspended at most, in seconds: longer than its leases last.
MAX_SUSPENSION_S = 2.5

#: How long is waited, in seconds, until the victim is in the middle of an act; and how much longer
#: at most. Else most kills would find it at rest, and prove little.
WAIT_FOR_ACT_S, MAX_INTO_ACT_S = 0.1, 0.0002

#: How often its history is looked at meanwhile, in seconds.
LOOK_FOR_ACT_S = 0.0001

#: After how many agents that ended by themselves the run is cut short: the disk may be full.
MAX_FALLEN = 50

#: How often the conductor looks whether something is due, in seconds.
LOOK_EVERY_S = 0.01


class Conductor:
    """Conducts one run.

    Args:
        plan: the run.
        crew: its agents.
        measures: takes the measurements.
        progress: told how many seconds of the run are over.
    """

    def __init__(
        self, plan: Plan, crew: Crew, measures: Measures, progress: Callable[[int], object]
    ) -> None:
        self._plan = plan
        self._crew = crew
        self._measures = measures
        self._progress = progress
        self._chance = random.Random(plan.seed)
        self._roles = sorted(set(crew.cast.values()))
        self._to_kill: list[str] = []
        self._began = time.monotonic()
        self._measure_at = self._began
        self._resume_at: dict[str, float] = {}

    def conduct(self) -> None:
        """Run the agents for the time of the plan, killing some, then end them in good order."""
        self._crew.start()
        end = self._began + self._plan.minutes * 60
        kill_at = self._began + self._gap_s()
        suspend_at = self._began + self._gap_s(KILLS_A_SUSPENSION)
        while (now := time.monotonic()) < end and len(self._crew.fell) < MAX_FALLEN:
            if now >= kill_at:
                self._kill()
                kill_at += self._gap_s()
            if now >= suspend_at:
                self._suspend()
                suspend_at += self._gap_s(KILLS_A_SUSPENSION)
            self._tick()
            self._crew.replace_fallen()
            time.sleep(LOOK_EVERY_S)
        self._crew.end(self._tick)

    def _gap_s(self, times: int = 1) -> float:
        """Return the time to the next event of a kind that happens once in so many kills."""
        every_s = self._plan.kill_every_s * times
        return self._chance.expovariate(1 / every_s) if every_s else float("inf")

    def _any_of(self, role: str) -> str:
        return self._chance.choice(named(self._crew.cast, role))

    def _kill(self) -> None:
        """Kill an agent, in the middle of an act if possible; each kind in turn.

        One that has not begun is left to begin: on a busy machine none would come to do anything.
        """
        self._to_kill = self._to_kill or self._chance.sample(self._roles, len(self._roles))
        for role in self._to_kill:
            name = self._any_of(role)
            path = self._crew.history_of(name)
            if os.path.exists(path):
                break
        else:
            return
        self._to_kill.remove(role)
        deadline = time.monotonic() + WAIT_FOR_ACT_S
        while not is_in_act(path) and time.monotonic() < deadline:
            time.sleep(LOOK_FOR_ACT_S)
        time.sleep(self._chance.random() * MAX_INTO_ACT_S)
        self._crew.kill(name)

    def _suspend(self) -> None:
        name = self._any_of(self._chance.choice(self._roles))
        if name not in self._resume_at:
            self._crew.suspend(name)
            self._resume_at[name] = time.monotonic() + self._chance.random() * MAX_SUSPENSION_S

    def _tick(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._resume_at.items() if now >= at]:
            del self._resume_at[name]
            self._crew.resume(name)
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_EVERY_S
            # On a busy machine a process may take long to load: that is no growth.
            self._measures.take(self._crew.begun())
            self._progress(int(now - self._began))


#: The exit code for a proof that failed.
FAILED = 1

#: The size at which `bus.jsonl` is cut, in bytes for each minute: a run is to have some tens of
#: parts. In one of less than half a minute they are as small as an export allows.
ROTATE_BYTES_A_MINUTE = 256 * 1024


def run_torture(plan: Plan, directory: str | None, *, keep: bool, screen: Screen) -> int:
    """Run the torture to its end, and check that nothing was lost.

    Args:
        plan: how many agents, for how long, and how often one is killed.
        directory: where the bus and the histories are made; None takes a fresh directory in the
            working directory.
        keep: leave everything there, also when every proof holds.
        screen: shows the run.

    Returns:
        The exit code: 0, 1 when a proof fails, 130 when it was interrupted.

    Raises:
        Refused: the directory is not empty.
        InvalidInput: it can't be made.
    """
    place = choose_place(directory)
    screen.note(
        f"{plan.agents} agents in {place.directory}, for {plan.minutes:g} min;"
        f" --seed {plan.seed} makes the same choices again"
    )
    try:
        proof, crew, measures = _run(plan, place, screen)
    except KeyboardInterrupt:
        screen.note(f"interrupted; what there is stays in {place.directory}")
        return INTERRUPTED
    except AckbusError as error:
        raise AckbusError(f"{error}; what there is stays in {place.directory}") from error
    stays = keep or not proof.holds
    if not stays:
        place.remove()
    screen.report(plan, crew, measures, proof, place.directory if stays else None)
    return 0 if proof.holds else FAILED


def _run(plan: Plan, place: Place, screen: Screen) -> tuple[Proof, Crew, Measures]:
    os.mkdir(place.histories, mode=0o700)
    _make_bus(plan, place)
    measures = Measures(place.bus)
    # This process has the bus closed meanwhile: only the agents are to checkpoint.
    with (
        Crew(plan, place) as crew,
        screen.progress("torturing", round(plan.minutes * 60)) as move,
    ):
        Conductor(plan, crew, measures, move).conduct()
    screen.note("the time is over; now the proof")
    with Bus.open(place.bus) as bus, screen.progress("proving", bus.log.newest_seq()) as move:
        proof = prove(bus, place, measures, crew.fell, move)
    if proof.holds:
        shutil.rmtree(place.exported)
    return proof, crew, measures


def _make_bus(plan: Plan, place: Place) -> None:
    """Make the bus, with a queue and rotation; all agents are known before the first message.

    The queue also takes in messages to any agent: each job is also mail of a reader.
    """
    with Bus.init(place.bus) as bus:
        Queue.create(
            *(bus, QUEUE, JOB), max_attempts=MAX_ATTEMPTS, backoff_s=BACKOFF_S, addressed="*"
        )
        size = max(MIN_ROTATE_BYTES, round(plan.minutes * ROTATE_BYTES_A_MINUTE))
        Exporter(bus).rotate(size)
        for name in cast_of(plan.agents):
            bus.heartbeats.beat(name)
