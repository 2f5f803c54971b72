"""Work by a command in the raw contract: body on stdin, result on stdout.

The parts that both contracts share are here too: the environment of a command, its run and end,
and the meaning of its exit status.
"""

from __future__ import annotations

import logging
import os
import re

import orjson

from ..bus import tracing
from ..schema.arguments import with_checked_arguments
from ..schema.directory.layout import BUS_DIR_VARIABLE
from ..schema.errors import AckbusError, InvalidInput
from ..schema.message.draft import TRACE_PARENT, TRACE_STATE
from ..subscribers.jobs.claims import Outcome
from .processes.own_child import StopSwitch
from .processes.run_process import MAX_STDERR_BYTES, MAX_STDOUT_BYTES, ProcessEnd, run_process
from .work import AttemptResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim
    from .processes.supervisors import Supervisors

# The environment variables of a command about its message.

#: The header whose entries become environment variables, and the prefix of their names.
META, META_PREFIX = "meta", "BUS_META_"


def environment_of(message: Message, bus: LocalBus, agent: str) -> dict[str, str]:
    """Return the environment of a command that is run for a message.

    It is this process's own, without variables that would look as if they came from the message.

    Args:
        message: what the command is run for.
        bus: where it is from.
        agent: the name under which the command acts.
    """
    variables = {
        BUS_DIR_VARIABLE: bus.layout.directory,
        "BUS_AGENT": agent,
        "BUS_MESSAGE_ID": message.id,
        "BUS_MESSAGE_SEQ": str(message.seq),
        "BUS_MESSAGE_TYPE": message.type,
        "BUS_FROM": message.from_agent,
        "BUS_CORRELATION_ID": message.conversation,
    }
    variables |= trace_variables(message)
    return _inherited() | variables | _meta_variables(message.headers.get(META))


def trace_variables(message: Message) -> dict[str, str]:
    """Return the trace context of a command that is run for a message; {} where it has none."""
    trace = tracing.child_trace(message.headers)
    if not trace:
        return {}
    return {
        TRACE_PARENT.upper(): trace[TRACE_PARENT],
        TRACE_STATE.upper(): trace.get(TRACE_STATE, ""),
    }


def _inherited() -> dict[str, str]:
    prefixes = (TRACE_PARENT.upper(), TRACE_STATE.upper(), META_PREFIX)
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def _meta_variables(meta: object) -> dict[str, str]:
    if not isinstance(meta, dict):
        return {}
    return {
        META_PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper()): value.replace("\0", "")
        for name, raw in meta.items()
        for value in (raw if isinstance(raw, str) else orjson.dumps(raw).decode(),)
    }


#: How long a command of the raw contract may take by default, in seconds.
RAW_TIMEOUT_S = 60.0

#: Exit statuses of sysexits.h: try again later; wrong configuration, which no retry mends.
EX_TEMPFAIL, EX_CONFIG = 75, 78

#: How much of stderr an answer quotes, in characters: all of the kept is on the claim.
_QUOTED_CHARS = 4096

_log = logging.getLogger("ackbus.worker")


