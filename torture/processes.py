"""The agents as processes: started, killed, suspended, started again, and ended in good order."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress

from ..schema.children import PythonProcesses
from .history import ENDING, agents_with, path_of, roles_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .history import RunFiles, TorturePlan

# The lifeline of an agent's process: a pipe by which its parent tells it to end.
#
# A byte asks the agent to end in good order. The end of the pipe, which the kernel brings about
# when the parent is gone, ends it at once.

_STDIN = 0

#: The exit code of a process that lost its parent: the same as of an interrupted one.
INTERRUPTED = 130


class Lifeline:
    """Listens to the parent in a thread of its own."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    @property
    def ending(self) -> bool:
        """Whether the agent is to come to an end."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the agent is to end."""
        self._asked.wait(seconds)

    def call_at_end(self, act: Callable[[], object]) -> None:
        """Call a function as soon as the agent is to end; for agents that wait without `wait`."""
        self._callbacks.append(act)
        if self.ending:
            act()

    def _listen(self) -> None:
        while os.read(_STDIN, 1):
            self._asked.set()
            for act in self._callbacks:
                act()
        os._exit(INTERRUPTED)


#: How long agents of one kind get to end by themselves, in seconds: they finish what is left, and
#: jobs of killed workers come back only when their leases end.
END_WITHIN_S = 120.0

#: How often ending processes are looked at, in seconds.
LOOK_EVERY_S = 0.02


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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name in self._processes.names:
            self._processes.kill(name)

    def _wait(self, names: list[str], tick: Callable[[], object]) -> None:
        deadline = time.monotonic() + END_WITHIN_S
        running = set(names)
        while running and time.monotonic() < deadline:
            running = {name for name in running if self._processes[name].poll() is None}
            tick()
            time.sleep(LOOK_EVERY_S)
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
