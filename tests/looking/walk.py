"""A walk over command lines: each ends in time, with an exit code of the documented ones."""

import os
import resource
import subprocess
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from ..command_server import CommandServer
from .surroundings import Surroundings

#: Seconds after which a command counts as hung.
HANG_S = 20

#: The exit codes that docs/cli.md has, but for those of signals.
CODES = (0, 1, 2, 3, 4, 5, 78)

#: Bytes of address space that a command may take: what is loaded takes a quarter of it.
MEMORY = 2 << 30

#: What stderr has where an error was not reported in a line, or is one that nobody meant to report.
_BROKEN = ("Traceback", "MemoryError", "-v shows where", "unexpected ")


@dataclass
class Walk:
    """Command lines in a place, and what went wrong with them.

    Attributes:
        around: the home, and the programs that note their starts.
        server: runs the commands.
        is_broken: whether what the commands look at may be none that any ackbus wrote, so that an
            answer of a server may name a row, and its log have more.
        hang_s: seconds after which a command counts as hung.
        faults: a line for each thing that went wrong.
    """

    around: Surroundings
    server: CommandServer
    is_broken: bool = False
    hang_s: float = HANG_S
    faults: list[str] = field(default_factory=list)

    def run(
        self,
        lines: Iterable[list[str]],
        folder: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Runs lines one after the other, and notes which mark each left."""
        for line in lines:
            fault = self._run(line, folder, env or {})
            ran = self.around.ran()
            if fault is not None:
                self.faults.append(f"{' '.join(line)}: {fault}")
            if ran:
                self.faults.append(f"{' '.join(line)}: ran {', '.join(ran)}")

    def run_together(
        self, lines: list[list[str]], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Runs lines at the same time: most only wait."""
        with ThreadPoolExecutor(len(lines)) as threads:
            faults = threads.map(lambda line: self._run(line, folder, env or {}), lines)
            told = zip(lines, faults, strict=True)
            self.faults += [f"{' '.join(line)}: {fault}" for line, fault in told if fault]
        if ran := self.around.ran():
            self.faults.append(f"one of them: ran {', '.join(ran)}")

    def _run(self, line: list[str], folder: Path, env: Mapping[str, str]) -> str | None:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            with self.server.start(
                [os.fsencode(word) for word in line],
                (given.fileno(), out.fileno(), err.fileno()),
                cwd=folder,
                env={**self.around.environment, **env},
            ) as command:
                with suppress(ProcessLookupError):  # it has ended already
                    resource.prlimit(command.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
                try:
                    code = command.wait(self.hang_s)
                except subprocess.TimeoutExpired:
                    return f"has not ended within {self.hang_s} s"
            err.seek(0)
            said = err.read().decode(errors="replace")
        if code not in CODES:
            return f"exit code {code}: {said[-300:]}"
        return next((f"{word!r} in {said[-300:]}" for word in _BROKEN if word in said), None)
