"""One run, from the empty directory to the proof: its processes, kills at random, and measures."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from ..bus.local_bus import LocalBus
from ..export.jsonl.exporter import MIN_ROTATE_BYTES, Exporter
from ..schema.children import PythonProcesses
from ..schema.directory.layout import Layout
from ..schema.errors import AckbusError
from ..subscribers.queues.queue import Queue
from .history import ENDING, JOB, QUEUE, agents_with, is_in_act, path_of, prepare_files, roles_of
from .proofs import prove
from .roles import BACKOFF_S, INTERRUPTED, MAX_ATTEMPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .history import RunFiles, TorturePlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from typing import Protocol

    from .history import RunFiles, TorturePlan
    from .proofs import TortureProof

    class RunReporter(Protocol):
        """Shows a run to its user: this room prints nothing."""

        def note(self, text: str) -> None:
            """Print one line about the run."""

        def progress(
            self, what: str, total: int
        ) -> AbstractContextManager[Callable[[int], object]]:
            """Return a context whose function takes the amount done."""

        def report(
            self,
            plan: TorturePlan,
            processes: AgentProcesses,
            measurements: Measurements,
            proof: TortureProof,
            stays_in: str | None,
        ) -> None:
            """Print the measurements and the proofs."""

# The measurements of a run: the write-ahead log, and the resources of long-living processes.

#: How often measurements are taken, in seconds.
MEASURE_EVERY_S = 1.0

#: Processes with fewer measurements say nothing about growth: their caches were still filling.
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


class Measurements:
    """Takes measurements of one run.

    Attributes:
        max_wal_bytes: the largest size of the write-ahead log.
        clock_step_ms: by how much the machine's clock was set forward or back, at most.
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
        """The growth of resident memory, in bytes; None where no process lived long."""
        return _growth(self._memory)

    @property
    def descriptors(self) -> Growth | None:
        """The growth of open file descriptors; None where no process lived long."""
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

#: How long the conductor waits for the victim to be in the middle of an act, in seconds, and how
#: much longer at most. Without it most kills would hit an idle process, and prove little.
WAIT_FOR_ACT_S, MAX_INTO_ACT_S = 0.1, 0.0002

#: How often its history is looked at meanwhile, in seconds.
LOOK_FOR_ACT_S = 0.0001

#: After how many agents that ended by themselves the run is cut short: the disk may be full.
MAX_UNEXPECTED_ENDS = 50

#: How often the conductor looks whether something is due, in seconds.
LOOK_EVERY_S = 0.01


class Conductor:
    """Conducts one run.

    Args:
        plan: the run.
        processes: its agents.
        measurements: takes the measurements.
        progress: called with the number of seconds of the run that are over.
    """

    def __init__(
        self,
        plan: TorturePlan,
        processes: AgentProcesses,
        measurements: Measurements,
        progress: Callable[[int], object],
    ) -> None:
        self._plan = plan
        self._processes = processes
        self._measurements = measurements
        self._progress = progress
        self._rng = random.Random(plan.seed)
        self._roles = sorted(set(processes.roles.values()))
        self._to_kill: list[str] = []
        self._began = time.monotonic()
        self._measure_at = self._began
        self._resume_at: dict[str, float] = {}

    def conduct(self) -> None:
        """Run the agents for the time of the plan, killing some, then end them in good order."""
        self._processes.start()
        end = self._began + self._plan.minutes * 60
        kill_at = self._began + self._gap_s()
        suspend_at = self._began + self._gap_s(KILLS_A_SUSPENSION)
        while (now := time.monotonic()) < end and len(
            self._processes.unexpected_ends
        ) < MAX_UNEXPECTED_ENDS:
            if now >= kill_at:
                self._kill()
                kill_at += self._gap_s()
            if now >= suspend_at:
                self._suspend()
                suspend_at += self._gap_s(KILLS_A_SUSPENSION)
            self._tick()
            self._processes.restart_ended()
            time.sleep(LOOK_EVERY_S)
        self._processes.end(self._tick)

    def _gap_s(self, times: int = 1) -> float:
        """Return a random time to the next event, for events that happen once in so many kills."""
        every_s = self._plan.kill_every_s * times
        return self._rng.expovariate(1 / every_s) if every_s else float("inf")

    def _any_of(self, role: str) -> str:
        return self._rng.choice(agents_with(self._processes.roles, role))

    def _kill(self) -> None:
        """Kill an agent, in the middle of an act if possible; each kind in turn.

        A process that has not written yet is spared: on a busy machine none would get to act.
        """
        self._to_kill = self._to_kill or self._rng.sample(self._roles, len(self._roles))
        for role in self._to_kill:
            name = self._any_of(role)
            path = self._processes.history_of(name)
            if os.path.exists(path):
                break
        else:
            return
        self._to_kill.remove(role)
        deadline = time.monotonic() + WAIT_FOR_ACT_S
        while not is_in_act(path) and time.monotonic() < deadline:
            time.sleep(LOOK_FOR_ACT_S)
        time.sleep(self._rng.random() * MAX_INTO_ACT_S)
        self._processes.kill(name)

    def _suspend(self) -> None:
        name = self._any_of(self._rng.choice(self._roles))
        if name not in self._resume_at:
            self._processes.suspend(name)
            self._resume_at[name] = time.monotonic() + self._rng.random() * MAX_SUSPENSION_S

    def _tick(self) -> None:
        now = time.monotonic()
        for name in [name for name, at in self._resume_at.items() if now >= at]:
            del self._resume_at[name]
            self._processes.resume(name)
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_EVERY_S
            # On a busy machine a process may take long to load: that is no growth.
            self._measurements.take(self._processes.begun())
            self._progress(int(now - self._began))


