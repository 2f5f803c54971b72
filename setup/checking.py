"""`bus setup NAME --check`: probes sent as the program would send them, and their arrival."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from ..bus.local_bus import LocalBus
from ..schema.children import ReapedChild, run_child
from ..schema.directory.discovery import find_bus
from ..schema.directory.layout import BUS_DIR_VARIABLE, BUS_DIRECTORY, expand_home, user_bus
from ..schema.errors import AckbusError, UnknownRecipientWarning
from ..schema.message.names import new_id
from ..schema.process_table import SESSION_VARIABLE
from ..schema.sqlite.creation import create
from ..subscribers.inboxes.session_names import SessionNames
from ..subscribers.overview.agents import outsider
from .edits import JsonHook, JsonServer
from .files import ConfigFile
from .installation import Installation
from .record import PluginFile, bus_of, hook_command
from .text_edits import TomlServer

# One call of an MCP server's tool without the SDK: JSON-RPC, a line each way.
#
# The official client is no part of an ordinary installation, and the probe tests the program's
# own way: the command of its configuration, and nothing else.

#: A version of the protocol that every server of today knows.
_PROTOCOL = "2025-06-18"

#: How long a server may take to start and to answer, in seconds.
_TIMEOUT_S = 20.0

#: How much of its output is read at once, in bytes.
_CHUNK_BYTES = 64 * 1024

#: How long it may take to end after its output has ended, in seconds.
_END_WITHIN_S = 1.0


def probe_environment(directory: str) -> dict[str, str]:
    """Return the environment of a probe: of no session, and with the bus that it is to use."""
    return {**os.environ, SESSION_VARIABLE: "off", BUS_DIR_VARIABLE: directory}


class ProbeFailed(Exception):
    """The server did not start, or did not answer as it must."""


def call_tool(
    words: list[str], folder: str, tool: str, arguments: dict[str, Any], *, directory: str
) -> Any:
    """Start a server in a folder, call one of its tools, end it, and return the result.

    Args:
        words: the server's command.
        folder: where it is started.
        tool, arguments: the call.
        directory: the directory of the bus that it is to use.

    Raises:
        ProbeFailed: the call failed.
    """
    with tempfile.TemporaryFile() as errors:  # an unread pipe of errors would block the server
        try:
            process = ReapedChild(
                words,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=probe_environment(directory),
            )
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise ProbeFailed(f"{words[0]} can't be run: {why}") from error
        server = _Server(process, errors)
        try:
            about = {"name": "bus setup", "version": "1"}
            hello = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": about}
            server.request("initialize", hello)
            server.notify("notifications/initialized")
            result = server.request("tools/call", {"name": tool, "arguments": arguments})
        finally:
            server.end()
    if isinstance(result, dict) and result.get("isError"):
        raise ProbeFailed(f"{tool} failed: {_text_of(result)}")
    return result


class _Server:
    """The client side of the server; every wait for its output ends."""

    def __init__(self, process: ReapedChild, errors: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._errors = process, errors
        self._stdin = process.stdin
        self._output, self._rest = process.stdout, b""
        self._last_id = 0
        self._deadline = time.monotonic() + _TIMEOUT_S

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request, and return the result of its response."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            response = self._next(method)
            if response.get("id") == self._last_id and "method" not in response:
                break
        if "error" in response:
            raise ProbeFailed(f"{method} failed: {response['error']}")
        return response.get("result")

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def end(self) -> None:
        """End the server; its own children may hold its output open, and are not waited for."""
        self._process.kill()
        with suppress(OSError), self._process:  # input that the server did not read is lost
            pass

    def _send(self, record: dict[str, Any]) -> None:
        try:
            self._stdin.write(json.dumps({"jsonrpc": "2.0", **record}).encode() + b"\n")
            self._stdin.flush()
        except OSError as error:
            raise self._ended() from error

    def _next(self, method: str) -> dict[str, Any]:
        while b"\n" not in self._rest:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._output], [], [], left_s)[0]:
                raise ProbeFailed(f"no answer to {method} within {_TIMEOUT_S:g} s")
            data = os.read(self._output.fileno(), _CHUNK_BYTES)
            if not data:
                raise self._ended()
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ProbeFailed(f"the server printed what is not JSON: {line[:80]!a}") from error
        return record if isinstance(record, dict) else {}

    def _ended(self) -> ProbeFailed:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_WITHIN_S)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return ProbeFailed(f"the server ended: {lines[-1] if lines else 'it said nothing'}")


def _text_of(result: dict[str, Any]) -> str:
    parts = result.get("content")
    texts = [part.get("text", "") for part in parts or () if isinstance(part, dict)]
    return " ".join(" ".join(map(str, texts)).split())


#: The agent that a probe is sent to, and that sends messages to a hook: no real agent.
PROBE_AGENT = "ackbus-check"

#: The type of a probe.
PROBE_TYPE = "ackbus.probe"

_BODY = "a probe of 'bus setup --check'"

#: How long a program's hook may take, in seconds.
_HOOK_S = 10.0


@dataclass(frozen=True)
class SetupFinding:
    """The finding about one part.

    Attributes:
        part: the part, such as `configuration`, `mcp`, `hook stop`.
        is_well: whether it works.
        says: the finding, in one line.
    """

    part: str
    is_well: bool
    says: str


def check(installation: Installation, bus: LocalBus) -> Iterator[SetupFinding]:
    """Check each part of the setup, and try it as the program would."""
    files = installation.files()
    yield from _sessions(installation, bus)
    for file in files:
        yield _configuration(installation, file)
    for clash in installation.clashes():
        yield SetupFinding("programs", False, clash)
    for file in files:
        text = _text(file)
        for edit in file.edits:
            if isinstance(edit, (JsonServer, TomlServer)):
                yield _server(file.server_words(), installation, bus)
            elif isinstance(edit, PluginFile):
                yield _hook(edit.command_in(text), installation, bus)
            elif isinstance(edit, JsonHook) and edit.mark.split()[1] == "stop":
                yield _hook(_command_in(edit, text), installation, bus)


def _text(file: ConfigFile) -> str:
    try:
        return (file.read() or "").removeprefix("\ufeff")
    except AckbusError:  # `_configuration` reports it
        return ""


def _configuration(installation: Installation, file: ConfigFile) -> SetupFinding:
    try:
        before = file.read()
        after = file.with_all(before)
    except AckbusError as error:
        return SetupFinding("configuration", False, str(error))
    if before == after:
        return SetupFinding("configuration", True, file.path)
    what = "is not there" if before is None else "is not as it would be set up now"
    return SetupFinding("configuration", False, f"{file.path} {what}; run '{installation.command}'")


def _sessions(installation: Installation, bus: LocalBus) -> Iterator[SetupFinding]:
    """Report the sessions under the agent's name, and processes that use the name without one."""
    running = SessionNames.of(bus).running(installation.agent)
    if running:
        yield SetupFinding("sessions", True, ", ".join(session.name for session in running))
    for session in running:
        other = outsider(bus, session)
        if other is not None:
            says = (
                f"process {other.pid} acts as {session.name} too: end it, or give it another name"
            )
            yield SetupFinding("sessions", False, says)


