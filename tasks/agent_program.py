"""Running an agent program: a prompt in, changed files out, a bounded number of attempts.

The program has no terminal, and its stdin ends after the prompt, so that a question there gets no
answer. When it ends, all processes that it started are ended.
"""

from __future__ import annotations

import codecs
import os
import shutil
import time
from collections import deque
from dataclasses import dataclass, field

from ..git.repository import OF_ONE_PLACE
from ..schema.directory.layout import BUS_DIR_VARIABLE
from ..schema.errors import InvalidInput, shown
from ..workers.processes.run_process import run_process
from ..workers.raw_contract import EX_CONFIG, EX_TEMPFAIL, how_it_exited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from ..workers.processes.own_child import StopSwitch
    from ..workers.processes.run_process import ProcessEnd
    from ..workers.processes.supervisors import Supervisors
    from .records.task import Task

    #: `failed`: another attempt may succeed. `transient`: the program asks for another attempt, or
    #: could not be started for want of something. `permanent`: no attempt would succeed.
    EndKind = Literal["ended", "failed", "transient", "permanent", "timed_out", "stopped"]

# Bounded attempts: how often something is tried, with which pauses, and the rest after that.

#: The shortest and the longest pause between two attempts, in milliseconds.
LEAST_PAUSE_MS, MOST_PAUSE_MS = 250, 60_000

#: How long a worker is offline after its last attempt, in milliseconds.
COOLDOWN_MS = 20_000


@dataclass(frozen=True, slots=True)
class AttemptRule:
    """The rule how often something is tried.

    Attributes:
        attempts: how many times in all.
        pause_ms: the pause after the first attempt, in milliseconds; each further pause is doubled.
    """

    attempts: int
    pause_ms: int

    def pause_after(self, attempt: int) -> int:
        """Return the pause after an attempt that failed, from 1, in milliseconds."""
        doubled = self.pause_ms << min(attempt - 1, 40)
        return max(LEAST_PAUSE_MS, min(doubled, MOST_PAUSE_MS))


#: The rule for what must work before a worker takes a job, and the rule for one job.
WARM_UP, JOB = AttemptRule(3, 2_000), AttemptRule(2, 3_000)


class BoundedAttempts:
    """Counts the attempts at one thing after another. Takes the time as an argument; never sleeps.

    Only a transient failure is tried again. After the last transient failure there is a rest, in
    which nothing begins: whatever makes one job fail makes the next job fail.

    Args:
        rule: how often one thing is tried.
        cooldown_ms: the rest, in milliseconds.
    """

    def __init__(self, rule: AttemptRule, cooldown_ms: int = COOLDOWN_MS) -> None:
        self._rule = rule
        self._cooldown_ms = cooldown_ms
        self._attempt = 0
        self._offline_until_ms = 0

    @property
    def attempt(self) -> int:
        """The number of the attempt under way, from 1; 0 before the first."""
        return self._attempt

    def begin(self) -> int:
        """Begin an attempt, and return its number."""
        self._attempt += 1
        return self._attempt

    def end(self) -> None:
        """Note that the thing is done, or has failed for good: the next one begins from 1."""
        self._attempt = 0

    def failed(self, now_ms: int) -> int | None:
        """Note a transient failure.

        Returns:
            The pause before the next attempt, in milliseconds; None: there is no more, and the rest
            has begun.
        """
        if self._attempt < self._rule.attempts:
            return self._rule.pause_after(self._attempt)
        self._attempt = 0
        self._offline_until_ms = now_ms + self._cooldown_ms
        return None

    def offline_ms(self, now_ms: int) -> int:
        """Return how long the rest still lasts, in milliseconds; 0: there is no rest."""
        # No longer than a whole rest: the clock may have been set back since it began.
        return max(0, min(self._offline_until_ms - now_ms, self._cooldown_ms))


# The output of a program as numbered lines, handed on while it runs.

#: For how long an exact repeat of the line before it is dropped, in seconds.
REPEATS_S = 1.0

#: A longer line is cut into several, in characters.
MAX_LINE_CHARS = 16_384

#: How many of the last lines are kept, to explain why a program failed.
_KEPT_LINES = 20

STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line that a program printed.

    Attributes:
        stream: `stdout` or `stderr`.
        seq: its number in that stream, from 1.
        text: the line, without its end.
    """

    stream: str
    seq: int
    text: str


class OutputLines:
    """Makes lines of what a program prints, and drops exact repeats within a second.

    Args:
        take: called with each line; it must not block.
        clock: returns the time in seconds, on a clock that nobody sets.
    """

    def __init__(self, take: Callable[[OutputLine], None], clock: Callable[[], float]) -> None:
        self._take = take
        self._clock = clock
        self._streams = {name: _Stream() for name in STREAMS}
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)

    def add(self, stream: str, data: bytes) -> None:
        """Take in bytes of a stream, as they come."""
        self._cut(stream, self._streams[stream].decoder.decode(data))

    def end(self) -> None:
        """Hand on the rests of the streams: text without a line end."""
        for name, stream in self._streams.items():
            self._cut(name, stream.decoder.decode(b"", final=True))
            if stream.rest:
                self._line(name, stream.rest)
                stream.rest = ""

    def last(self) -> str:
        """Return the last line with anything in it; "" without one."""
        return next((text.strip() for text in reversed(self._last) if text.strip()), "")

    def tail(self) -> str:
        """Return the last lines, both streams as they came."""
        return "\n".join(self._last)

    def _cut(self, name: str, text: str) -> None:
        stream = self._streams[name]
        *lines, rest = (stream.rest + text).replace("\r\n", "\n").split("\n")
        for line in lines:
            self._line(name, line)
        while len(rest) > MAX_LINE_CHARS:
            self._hand_on(name, rest[:MAX_LINE_CHARS])
            rest = rest[MAX_LINE_CHARS:]
        stream.rest = rest

    def _line(self, name: str, text: str) -> None:
        stream, now = self._streams[name], self._clock()
        if text == stream.text and now < stream.at + REPEATS_S:
            return
        stream.text, stream.at = text, now
        for start in range(0, max(1, len(text)), MAX_LINE_CHARS):
            self._hand_on(name, text[start : start + MAX_LINE_CHARS])

    def _hand_on(self, name: str, text: str) -> None:
        self._streams[name].seq += 1
        self._last.append(text)
        self._take(OutputLine(name, self._streams[name].seq, text))


class _Stream:
    """A stream: the line that is not whole yet, and the last one that was handed on."""

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.rest = ""
        self.text: str | None = None
        self.at = 0.0
        self.seq = 0


# Agent programs that are known by name: how each is run without a person, and what it may do.
#
# None of them has anybody to ask. What a mode does not allow, the program refuses by itself.

#: The word of a command that stands for the prompt, and that for a file with it; also after `=` in
#: an option. A command without either reads the prompt from stdin.
PROMPT, PROMPT_FILE = "{prompt}", "{prompt_file}"

#: The permissions of a program. `edit`: change files in the work tree, and run only what its own
#: settings allow. `all`: run any command as the user, so best in a container.
EDIT, ALL = "edit", "all"
MODES = (EDIT, ALL)


@dataclass(frozen=True, slots=True)
class Preset:
    """The non-interactive form of an agent program.

    Attributes:
        title: its name, for people.
        command: the program, and its arguments before those of the mode.
        modes: for each mode its arguments.
        ends: the arguments after those of the mode, such as the prompt.
        variables: for each mode its variables of the environment.
    """

    title: str
    command: tuple[str, ...]
    modes: Mapping[str, tuple[str, ...]]
    ends: tuple[str, ...] = ()
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def words(self, mode: str) -> list[str]:
        """Return the command for a mode."""
        return [*self.command, *self.modes[mode], *self.ends]


PRESETS = {
    "claude": Preset(
        "Claude Code",
        ("claude", "--print"),
        {
            EDIT: ("--permission-mode", "acceptEdits"),
            ALL: ("--permission-mode", "bypassPermissions"),
        },
    ),
    "codex": Preset(
        "Codex",
        ("codex", "exec", "--skip-git-repo-check"),
        {
            EDIT: ("--sandbox", "workspace-write"),
            ALL: ("--sandbox", "danger-full-access"),
        },
        ("-",),
    ),
    "gemini": Preset(
        "Gemini CLI",
        ("gemini",),
        {EDIT: ("--approval-mode=auto_edit",), ALL: ("--approval-mode=yolo",)},
    ),
    "copilot": Preset(
        "GitHub Copilot CLI",
        ("copilot", "--no-color"),
        {EDIT: ("--allow-tool=write",), ALL: ("--allow-all-tools",)},
        ("-p", PROMPT),
    ),
    "opencode": Preset(
        "opencode",
        ("opencode", "run"),
        {EDIT: (), ALL: ()},
        ("--", PROMPT),
        {
            EDIT: {"OPENCODE_PERMISSION": '{"edit":"allow","bash":"deny","webfetch":"deny"}'},
            ALL: {"OPENCODE_PERMISSION": '"allow"'},
        },
    ),
}


def preset(name: str, mode: str) -> Preset:
    """Return an agent program by its name.

    Raises:
        InvalidInput: the name is not known, or there is no such mode.
    """
    if name not in PRESETS:
        names = ", ".join(PRESETS)
        raise InvalidInput(
            f"no agent program {shown(name)} is known, only {names}; give a command after --"
        )
    if mode not in MODES:
        raise InvalidInput(f"permissions must be {' or '.join(MODES)}, not {shown(mode)}")
    return PRESETS[name]


#: The default time limit of a program, in seconds.
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
            InvalidInput: the name or the mode is not known.
        """
        program = preset(name, mode)
        return cls(program.words(mode), program.variables.get(mode, {}))

    @property
    def wants_file(self) -> bool:
        """Whether it reads the prompt from a file."""
        return any(_holds(word, PROMPT_FILE) for word in self.words)

    @property
    def obstacle(self) -> str | None:
        """Why it can't be started at present, or None: also for a path into the work tree."""
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
        has_prompt = any(_holds(word, PROMPT) for word in self.words) or self.wants_file
        return filled, b"" if has_prompt else prompt.encode(errors="surrogateescape")


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
        prompt: the text for it.
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
    """Return the variables that name the task to a program and to the processes that it starts."""
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
    """Whether a word is a placeholder, or an option whose value is one."""
    return word == place or (word.startswith("-") and word.endswith(f"={place}"))


def _filled(word: str, values: Mapping[str, str]) -> str:
    for place, value in values.items():
        if _holds(word, place):
            return word[: -len(place)] + value
    return word