#: The exit code for a proof that failed.
FAILED = 1

#: The size at which `bus.jsonl` is cut, in bytes for each minute: a run is to have some tens of
#: parts. In one of less than half a minute they are as small as an export allows.
ROTATE_BYTES_A_MINUTE = 256 * 1024


def run_torture(
    plan: TorturePlan, directory: str | None, *, keep: bool, reporter: RunReporter
) -> int:
    """Run the torture to its end, and check that nothing was lost.

    Args:
        plan: how many agents, for how long, and how often one is killed.
        directory: where the bus and the histories are made; None takes a fresh directory in the
            working directory.
        keep: leave everything there, also when every proof holds.
        reporter: shows the run.

    Returns:
        The exit code: 0, 1 when a proof fails, 130 when it was interrupted.

    Raises:
        Refused: the directory is not empty.
        InvalidInput: it can't be made.
    """
    files = prepare_files(directory)
    reporter.note(
        f"{plan.agents} agents in {files.directory}, for {plan.minutes:g} min;"
        f" --seed {plan.seed} makes the same choices again"
    )
    try:
        proof, processes, measurements = _run(plan, files, reporter)
    except KeyboardInterrupt:
        reporter.note(f"interrupted; what there is stays in {files.directory}")
        return INTERRUPTED
    except AckbusError as error:
        raise AckbusError(f"{error}; what there is stays in {files.directory}") from error
    stays = keep or not proof.holds
    if not stays:
        files.remove()
    reporter.report(plan, processes, measurements, proof, files.directory if stays else None)
    return 0 if proof.holds else FAILED


def _run(
    plan: TorturePlan, files: RunFiles, reporter: RunReporter
) -> tuple[TortureProof, AgentProcesses, Measurements]:
    os.mkdir(files.histories, mode=0o700)
    _make_bus(plan, files)
    measurements = Measurements(files.bus)
    # This process has the bus closed meanwhile: only the agents are to checkpoint.
    with (
        AgentProcesses(plan, files) as processes,
        reporter.progress("torturing", round(plan.minutes * 60)) as move,
    ):
        Conductor(plan, processes, measurements, move).conduct()
    reporter.note("the time is over; now the proof")
    with (
        LocalBus.open(files.bus) as bus,
        reporter.progress("proving", bus.log.newest_seq()) as move,
    ):
        proof = prove(bus, files, measurements, processes.unexpected_ends, move)
    if proof.holds:
        shutil.rmtree(files.exported)
    return proof, processes, measurements


def _make_bus(plan: TorturePlan, files: RunFiles) -> None:
    """Make the bus, with a queue and rotation; all agents are known before the first message.

    The queue also takes in messages to any agent: each job is also mail of a reader.
    """
    with LocalBus.init(files.bus) as bus:
        Queue.create(
            *(bus, QUEUE, JOB), max_attempts=MAX_ATTEMPTS, backoff_s=BACKOFF_S, addressed="*"
        )
        size = max(MIN_ROTATE_BYTES, round(plan.minutes * ROTATE_BYTES_A_MINUTE))
        Exporter(bus).rotate(size)
        for name in roles_of(plan.agents):
            bus.heartbeats.beat(name)