def _not_ours(part: str, command: str, installation: Installation) -> SetupFinding:
    """Report a command that is not ours. It may have come with a clone, and is never run."""
    says = f"{command!a} is not run, since it is not {installation.bus}"
    return SetupFinding(part, False, f"{says}; run '{installation.command}'")


# A probe goes to a bus of its own, which is gone afterwards: nothing of it is in the real log, and
# no agent is known by it. That the command would use the real bus is seen by its words.


@contextmanager
def _bus_of_probes() -> Iterator[LocalBus]:
    with tempfile.TemporaryDirectory(prefix="ackbus-check-") as folder:
        directory = os.path.join(os.path.realpath(folder), BUS_DIRECTORY)
        create(directory)
        with LocalBus.open(directory) as probed:
            yield probed


def _elsewhere(words: list[str], installation: Installation, bus: LocalBus) -> str | None:
    """Return why a command of ours would not use this bus; None: it would."""
    named = bus_of(words)
    try:
        if named == "--user":
            directory = user_bus()
        elif named is not None:
            directory = os.path.join(installation.folder, expand_home(named))
        else:
            directory = find_bus(installation.folder)
    except AckbusError as error:
        return str(error)
    if os.path.realpath(directory) == os.path.realpath(bus.layout.directory):
        return None
    return f"it would use the bus in {directory}, not the one in {bus.layout.directory}"


