"""One attempt at a job: the plugin's program runs, and its live output is stored.

Nothing here touches the bus, so that it runs in a thread of its own: what the request needs was
read when the job was claimed, and the result is stored by the one thread that ends jobs.
"""

from __future__ import annotations

import codecs
import logging
import os
import resource
import threading
import time
from dataclasses import dataclass, field
from functools import partial

import orjson

from ...bus import tracing
from ...schema.errors import AckbusError, InvalidInput, shown
from ...schema.message.draft import TRACE_PARENT
from ...schema.message.names import MAX_TYPE_CHARS
from ...schema.message.times import format_ts
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs.claims import COMPLETED, Outcome
from ...subscribers.jobs.jobs import FAILED, TIMED_OUT
from ...workers.json_contract import PROTOCOL, NoResponse, parse_response
from ...workers.processes.run_process import MAX_STDERR_BYTES, MAX_STDOUT_BYTES, run_process
from ...workers.raw_contract import EX_CONFIG, EX_TEMPFAIL, how_it_exited, with_stderr_line
from ..records.facts import JobLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from threading import Thread
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim
    from ...subscribers.options import EndStatus
    from ...workers.processes.own_child import StopSwitch
    from ...workers.processes.run_process import ProcessEnd
    from ...workers.processes.supervisors import Supervisors
    from ..config.models import AmendmentsConfig
    from ..plugins.discovery import Plugin

# Live output: what running plugins print is stored in chunks, by a thread of its own.
#
# The threads that read the pipes must not wait for the bus: a deadline would be late.

#: Seconds between two writes, and the delay of live output. An attempt that ends sooner has its
#: output in the log of jobs alone.
_PAUSE_S = 0.5

#: How much of one attempt's output is shown live, in bytes: the log of jobs has all of it.
_MAX_BYTES = 1024 * 1024

_output_log = logging.getLogger("ackbus.automation.output")


class _Attempt:
    """An attempt that prints."""

    def __init__(self) -> None:
        self.chunks: list[tuple[str, bytes]] = []  # appending is one step
        self.left_bytes = _MAX_BYTES
        self.began_at = time.monotonic()
        decoder = codecs.getincrementaldecoder("utf-8")
        self.decoders = {name: decoder(errors="replace") for name in ("stdout", "stderr")}


class LiveOutput:
    """Takes the output of running jobs, and stores it in short transactions."""

    def __init__(self, bus: LocalBus) -> None:
        self._engine = engine_of(bus)
        self._log = JobLog(self._engine)
        self._running: dict[int, _Attempt] = {}
        self._has_output = threading.Event()
        self._is_closing = threading.Event()
        self._thread: Thread | None = None

    def begin(self, token: int) -> Callable[[str, bytes], None]:
        """Begin with a claim's attempt; return a callback that takes a stream's name and bytes."""
        attempt = self._running[token] = _Attempt()
        return partial(self._take, attempt)

    def end(self, token: int) -> None:
        """Store no more of an attempt, whose end is about to be stored."""
        self._running.pop(token, None)

    def close(self) -> None:
        """End the thread."""
        self._is_closing.set()
        self._has_output.set()
        if self._thread is not None:
            self._thread.join()

    def _take(self, attempt: _Attempt, stream: str, data: bytes) -> None:
        piece = data[: attempt.left_bytes]
        if piece:
            attempt.left_bytes -= len(piece)
            attempt.chunks.append((stream, piece))
            self._has_output.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = start_thread(self._run, "live output")

    def _run(self) -> None:
        try:
            while not self._is_closing.is_set():
                self._has_output.wait()
                self._has_output.clear()
                self._is_closing.wait(_PAUSE_S)
                try:
                    self._write()
                except AckbusError as error:  # the end of the job has all of it
                    _output_log.warning("live output was not stored: %s", error)
        finally:
            self._engine.close_thread()

    def _write(self) -> None:
        began_before = time.monotonic() - _PAUSE_S
        attempts = [item for item in list(self._running.items()) if item[1].chunks]
        printed = [token for token, attempt in attempts if attempt.began_at <= began_before]
        if len(printed) < len(attempts):
            self._has_output.set()  # attempts that began later have their turn in the next round
        if not printed:
            return
        with self._engine.write():
            # Looked up again under the write lock: an attempt that ended meanwhile is gone from
            # here, and an end that is stored later deletes its live output.
            self._log.add_output(
                (token, stream, text)
                for token in printed
                if (attempt := self._running.get(token)) is not None
                for stream, text in _take_texts(attempt)
            )