class ContractCommand:
    """The base of both contracts: running a command for a claim.

    Args:
        bus: the bus that the claims are from.
        argv: the command and its arguments.
        group: the worker group, which the command finds as its own agent name.
        timeout_s: how long it may take, in seconds; None: no limit.
        supervisors: for a host that is a program of its own: they end everything it starts.
    """

    def __init__(
        self,
        bus: LocalBus,
        argv: Sequence[str],
        *,
        group: str,
        timeout_s: float | None,
        supervisors: Supervisors | None = None,
    ) -> None:
        if not argv:
            raise InvalidInput("there is no command to run")
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidInput(f"a timeout is more than 0 s, not {timeout_s}")
        self._bus = bus
        self._argv = list(argv)
        self._group = group
        self._timeout_s = timeout_s
        self._supervisors = supervisors
        self._switches: dict[int, StopSwitch] = {}
        self._stopped: set[int] = set()

    #: Whether a failure is the reply, see `Outcome`.
    _failure_is_reply = False

    def stop(self, claim: Claim, grace_s: float) -> None:
        """End the command that runs for a claim."""
        self._stopped.add(claim.token)  # first: the command may be about to start
        switch = self._switches.get(claim.token)
        if switch is not None:
            switch.stop(grace_s)

    def _run(self, claim: Claim, stdin: bytes) -> ProcessEnd:
        try:
            switch = self._switches[claim.token] = StopSwitch()
        except OSError as error:  # no descriptors are left
            problem = f"{self._argv[0]!a} can't be started: {error.strerror}"
            return ProcessEnd(start_error=problem, may_start_later=True)
        if claim.token in self._stopped:
            switch.stop(0)
        try:
            end = run_process(
                self._argv,
                stdin,
                env=self._environment(claim),
                timeout_s=self._timeout_s,
                stop=switch,
                supervisors=self._supervisors,
            )
        finally:
            del self._switches[claim.token]
            self._stopped.discard(claim.token)
        if end.stderr_cut:
            seq = claim.message.seq
            _log.warning("message %s: stderr was cut to %s bytes", seq, MAX_STDERR_BYTES)
        return end

    def _environment(self, claim: Claim) -> dict[str, str]:
        """Return the environment variables of a command about its job."""
        return environment_of(claim.message, self._bus, self._group) | {
            "BUS_QUEUE": claim.queue,
            "BUS_ATTEMPT": str(claim.attempt),
            "BUS_MAX_ATTEMPTS": str(claim.max_attempts),
            "BUS_CLAIM_TOKEN": str(claim.token),
        }

    def _ended_badly(self, end: ProcessEnd) -> AttemptResult | None:
        """Return the result of a command that was ended by the host, or None."""
        stderr = _text(end.stderr)
        if end.stopped:
            return AttemptResult(None)  # by us: the job is handed back
        if end.timed_out:
            text = f"command timed out after {self._timeout_s:g} seconds"
            outcome = Outcome(
                status="timed_out",
                error=text,
                stderr=stderr,
                result=_text(end.stdout),
                is_reply=self._failure_is_reply,
            )
            payload = f"{text}\n{stderr}" if stderr else text
            return AttemptResult(outcome, payload=payload, headers=self._headers(outcome))
        error = end.start_error
        if end.stdout_too_long:
            error = f"the command printed more than {MAX_STDOUT_BYTES} bytes"
        return None if error is None else self._failure(end, error)

    def _failure(self, end: ProcessEnd, error: str, *, payload: str | None = None) -> AttemptResult:
        """Return the result of an attempt that failed."""
        retry = {EX_CONFIG: False, EX_TEMPFAIL: True}.get(end.exit_code or 0)
        if end.may_start_later:
            retry = True
        outcome = Outcome(
            status="failed",
            error=error,
            exit_code=end.exit_code,
            stderr=_text(end.stderr),
            result=_text(end.stdout),
            retry=retry,
            is_reply=self._failure_is_reply,
        )
        return AttemptResult(outcome, payload=payload or error, headers=self._headers(outcome))

    def _headers(self, outcome: Outcome) -> dict[str, object]:
        """Return the headers of an answer about its attempt."""
        name = os.fsencode(os.path.basename(self._argv[0])).decode(errors="replace")
        headers: dict[str, object] = {"command": name[:255]}
        headers["status"] = outcome.status
        if outcome.exit_code is not None:
            headers["exit_code"] = outcome.exit_code
        if outcome.stderr:
            headers["stderr"] = outcome.stderr[:_QUOTED_CHARS]
        return headers


@with_checked_arguments
class RawCommand(ContractCommand):
    """The raw contract: a command reads the body from stdin and prints the result to stdout.

    Exit status 0 is success, and its stdout is the answer's payload, as text. Any other status is
    failure, and the answer's payload is its stderr, or else its stdout. 75 asks for another
    attempt, 78 forbids another attempt.
    """

    _failure_is_reply = True

    def __init__(
        self,
        bus: LocalBus,
        argv: Sequence[str],
        *,
        group: str,
        timeout_s: float | None = RAW_TIMEOUT_S,
        supervisors: Supervisors | None = None,
    ) -> None:
        super().__init__(bus, argv, group=group, timeout_s=timeout_s, supervisors=supervisors)

    def do(self, claim: Claim) -> AttemptResult:
        """Run the command for a claim."""
        try:
            body = body_of(claim.message, self._bus)
        except AckbusError as error:
            outcome = Outcome(status="failed", error=str(error), is_reply=True)
            return AttemptResult(outcome, payload=str(error), headers=self._headers(outcome))
        end = self._run(claim, body)
        badly = self._ended_badly(end)
        if badly is not None:
            return badly
        stdout = _text(end.stdout)
        if end.exit_code == 0:
            outcome = Outcome(exit_code=0, stderr=_text(end.stderr), result=stdout)
            return AttemptResult(outcome, payload=stdout, headers=self._headers(outcome))
        how = how_it_exited(end)
        why = with_stderr_line(how, end)
        return self._failure(end, why, payload=_text(end.stderr) or stdout or how)


def body_of(message: Message, bus: LocalBus) -> bytes:
    """Return the stdin of a command: a text payload as it is, any other as JSON.

    A blob that is not JSON is read as it is; no payload is nothing.

    Raises:
        InvalidInput: the payload can't be had.
    """
    error = message.payload_error
    if error == "decode_failed":
        if message.payload_ref is not None:
            return bus.blobs.read(message.payload_ref)
        return (message.raw_payload or "").encode()
    if error is not None:
        raise InvalidInput(f"the payload of message {message.seq} can't be had: {error}")
    if not message.has_payload:
        return b""
    payload = message.payload
    return payload.encode() if isinstance(payload, str) else orjson.dumps(payload)


#: How a traceback of Python begins.
_TRACEBACK = "Traceback (most recent call last)"


def how_it_exited(end: ProcessEnd) -> str:
    """Return the failure of a command as text."""
    if end.signal is not None:
        return f"command was killed by signal {end.signal}"
    return f"command exited with code {end.exit_code}"


def with_stderr_line(how: str, end: ProcessEnd) -> str:
    """Return a failure with the first line of the command's stderr, if there is any.

    Of a traceback of Python it is the last line, which has the error.
    """
    lines = [line.strip() for line in _text(end.stderr).splitlines() if line.strip()]
    if not lines:
        return how
    return f"{how}: {lines[-1] if lines[0].startswith(_TRACEBACK) else lines[0]}"


def _text(printed: bytes) -> str:
    return printed.decode(errors="replace")
