"""Checks: commands that must end well on a candidate before the target moves to it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...git.repository import UNATTENDED
from ...schema.errors import Refused
from ...workers.processes.run_process import run_process
from ...workers.raw_contract import how_it_exited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...workers.processes.own_child import StopSwitch
    from ...workers.processes.run_process import ProcessEnd
    from ...workers.processes.supervisors import Supervisors

#: How long a check may take, in seconds.
CHECK_TIMEOUT_S = 300.0

#: How much of what a check prints is kept, in bytes; and how much of its end a message of the
#: result has, in characters.
MAX_OUTPUT_BYTES, END_CHARS = 4 * 1024 * 1024, 2000


class NotStarted(Refused):
    """A check could not be started for want of resources; another time it may."""


@dataclass(frozen=True, slots=True)
class CheckCommand:
    """A command for `sh`, run at the top of a work tree that has the candidate.

    Attributes:
        command: the command.
        is_flaky: whether it is run once more when it fails.
    """

    command: str
    is_flaky: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        command: the command.
        exit: its exit code; None when it did not end by itself.
        duration_ms: how long it took.
        reason: why it failed, in one line; "" when it passed.
        output: what it printed.
        runs: how often it ran.
        was_stopped: whether somebody stopped it: the result says nothing about the candidate.
    """

    command: str
    exit: int | None
    duration_ms: int
    reason: str
    output: str
    runs: int
    was_stopped: bool = False

    @property
    def has_passed(self) -> bool:
        """Whether the command ended well."""
        return self.exit == 0

    @property
    def last_line(self) -> str:
        """The last line that it printed."""
        return next((line for line in reversed(self.output.splitlines()) if line.strip()), "")


def run_check(
    check: CheckCommand,
    folder: str,
    environment: Mapping[str, str],
    *,
    timeout_s: float = CHECK_TIMEOUT_S,
    stop: StopSwitch | None = None,
    supervisors: Supervisors | None = None,
    restore: Callable[[], None] = lambda: None,
) -> CheckResult:
    """Run a check until nothing that it started is left.

    Args:
        check: the check.
        folder: where it runs.
        environment: variables besides those of this process.
        timeout_s: how long each run may take.
        stop: ends it early.
        supervisors: they end all that it starts, also when this process is killed.
        restore: takes back what the first run did to the files, before the second.

    Raises:
        NotStarted: the machine lacked resources for it.
    """
    env = {name: value for name, value in os.environ.items() if name not in UNATTENDED}
    env |= {"GIT_TERMINAL_PROMPT": "0", **environment}
    runs = 0
    while True:
        runs += 1
        output = _Output()
        end = run_process(
            ("sh", "-c", check.command),
            b"",
            env=env,
            cwd=folder,
            timeout_s=timeout_s,
            max_stdout_bytes=None,
            max_stderr_bytes=None,
            stop=stop,
            supervisors=supervisors,
            output=output.add,
        )
        if end.may_start_later:
            raise NotStarted(f"check {check.command!r} can't be started now: {end.start_error}")
        if end.exit_code == 0 or end.stopped or not check.is_flaky or runs > 1:
            return _result(check, end, output.text(), runs, timeout_s)
        restore()


class _Output:
    """The end of what a command prints, both streams as they come."""

    def __init__(self) -> None:
        self._output = bytearray()

    def add(self, stream: str, data: bytes) -> None:
        self._output += data
        if len(self._output) > 2 * MAX_OUTPUT_BYTES:
            del self._output[:-MAX_OUTPUT_BYTES]

    def text(self) -> str:
        return self._output[-MAX_OUTPUT_BYTES:].decode("utf-8", "replace")


def _result(
    check: CheckCommand, end: ProcessEnd, output: str, runs: int, timeout_s: float
) -> CheckResult:
    if end.timed_out:
        reason = f"it has not ended within {timeout_s:g} s"
    elif end.exit_code == 0 or end.stopped:
        reason = ""
    else:
        reason = end.start_error or how_it_exited(end)
    duration_ms = round(end.run_s * 1000)
    return CheckResult(check.command, end.exit_code, duration_ms, reason, output, runs, end.stopped)


# Proposing: a command asks somebody else to move the target, by a pull request for instance.


def propose(
    command: str,
    folder: str,
    environment: Mapping[str, str],
    *,
    stop: StopSwitch,
    supervisors: Supervisors,
) -> str | None:
    """Run the command that proposes a candidate; return why it failed, or None.

    Args:
        command: for `sh`; the candidate is in its environment.
        folder: where it runs.
        environment: variables besides those of this process.
        stop: ends it early.
        supervisors: they end all that it starts.
    """
    result = run_check(
        CheckCommand(command), folder, environment, stop=stop, supervisors=supervisors
    )
    if result.has_passed:
        return None
    last_line = f": {result.last_line[:300]}" if result.last_line else ""
    return f"it could not be proposed: {result.reason}{last_line}"