# The agents as processes: started, killed, suspended, started again, and ended in good order.

#: How long agents of one kind get to end by themselves, in seconds: they finish what is left, and
#: jobs of killed workers come back only when their leases end.
END_WITHIN_S = 120.0

#: How often ending processes are looked at, in seconds.
END_LOOK_EVERY_S = 0.02


class AgentProcesses:
    """The processes of one run. Leaving the `with` block ends them all.

    Args:
        plan: the run.
        files: the directory of the run.

    Attributes:
        roles: the role of each agent.
        kills, suspensions: their numbers so far.
        unexpected_ends: the unexpected ends of processes, in words.
    """

    def __init__(self, plan: TorturePlan, files: RunFiles) -> None:
        self.roles = roles_of(plan.agents)
        self.kills = self.suspensions = 0
        self.unexpected_ends: list[str] = []
        self._plan = plan
        self._files = files
        self._lives = dict.fromkeys(self.roles, 0)
        self._processes = PythonProcesses()
        self._suspended: set[str] = set()

    def begun(self) -> dict[str, tuple[int, int]]:
        """Return the life and the process of each agent that has begun its acts."""
        begun = [name for name in self._processes.names if os.path.exists(self.history_of(name))]
        return {name: (self._lives[name], self._processes[name].pid) for name in begun}

    def history_of(self, name: str) -> str:
        """Return the history file of an agent's process."""
        return path_of(self._files.histories, name, self._lives[name])

    def start(self) -> None:
        """Start every agent."""
        for name in self.roles:
            self._start(name)

    def kill(self, name: str) -> None:
        """End an agent's process with SIGKILL, and start another one at once."""
        process = self._processes[name]
        if process.poll() is None:
            self.kills += 1
        else:
            self._note_end(name, process.returncode)
        self._processes.kill(name)
        self._suspended.discard(name)
        self._start(name)

    def suspend(self, name: str) -> None:
        """Freeze an agent's process where it is."""
        self._processes[name].send_signal(signal.SIGSTOP)
        self._suspended.add(name)
        self.suspensions += 1

    def resume(self, name: str) -> None:
        """Resume an agent's process, if it was not killed meanwhile."""
        if name in self._suspended:
            self._suspended.discard(name)
            self._processes[name].send_signal(signal.SIGCONT)

    def restart_ended(self) -> None:
        """Note the agents that ended by themselves, and start them again."""
        for name, code in self._processes.lost().items():
            self._note_end(name, code)
            self._start(name)

    def end(self, tick: Callable[[], object]) -> None:
        """End all agents in good order, kind after kind, and note those that do not end.

        Args:
            tick: called now and then.
        """
        for name in list(self._suspended):
            self.resume(name)
        for roles in ENDING:
            names = [name for role in roles for name in agents_with(self.roles, role)]
            for name in names:
                self._ask_to_end(name)
            self._wait(names, tick)

    def __enter__(self) -> AgentProcesses:
        return self

    def __exit__(self, *error: object) -> None:
        for name in self._processes.names:
            self._processes.kill(name)

    def _wait(self, names: list[str], tick: Callable[[], object]) -> None:
        deadline = time.monotonic() + END_WITHIN_S
        running = set(names)
        while running and time.monotonic() < deadline:
            running = {name for name in running if self._processes[name].poll() is None}
            tick()
            time.sleep(END_LOOK_EVERY_S)
        for name in names:
            if name in running:
                self.unexpected_ends.append(f"{name} did not end within {END_WITHIN_S:g} s")
                self._processes.kill(name)
            elif code := self._processes[name].returncode:
                self._note_end(name, code)

    def _note_end(self, name: str, code: int) -> None:
        self.unexpected_ends.append(
            f"life {self._lives[name]} of {name} ended by itself, with code {code};"
            f" see {self._files.errors}"
        )

    def _start(self, name: str) -> None:
        self._lives[name] += 1
        files, seed = self._files, str(self._plan.seed)
        arguments = (files.bus, files.histories, str(len(self.roles)), name)
        words = ("-m", f"{__package__}.roles", *arguments, str(self._lives[name]), seed)
        self._processes.start(name, words, lifeline=True, log=files.errors)

    def _ask_to_end(self, name: str) -> None:
        process = self._processes[name]
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended by itself, which is noted later
            os.write(process.stdin.fileno(), b".")
