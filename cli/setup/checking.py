"""`bus setup NAME --check`: probes that go the way of the program, and are seen to arrive."""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...bus import Bus
from ...schema import AckbusError, UnknownRecipientWarning
from ...subscribers import Inbox
from . import json_edits
from .edits import ENTRY, JsonHook, JsonServer, TomlServer, words_of
from .installation import Installation
from .mcp_probe import ProbeFailed, call_tool
from .plugin import PluginFile
from .programs import PROGRAMS, Servers, path_of

#: The other end of a probe. No agent has it, so nobody is disturbed.
PROBE_AGENT = "ackbus-check"

#: The type of a probe.
PROBE_TYPE = "ackbus.probe"

_BODY = "a probe of 'bus setup --check'"

#: How long a program's hook may take, in seconds.
_HOOK_S = 10.0


@dataclass(frozen=True)
class Finding:
    """What was found of one part.

    Attributes:
        part: which, as `configuration`, `mcp`, `hook stop`.
        is_well: whether it works.
        says: what was found, in a line.
    """

    part: str
    is_well: bool
    says: str


def check(installation: Installation, bus: Bus) -> Iterator[Finding]:
    """Look at each part of what is set up, and try it as the program would."""
    files = installation.files()
    for file in files:
        yield _configuration(installation, file.path)
    for part in PROGRAMS[installation.name].parts:
        if isinstance(part, Servers) and part.preferred:
            yield from _preferred(part.within, path_of(part.preferred, installation.folder))
    for file in files:
        text = _text(file.path)
        for edit in file.edits:
            if isinstance(edit, (JsonServer, TomlServer)):
                yield _server(edit, text, installation, bus)
            elif isinstance(edit, PluginFile):
                yield _hook(edit.hook_in(text, "stop"), installation, bus)
            elif isinstance(edit, JsonHook) and edit.mark.split()[1] == "stop":
                yield _hook(_hook_command(edit, text), installation, bus)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return file.read()
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _configuration(installation: Installation, path: str) -> Finding:
    try:
        differs = {change.path: change.before for change in installation.additions()}
    except AckbusError as error:
        return Finding("configuration", False, str(error))
    if path not in differs:
        return Finding("configuration", True, path)
    what = "is not there" if differs[path] is None else "is not as it would be set up now"
    return Finding("configuration", False, f"{path} {what}; run 'bus setup {installation.name}'")


def _preferred(within: json_edits.Path, path: str) -> Iterator[Finding]:
    """Say that the program would take the server of another one's file, and be its agent."""
    if _entry_in(_text(path), within) is not None:
        says = f"{path} has our server, too, and comes first; set up one of the two programs here"
        yield Finding("configuration", False, says)


# MCP -----------------------------------------------------------------------------------------


def _server(
    edit: JsonServer | TomlServer, text: str, installation: Installation, bus: Bus
) -> Finding:
    words = words_of(_configured(edit, text))
    if not words:
        return Finding("mcp", False, "no server is configured")
    newest = bus.log.newest_seq()
    wanted = {"type": PROBE_TYPE, "body": _BODY, "to": PROBE_AGENT}
    started = time.monotonic()
    try:
        call_tool(words, installation.folder, "bus_send", wanted)
    except ProbeFailed as error:
        return Finding("mcp", False, f"{error}")
    took_ms = (time.monotonic() - started) * 1000
    for message in bus.read(from_seq=newest + 1, type=PROBE_TYPE, agent=PROBE_AGENT):
        if message.from_agent == installation.agent:
            Inbox(bus, PROBE_AGENT).ack(message)
            return Finding("mcp", True, f"a probe arrived as {message.seq} in {took_ms:.0f} ms")
    where = bus.layout.directory
    return Finding("mcp", False, f"the server took a probe that did not arrive in {where}")


def _configured(edit: JsonServer | TomlServer, text: str) -> Any:
    """Return the entry as it stands in the file, or None."""
    if isinstance(edit, JsonServer):
        return _entry_in(text, edit.within)
    import tomllib

    try:
        return tomllib.loads(text).get(edit.table, {}).get(ENTRY)
    except ValueError:
        return None


def _entry_in(text: str, within: json_edits.Path) -> Any:
    try:
        node = json_edits.find(text, (*within, ENTRY)) if text else None
    except AckbusError:
        return None
    return node.value if node else None


# hooks ---------------------------------------------------------------------------------------


def _hook(command: str | None, installation: Installation, bus: Bus) -> Finding:
    if command is None:
        return Finding("hook", False, "no hook is configured")
    inbox = Inbox(bus, installation.agent, own_broadcasts=False)
    with bus.transaction():  # nothing may come between the look and the probe
        waits = inbox.poll(1)
        if not waits:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownRecipientWarning)  # it is new here
                bus.publish(PROBE_TYPE, _BODY, from_agent=PROBE_AGENT, to_agent=installation.agent)
            waits = inbox.poll(1)
    try:
        return _answer_of_hook(command, installation, waits[0].id)
    finally:
        if waits[0].from_agent == PROBE_AGENT:
            inbox.ack(waits[0])


def _answer_of_hook(command: str, installation: Installation, id: str) -> Finding:
    event = {"hook_event_name": "Stop", "stop_hook_active": False, "cwd": installation.folder}
    started = time.monotonic()
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(event).encode(),
            capture_output=True,
            cwd=installation.folder,
            timeout=_HOOK_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("hook", False, f"it took more than {_HOOK_S:g} s: {command}")
    took_ms = (time.monotonic() - started) * 1000
    if done.returncode:
        return Finding("hook", False, f"exit status {done.returncode}: {command}")
    if id.encode() not in done.stdout:
        said = done.stderr.decode(errors="replace").strip() or "it printed nothing of it"
        return Finding("hook", False, f"a message did not arrive: {said}")
    return Finding("hook", True, f"a message arrived in {took_ms:.0f} ms")


def _hook_command(edit: JsonHook, text: str) -> str | None:
    """Return the command as it stands in the file, or None."""
    try:
        node = json_edits.find(text, edit.path) if text else None
    except AckbusError:
        return None
    for item in node.value if node and isinstance(node.value, list) else ():
        hooks = item.get("hooks", [item]) if isinstance(item, dict) else []
        for hook in hooks if isinstance(hooks, list) else ():
            if isinstance(hook, dict) and edit.mark in str(hook.get("command")):
                return str(hook["command"])
    return None