def _without_bus(words: list[str]) -> list[str]:
    """Return a command of ours without the options that name its bus."""
    rest, skips = [], False
    for word in words:
        if not skips and word not in ("--dir", "--user") and not word.startswith("--dir="):
            rest.append(word)
        skips = word == "--dir" and not skips
    return rest


# MCP -----------------------------------------------------------------------------------------


def _server(words: list[str], installation: Installation, bus: LocalBus) -> SetupFinding:
    if not words:
        return SetupFinding("mcp", False, "no server is configured")
    if words[:2] != [installation.bus, "mcp"]:
        return _not_ours("mcp", words[0], installation)
    if (other := _elsewhere(words, installation, bus)) is not None:
        return SetupFinding("mcp", False, other)
    with _bus_of_probes() as probed:
        return _try_server(_without_bus(words), installation, probed)


def _try_server(words: list[str], installation: Installation, probed: LocalBus) -> SetupFinding:
    probe = {"type": PROBE_TYPE, "payload": _BODY, "to": PROBE_AGENT, "id": new_id()}
    directory = probed.layout.directory
    started = time.monotonic()
    try:
        call_tool(words, installation.folder, "bus_send", probe, directory=directory)
    except ProbeFailed as error:
        return SetupFinding("mcp", False, f"{error}")
    took_ms = (time.monotonic() - started) * 1000
    message = probed.get(probe["id"])
    if message is None:
        return SetupFinding("mcp", False, "the server took a probe that did not arrive")
    if message.from_agent != installation.agent:
        says = f"a probe arrived from {message.from_agent!a}, not from {installation.agent!a}"
        return SetupFinding("mcp", False, says)
    return SetupFinding("mcp", True, f"a probe arrived in {took_ms:.0f} ms")


# hooks ---------------------------------------------------------------------------------------


def _hook(command: str | None, installation: Installation, bus: LocalBus) -> SetupFinding:
    if command is None:
        return SetupFinding("hook", False, "no hook is configured")
    if not command.startswith(hook_command([installation.bus, "hook", "stop"]) + " ") or (
        hook_command(_words(command)) != command  # a shell would do more than run it
    ):
        return _not_ours("hook", command, installation)
    words = _words(command)
    if (other := _elsewhere(words, installation, bus)) is not None:
        return SetupFinding("hook", False, other)
    with _bus_of_probes() as probed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownRecipientWarning)  # it is new there
            probed.publish(PROBE_TYPE, _BODY, from_agent=PROBE_AGENT, to_agent=installation.agent)
        return _run_hook(hook_command(_without_bus(words)), installation, probed.layout.directory)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without its end
        return []


def _run_hook(command: str, installation: Installation, directory: str) -> SetupFinding:
    event = {"hook_event_name": "Stop", "stop_hook_active": False, "cwd": installation.folder}
    started = time.monotonic()
    ended = run_child(
        ["/bin/sh", "-c", command],
        stdin=json.dumps(event).encode(),
        cwd=installation.folder,
        limit_s=_HOOK_S,
        env=probe_environment(directory),
    )
    if ended is None:
        return SetupFinding("hook", False, f"it took more than {_HOOK_S:g} s: {command}")
    took_ms = (time.monotonic() - started) * 1000
    if ended.code:
        return SetupFinding("hook", False, f"exit status {ended.code}: {command}")
    if b"[1] " not in ended.out:
        complaint = ended.err.decode(errors="replace").strip() or "it printed nothing of it"
        return SetupFinding("hook", False, f"a message did not arrive: {complaint}")
    return SetupFinding("hook", True, f"a message arrived in {took_ms:.0f} ms")


def _command_in(edit: JsonHook, text: str) -> str | None:
    """Return the command of a hook in a text; None where the text can't be parsed."""
    try:
        return edit.command_in(text)
    except AckbusError:
        return None