def _take_texts(attempt: _Attempt) -> list[tuple[str, str]]:
    """Take the chunks of an attempt, neighbours of one stream joined."""
    chunks, attempt.chunks = attempt.chunks, []
    joined: list[tuple[str, bytearray]] = []
    for stream, data in chunks:
        if joined and joined[-1][0] == stream:
            joined[-1][1].extend(data)
        else:
            joined.append((stream, bytearray(data)))
    texts = [(stream, attempt.decoders[stream].decode(bytes(data))) for stream, data in joined]
    return [(stream, text) for stream, text in texts if text]


#: The command that handles an event; no other command gets one.
HANDLE = "handle"

#: The commands that look at a plugin or set it up: a failure is an answer, and is not tried again.
DIAGNOSTIC = ("health", "init")

#: The entry of a job's origin that says why it must fail before it begins.
FAULT = "fault"

#: The variables of the service that every plugin gets.
_USUAL_VARIABLES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "no_proxy", "PYTHONPATH", "VIRTUAL_ENV"),
)
_USUAL_BEGINNINGS = ("LC_", "XDG_")

_MEANINGS_OF_CODES = {EX_TEMPFAIL: "asks for another attempt", EX_CONFIG: "forbids another attempt"}

_log = logging.getLogger("ackbus.automation.plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginJob:
    """A claimed job, with everything that the request to its plugin needs.

    Attributes:
        claim: the right to it.
        plugin: as it was when the job was claimed.
        command: of the plugin.
        state: of the plugin.
        context: the baggage of the pipeline.
        started_at_ms: when it was claimed, in epoch milliseconds.
        bus_dir: where the bus is.
        passed_through: the names of further variables of the service that plugins get.
        amendments: the amendments to protocol 2 that are on.
        stop: ends it early.
    """

    claim: Claim
    plugin: Plugin
    command: str
    state: Mapping[str, Any]
    context: Mapping[str, Any]
    started_at_ms: int
    bus_dir: str
    passed_through: Sequence[str]
    amendments: AmendmentsConfig
    stop: StopSwitch

    @property
    def message(self) -> Message:
        """Return the message of the job."""
        return self.claim.message

    @property
    def timeout_s(self) -> float:
        """Return the seconds that it may take."""
        return self.plugin.timeout_s(self.command)

    @property
    def fault(self) -> str | None:
        """Why it must fail without running: its pipeline could not build its input; or None."""
        job_header = self.message.headers.get("job")
        fault = job_header.get(FAULT) if isinstance(job_header, dict) else None
        return fault if isinstance(fault, str) else None

    def request(self) -> dict[str, object]:
        """Return what the plugin reads from stdin."""
        message = self.message
        deadline_ms = self.started_at_ms + round(self.timeout_s * 1000)
        request: dict[str, object] = {
            "protocol": PROTOCOL,
            "job_id": message.id,
            "command": self.command,
            "config": self.plugin.settings.config,
            "state": self.state,
            "context": self.context,
            "deadline_at": format_ts(deadline_ms),
        }
        if self.command == HANDLE:
            request["event"] = _event(message)
        elif message.has_payload and message.payload not in (None, {}):
            request["payload"] = message.payload
        return request


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of an attempt.

    Attributes:
        outcome: for the claim; None: it was broken off by the service, and counts as not begun.
        why: the reason why it was broken off.
        events: what the plugin published.
        state_updates: changes of the plugin's state; None: it is unchanged.
        replaces_state: whether the updates are the whole new state.
        stdout, stderr: all that it printed, as far as it is kept.
        run_s: how long it took, in seconds.
    """

    outcome: Outcome | None
    why: str = "the service ended"
    events: Sequence[Mapping[str, Any]] = ()
    state_updates: Mapping[str, Any] | None = None
    replaces_state: bool = False
    stdout: str = ""
    stderr: str = ""
    run_s: float = field(default=0.0, compare=False)


def run_plugin(
    job: PluginJob,
    *,
    supervisors: Supervisors | None,
    output: Callable[[str, bytes], None] | None,
) -> RunEnd:
    """Run the program of a plugin for a job; blocks until nothing of it is left.

    It is a span of the job's trace, where this process makes spans.
    """
    with tracing.handling(job.message, job.plugin.name):
        end = _run(job, supervisors, output)
        if end.outcome is not None and end.outcome.error is not None:
            tracing.mark_failed(end.outcome.error)
    return end


def _run(
    job: PluginJob, supervisors: Supervisors | None, output: Callable[[str, bytes], None] | None
) -> RunEnd:
    message = job.message
    if job.fault is not None:
        return RunEnd(outcome=Outcome(status=FAILED, error=job.fault, retry=False))
    if message.payload_error is not None:
        error = f"the payload of message {message.seq} can't be had: {message.payload_error}"
        return RunEnd(outcome=Outcome(status=FAILED, error=error))
    end = run_process(
        [os.path.abspath(job.plugin.entrypoint)],  # it runs in another folder
        orjson.dumps(job.request()),
        env=environment(job, os.environ),
        cwd=job.plugin.working_directory,
        timeout_s=job.timeout_s,
        stop=job.stop,
        supervisors=supervisors,
        limits=_limits(job.plugin),
        output=output,
    )
    if end.stderr_cut:
        log_extra = {"plugin": job.plugin.name, "job_id": message.id}
        _log.warning("stderr was cut to %s bytes", MAX_STDERR_BYTES, extra=log_extra)
    return read_end(job, end)


def read_end(job: PluginJob, end: ProcessEnd) -> RunEnd:
    """Return what the end of a program means."""
    if end.stopped:
        return RunEnd(outcome=None, stdout=_text(end.stdout), stderr=_text(end.stderr))
    if end.timed_out:
        return _failed(job, end, f"timed out after {job.timeout_s:g} seconds", status=TIMED_OUT)
    if end.start_error is not None:
        return _failed(job, end, end.start_error, retry=True if end.may_start_later else None)
    if end.stdout_too_long:
        return _failed(job, end, f"protocol error: more than {MAX_STDOUT_BYTES} bytes of stdout")
    try:
        response = parse_response(
            end.stdout,
            check_event_type=check_event_type,
            more_fields=("state_replace",) if job.amendments.state_replace else (),
        )
        replaces_state = _amended(response, job.amendments)
    except InvalidInput as error:
        # After exit status 0 a broken response would be as broken next time. In other cases, and
        # for no response at all, the policy of the queue decides.
        retry = None if end.exit_code or isinstance(error, NoResponse) else False
        return _failed(job, end, _error_without_response(end, error), retry=retry)
    if end.exit_code or response["status"] == "error":
        reason = response.get("error") or how_it_exited(end)
        # None: the policy of the queue decides; a response can only forbid another attempt.
        retry = None if response.get("retry", True) else False
        logs, after_s = response.get("logs"), response.get("retry_after_s")
        return _failed(job, end, reason, retry=retry, logs=logs, retry_after_s=after_s)
    result = response["result"]
    outcome = Outcome(
        exit_code=0,
        result=result,
        stderr=_text(end.stderr),
        logs=response.get("logs"),
        retry=False,  # the work is done: if its events can't be stored, it is not done again
    )
    return RunEnd(
        outcome=outcome,
        events=tuple(response.get("events", ())),
        state_updates=response.get("state_updates"),
        replaces_state=replaces_state,
        stdout=_text(end.stdout),
        stderr=_text(end.stderr),
        run_s=end.run_s,
    )


def _amended(response: Mapping[str, Any], amendments: AmendmentsConfig) -> bool:
    """Check a response by the amendments; return whether its updates are the whole state.

    Raises:
        InvalidInput: it lacks `protocol`, or a field is wrong.
    """
    if amendments.protocol_echo and "protocol" not in response:
        raise InvalidInput(f"the response does not repeat protocol: {PROTOCOL}")
    replaces = response.get("state_replace", False) if amendments.state_replace else False
    if not isinstance(replaces, bool):
        raise InvalidInput("state_replace in the response is not of type bool")
    return replaces


def _failed(
    job: PluginJob,
    end: ProcessEnd,
    error: str,
    *,
    status: EndStatus = FAILED,
    retry: bool | None = None,
    logs: list[Any] | None = None,
    retry_after_s: float | None = None,
) -> RunEnd:
    if end.exit_code == EX_CONFIG or job.command in DIAGNOSTIC:
        retry = False
    elif end.exit_code == EX_TEMPFAIL and job.amendments.exit_75_retries:
        retry = True
    outcome = Outcome(
        status=status,
        error=error,
        exit_code=end.exit_code,
        stderr=_text(end.stderr),
        result=_text(end.stdout),
        logs=logs,
        retry=retry,
        retry_after_s=retry_after_s,
    )
    return RunEnd(
        outcome=outcome, stdout=_text(end.stdout), stderr=_text(end.stderr), run_s=end.run_s
    )


def _error_without_response(end: ProcessEnd, error: InvalidInput) -> str:
    """Return the failure of a program whose stdout is no response."""
    if end.exit_code in _MEANINGS_OF_CODES:  # the code needs no error of the parser
        return with_stderr_line(
            f"{how_it_exited(end)}, which {_MEANINGS_OF_CODES[end.exit_code]}", end
        )
    if end.exit_code:
        return f"{with_stderr_line(how_it_exited(end), end)}; {error}"
    return f"protocol error: {error}"


def check_event_type(type: object) -> None:
    """Refuse a type of an event that is not 1 to `MAX_TYPE_CHARS` printable characters."""
    if not isinstance(type, str) or not 0 < len(type) <= MAX_TYPE_CHARS or not type.isprintable():
        raise InvalidInput(
            f"the type of an event is 1 to {MAX_TYPE_CHARS} printable characters, not {shown(type)}"
        )


def _event(message: Message) -> dict[str, object]:
    """Return the event for a `handle`; a job without one gets its own request as the event."""
    event_header = message.headers.get("event")
    event = dict(event_header) if isinstance(event_header, dict) else {}
    event.setdefault("type", f"{message.from_agent}.{HANDLE}")
    event["payload"] = message.payload if message.has_payload else None
    event.setdefault("source", message.from_agent)
    event.setdefault("timestamp", format_ts(message.ts_ms))
    event.setdefault("event_id", message.id)
    return event


def environment(job: PluginJob, service: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a plugin: the usual variables, those passed through, and ours."""
    names = {*_USUAL_VARIABLES, *job.passed_through}
    inherited = {
        name: value
        for name, value in service.items()
        if name in names or name.startswith(_USUAL_BEGINNINGS)
    }
    bus_variables = {
        "BUS_DIR": job.bus_dir,
        "BUS_AGENT": job.plugin.name,
        "BUS_JOB_ID": job.message.id,
    }
    trace = tracing.child_trace(job.message.headers)
    if trace:
        bus_variables[TRACE_PARENT.upper()] = trace[TRACE_PARENT]
    return inherited | bus_variables


def _limits(plugin: Plugin) -> list[tuple[int, int]]:
    limits = plugin.settings.limits
    rlimits: dict[str, int | None] = {
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_CPU": None if limits.cpu_s is None else max(1, round(limits.cpu_s)),
        "RLIMIT_NPROC": limits.processes,
        "RLIMIT_NOFILE": limits.open_files,
    }
    return [
        (getattr(resource, name), value)
        for name, value in rlimits.items()
        if value is not None and hasattr(resource, name)
    ]


def _text(printed: bytes) -> str:
    return printed.decode(errors="replace")


def is_success(end: RunEnd) -> bool:
    """Whether an attempt succeeded."""
    return end.outcome is not None and end.outcome.status == COMPLETED
