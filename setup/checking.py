"""`bus setup NAME --check`: probes sent as the program would send them, and their arrival."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from ..bus.bus import Bus
from ..schema.children import run_child
from ..schema.errors import AckbusError, UnknownRecipientWarning
from ..schema.message.ids import new_id
from ..subscribers.inboxes.inbox import Inbox
from ..subscribers.inboxes.session_names import SessionNames
from ..subscribers.overview.session_bypass import outsider
from .edits import JsonHook, JsonServer
from .files import ConfigFile
from .installation import Installation
from .mcp_probe import ProbeFailed, call_tool, probing
from .ours import hook_command
from .plugin import PluginFile
from .text_edits import TomlServer

#: The name of a probe's other end, which no agent has.
PROBE_AGENT = "ackbus-check"

#: The type of a probe.
PROBE_TYPE = "ackbus.probe"

_BODY = "a probe of 'bus setup --check'"

#: How long a program's hook may take, in seconds.
_HOOK_S = 10.0


@dataclass(frozen=True)
class Finding:
    """The finding about one part.

    Attributes:
        part: the part, such as `configuration`, `mcp`, `hook stop`.
        is_well: whether it works.
        says: the finding, in a line.
    """

    part: str
    is_well: bool
    says: str


def check(installation: Installation, bus: Bus) -> Iterator[Finding]:
    """Check each part of the setup, and try it as the program would."""
    files = installation.files()
    yield from _sessions(installation, bus)
    for file in files:
        yield _configuration(installation, file)
    for clash in installation.clashes():
        yield Finding("programs", False, clash)
    for file in files:
        text = _text(file)
        for edit in file.edits:
            if isinstance(edit, (JsonServer, TomlServer)):
                yield _server(file.server_words(), installation, bus)
            elif isinstance(edit, PluginFile):
                yield _hook(edit.command_in(text), installation, bus)
            elif isinstance(edit, JsonHook) and edit.mark.split()[1] == "stop":
                yield _hook(_understood(edit, text), installation, bus)


def _text(file: ConfigFile) -> str:
    try:
        return (file.read() or "").removeprefix("\ufeff")
    except AckbusError:  # it is found fault with
        return ""


def _configuration(installation: Installation, file: ConfigFile) -> Finding:
    try:
        before = file.read()
        after = file.with_all(before)
    except AckbusError as error:
        return Finding("configuration", False, str(error))
    if before == after:
        return Finding("configuration", True, file.path)
    what = "is not there" if before is None else "is not as it would be set up now"
    return Finding("configuration", False, f"{file.path} {what}; run '{installation.command}'")


def _sessions(installation: Installation, bus: Bus) -> Iterator[Finding]:
    """Find who runs under the name, and who does so outside of all sessions."""
    running = SessionNames.of(bus).running(installation.agent)
    if running:
        yield Finding("sessions", True, ", ".join(each.name for each in running))
    for each in running:
        other = outsider(bus, each)
        if other is not None:
            says = f"process {other.pid} acts as {each.name} too: end it, or give it another name"
            yield Finding("sessions", False, says)


def _foreign(part: str, command: str, installation: Installation) -> Finding:
    """Find fault with a command that is not ours: it came with a clone, perhaps, and is not run."""
    says = f"{command!a} is not run, since it is not {installation.bus}"
    return Finding(part, False, f"{says}; run '{installation.command}'")


# MCP -----------------------------------------------------------------------------------------


def _server(words: list[str], installation: Installation, bus: Bus) -> Finding:
    if not words:
        return Finding("mcp", False, "no server is configured")
    if words[:2] != [installation.bus, "mcp"]:
        return _foreign("mcp", words[0], installation)
    probe = {"type": PROBE_TYPE, "payload": _BODY, "to": PROBE_AGENT, "id": new_id()}
    started = time.monotonic()
    try:
        call_tool(words, installation.folder, "bus_send", probe)
    except ProbeFailed as error:
        return Finding("mcp", False, f"{error}")
    took_ms = (time.monotonic() - started) * 1000
    message = bus.get(probe["id"])
    if message is None:
        where = bus.layout.directory
        return Finding("mcp", False, f"the server took a probe that did not arrive in {where}")
    Inbox(bus, PROBE_AGENT).ack(message)
    if message.from_agent != installation.agent:
        says = f"a probe arrived from {message.from_agent!a}, not from {installation.agent!a}"
        return Finding("mcp", False, says)
    return Finding("mcp", True, f"a probe arrived as {message.seq} in {took_ms:.0f} ms")


# hooks ---------------------------------------------------------------------------------------


def _hook(command: str | None, installation: Installation, bus: Bus) -> Finding:
    if command is None:
        return Finding("hook", False, "no hook is configured")
    if not command.startswith(hook_command([installation.bus, "hook", "stop"]) + " ") or (
        hook_command(_words(command)) != command  # a shell would do more than run it
    ):
        return _foreign("hook", command, installation)
    inbox = Inbox(bus, installation.agent, own_broadcasts=False)
    with bus.transaction():  # nothing may come between the look and the probe
        waits = inbox.poll(1)
        if not waits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownRecipientWarning)  # it is new here
                bus.publish(PROBE_TYPE, _BODY, from_agent=PROBE_AGENT, to_agent=installation.agent)
            waits = inbox.poll(1)
    try:
        return _answer_of_hook(command, installation, waits[0].seq)
    finally:
        if waits[0].from_agent == PROBE_AGENT:
            inbox.ack(waits[0])


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without its end
        return []


def _answer_of_hook(command: str, installation: Installation, seq: int) -> Finding:
    event = {"hook_event_name": "Stop", "stop_hook_active": False, "cwd": installation.folder}
    started = time.monotonic()
    try:
        done = run_child(
            ["/bin/sh", "-c", command],
            stdin=json.dumps(event).encode(),
            cwd=installation.folder,
            limit_s=_HOOK_S,
            env=probing(),
        )
    except subprocess.TimeoutExpired:
        return Finding("hook", False, f"it took more than {_HOOK_S:g} s: {command}")
    took_ms = (time.monotonic() - started) * 1000
    if done.returncode:
        return Finding("hook", False, f"exit status {done.returncode}: {command}")
    if b"[%d] " % seq not in done.stdout:
        said = done.stderr.decode(errors="replace").strip() or "it printed nothing of it"
        return Finding("hook", False, f"a message did not arrive: {said}")
    return Finding("hook", True, f"a message arrived in {took_ms:.0f} ms")


def _understood(edit: JsonHook, text: str) -> str | None:
    """Return the command of a hook as it stands, or None: the configuration is found fault with."""
    try:
        return edit.command_in(text)
    except AckbusError:
        return None
