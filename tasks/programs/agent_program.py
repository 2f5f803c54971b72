"""Running an agent program: a prompt in, changed files out, and nobody to ask.

The program has no terminal, and its stdin ends after the prompt: one that asks a question there is
told at once that nobody answers. It ends with all that it started.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field

from ...git.branches.repositories import OF_ONE_PLACE
from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.errors import InvalidInput
from ...workers.commands.raw_contract import EX_CONFIG, EX_TEMPFAIL, how_it_exited
from ...workers.processes.run_process import run_process
from .output_lines import OutputLines
from .presets import EDIT, PROMPT, PROMPT_FILE, preset

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from ...workers.processes.run_process import ProcessEnd
    from ...workers.processes.stop_switch import StopSwitch
    from ...workers.processes.supervisors import Supervisors
    from ..records.task import Task
    from .output_lines import OutputLine

    #: `failed`: it may succeed in another attempt. `transient`: it asks for one soon, or could not
    #: be started for want of something. `permanent`: no attempt would.
    EndKind = Literal["ended", "failed", "transient", "permanent", "timed_out", "stopped"]

#: How long a program may take unless it is told otherwise, in seconds.
PROGRAM_TIMEOUT_S = 1800.0

#: Variables that keep what a program runs from asking somebody.
_ASKS_NOBODY = {"GIT_TERMINAL_PROMPT": "0"}


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A command that works on a prompt.

    Attributes:
        words: the command and its arguments. `{prompt}` stands for the prompt, `{prompt_file}` for
            a file that has it, as a word or after `=` in an option; without either it is on stdin.
        variables: of its environment, besides those of the task.
    """

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a command without a word."""
        if not self.words or not self.words[0]:
            raise InvalidInput("there is no command to run")

    @classmethod
    def known(cls, name: str, mode: str = EDIT) -> AgentProgram:
        """Return a program that is known by its name, in a mode of permissions.

        Raises:
            InvalidInput: neither is known.
        """
        found = preset(name, mode)
        return cls(found.words(mode), found.variables.get(mode, {}))

    @property
    def wants_file(self) -> bool:
        """Whether it reads the prompt from a file."""
        return any(_holds(word, PROMPT_FILE) for word in self.words)

    @property
    def obstacle(self) -> str | None:
        """Why it can't be started at present, or None. A path into the work tree is not known."""
        word = self.words[0]
        if os.sep in word and not os.path.isabs(word):
            return None
        path = {**os.environ, **self.variables}.get("PATH")
        if shutil.which(word, path=path) is not None:
            return None
        return f"{word} is not there, or is not executable; install it"

    def command(self, prompt: str, file: str = "") -> tuple[list[str], bytes]:
        """Return the command for a prompt, and its stdin."""
        # Others write prompts: one that begins like an option is text to the program all the same.
        as_word = f"\n{prompt}" if prompt.startswith("-") else prompt
        filled = [
            as_word if word == PROMPT else _filled(word, {PROMPT: prompt, PROMPT_FILE: file})
            for word in self.words
        ]
        is_told = any(_holds(word, PROMPT) for word in self.words) or self.wants_file
        return filled, b"" if is_told else prompt.encode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """The end of a program.

    Attributes:
        kind: what it means.
        exit_code: its exit status; -1 for a signal; None when it did not end by itself.
        reason: why it did not succeed, in one line; "" when it did.
        tail: the last lines that it printed.
        run_s: how long it ran, in seconds.
    """

    kind: EndKind
    exit_code: int | None
    reason: str
    tail: str
    run_s: float


def run_program(
    program: AgentProgram,
    prompt: str,
    *,
    folder: str,
    environment: Mapping[str, str],
    prompt_file: str = "",
    timeout_s: float | None = PROGRAM_TIMEOUT_S,
    take: Callable[[OutputLine], None] = lambda line: None,
    stop: StopSwitch | None = None,
    supervisors: Supervisors | None = None,
) -> ProgramEnd:
    """Run a program in a folder, until nothing of it is left.

    Args:
        program: the program.
        prompt: what it is to do.
        folder: where it runs, the work tree.
        environment: its variables about the task, besides those of this process.
        prompt_file: the file that has the prompt, for a program that reads one.
        timeout_s: how long it may take, in seconds; None: as long as it likes.
        take: called with each line that it prints, while it runs; it must not block.
        stop: ends it early.
        supervisors: they end all that it starts, also when this process is killed.
    """
    argv, stdin = program.command(prompt, prompt_file)
    lines = OutputLines(take, time.monotonic)
    end = run_process(
        argv,
        stdin,
        env={**_inherited(), **_ASKS_NOBODY, **program.variables, **environment},
        cwd=folder,
        timeout_s=timeout_s,
        max_stdout_bytes=None,
        max_stderr_bytes=None,
        stop=stop,
        supervisors=supervisors,
        output=lines.add,
    )
    lines.end()
    kind, reason = _meaning(end, timeout_s)
    last = lines.last()
    if kind in ("failed", "transient", "permanent") and end.start_error is None and last:
        reason = f"{reason}: {last[:500]}"
    return ProgramEnd(kind, end.exit_code, reason, lines.tail(), end.run_s)


def environment_of_task(task: Task, bus_directory: str, agent: str) -> dict[str, str]:
    """Return the variables that tell a program, and what it runs, which task it works on."""
    return {
        BUS_DIR_VARIABLE: bus_directory,
        "BUS_AGENT": agent,
        "BUS_TASK": task.task,
        "BUS_TASK_TOKEN": str(task.token),
        "BUS_TASK_ATTEMPT": str(task.attempt),
        "BUS_TASK_BRANCH": task.branch,
        "BUS_TASK_BASE": task.base,
        "BUS_TASK_TARGET": task.target,
        "BUS_TASK_PATH": task.path,
        "BUS_CORRELATION_ID": task.correlation_id,
    }


def _meaning(end: ProcessEnd, timeout_s: float | None) -> tuple[EndKind, str]:
    if end.stopped:
        return "stopped", "it was stopped"
    if end.timed_out:
        return "timed_out", f"timed out after {timeout_s:g} seconds"
    if end.start_error is not None:
        return ("transient" if end.may_start_later else "permanent"), end.start_error
    if end.exit_code == 0:
        return "ended", ""
    meanings: dict[int | None, EndKind] = {EX_TEMPFAIL: "transient", EX_CONFIG: "permanent"}
    return meanings.get(end.exit_code, "failed"), how_it_exited(end)


def _inherited() -> dict[str, str]:
    """Return this process's variables but those of a hook that may have started it."""
    return {name: value for name, value in os.environ.items() if name not in OF_ONE_PLACE}


def _holds(word: str, place: str) -> bool:
    """Whether a word is a place for something, or an option whose value is one."""
    return word == place or (word.startswith("-") and word.endswith(f"={place}"))


def _filled(word: str, values: Mapping[str, str]) -> str:
    for place, value in values.items():
        if _holds(word, place):
            return word[: -len(place)] + value
    return word
