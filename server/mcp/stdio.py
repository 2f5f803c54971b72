"""MCP over the standard streams of a process that the agent's program starts.

The front answers first, and loads nothing. The SDK's server goes on where a line needs it: in the
process of an agent that calls no tool it is never loaded.
"""

from __future__ import annotations

import gc
import json
import os
import select

from .presence import PresenceThread
from .tools.profiles import DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

    from ...bus.local_bus import LocalBus

# The front: stored answers of the SDK's server, given before the SDK is loaded.
#
# Every client begins by asking what the server is and has, and an agent may begin its first turn
# with the tools that are known by then. The front answers a line where the SDK's answer is certain;
# any other line is for the SDK's server. Tests compare the two.

if TYPE_CHECKING:
    Json = dict[str, Any]

#: The members of `_meta` that tell the protocol and the client where there is no handshake.
PROTOCOL = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT = "io.modelcontextprotocol/clientInfo"

#: The texts by which a client introduces itself; the first two are always there.
_INTRODUCTION = ("name", "version", "title", "description", "websiteUrl")

#: The capabilities with members of any names and kinds.
_OPEN = ("experimental", "extensions")

#: The most brackets of a line: the first requests have few, and parsers differ in how deep they go.
_MAX_BRACKETS = 64


def path_of_answers(profile: str) -> str:
    """Return the file with the answers to a client that is offered a profile."""
    return os.path.join(os.path.dirname(__file__), f"answers_{profile}.json")


class Front:
    """Answers the first lines of a connection.

    Args:
        profile: which tools are offered.

    Attributes:
        opening: the first request that was answered, which decides the protocol.
        is_ready: whether the client then said that it is initialized.
    """

    def __init__(self, profile: str) -> None:
        with open(path_of_answers(profile), "rb") as file:
            self._stored: Json = json.load(file)
        self._had_handshake = False
        self.opening: bytes | None = None
        self.is_ready = False

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a line, empty to a notification; None: the line is for the SDK."""
        message = _read(line)
        method, params = message.get("method"), message.get("params", {})
        if type(method) is not str or type(params) is not dict:
            return None
        if "id" not in message:
            return self._note(method, params)
        result = self._result(method, params)
        if result is None or type(message["id"]) not in (int, str):
            return None
        if self.opening is None:
            self.opening, self._had_handshake = line, method == "initialize"
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def _note(self, method: str, params: Json) -> bytes | None:
        if method != "notifications/initialized" or params or not self._had_handshake:
            return None
        self.is_ready = True
        return b""

    def _result(self, method: str, params: Json) -> Json | None:
        if method == "initialize":
            return self._introduction(params) if self.opening is None else None
        meta = params.get("_meta", {})
        if params.keys() - {"_meta"} or type(meta) is not dict:
            return None
        if type(meta.pop("progressToken", 0)) not in (int, str):
            return None
        answer: Json | None = self._answers_for(meta).get(method)
        return answer

    def _introduction(self, params: Json) -> Json | None:
        if params.keys() != {"protocolVersion", "capabilities", "clientInfo"}:
            return None
        version = params["protocolVersion"]
        introduces = _is_able(params["capabilities"]) and _is_client(params["clientInfo"])
        if type(version) is not str or not introduces:
            return None
        answer: Json | None = self._stored["initialize"].get(version)
        return answer

    def _answers_for(self, meta: Json) -> Json:
        """Return the answers, by method, to requests with these metadata; most have none."""
        answers: Json = {}
        if self._had_handshake:
            answers = {} if meta else self._stored["after initialize"]
        elif meta.keys() - {CLIENT} == {PROTOCOL, CAPABILITIES}:
            introduces = CLIENT not in meta or _is_client(meta[CLIENT])
            if introduces and _is_able(meta[CAPABILITIES]) and type(meta[PROTOCOL]) is str:
                answers = self._stored["without initialize"].get(meta[PROTOCOL], {})
        return answers


def _read(line: bytes) -> Json:
    """Return a message that every parser reads alike, or an empty one."""
    brackets = line.count(b"{") + line.count(b"[")
    if brackets > _MAX_BRACKETS or b"\\u" in line:  # an escape may stand for half a character
        return {}
    try:
        message = json.loads(line.decode(), object_pairs_hook=_unique_members)
    except (ValueError, RecursionError):
        return {}
    if type(message) is not dict or message.keys() - {"jsonrpc", "id", "method", "params"}:
        return {}
    return message if message.get("jsonrpc") == "2.0" else {}


def _unique_members(members: list[tuple[str, Any]]) -> Json:
    """Return an object whose names are all different."""
    members_by_name = dict(members)
    if len(members_by_name) != len(members):
        raise ValueError("a name stands twice")
    return members_by_name


def _is_client(info: object) -> bool:
    """Whether a client introduces itself as the protocol asks, without pictures."""
    return (
        type(info) is dict
        and set(_INTRODUCTION[:2]) <= info.keys() <= set(_INTRODUCTION)
        and all(type(text) is str for text in info.values())
    )


def _is_able(capabilities: object) -> bool:
    """Whether these are capabilities of a client in the protocol's form."""
    return type(capabilities) is dict and all(
        type(capability) is dict
        and (
            all(type(v) is dict for v in capability.values())
            if name in _OPEN
            else _are_flags(capability)
        )
        for name, capability in capabilities.items()
    )


def _are_flags(capability: Json) -> bool:
    return all(
        type(value) is bool if name == "listChanged" else type(value) is dict and _are_flags(value)
        for name, value in capability.items()
    )


#: How long no line comes before the agent joins, in milliseconds. Clients ask their first questions
#: at once, and are to have the processor for themselves; an agent's first turn takes far longer.
_QUIET_MS = 200

#: How much is read at a time, and the longest line that the front looks at, in bytes.
_CHUNK_BYTES = 64 * 1024


def serve_stdio(
    open_bus: Callable[[], LocalBus],
    *,
    agent: str | None = None,
    holder: str | None = None,
    profile: str = DEFAULT,
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Serve tools over stdin and stdout until stdin ends, or a signal ends the process. Blocks.

    From here on to the end of the process, nothing but the protocol is written to stdout: what
    anything else writes there goes to stderr. A bus that can't be opened is no reason to end: each
    call tells the agent, and tries again.

    Args:
        open_bus: opens the bus.
        agent: the base name under which the agent acts; None: it chooses one.
        holder: the process that holds the name of its session; None: it has none.
        profile: which tools it is offered.
        prepare: is called before the first use of the bus, once.
    """
    stdin, sink = _take_stdin(), _take_stdout()
    source = StdinReader(stdin, sink.fileno())
    presence = PresenceThread(open_bus, agent, holder, prepare)
    presence.end_by_signals()
    front = Front(profile)
    try:
        unanswered = _converse(front, source, sink, presence.begin)
        presence.begin()
        if unanswered:
            home = presence.home()
            # The import makes hundreds of lasting classes: checking them again and again for
            # garbage would take a sixth of the time.
            gc.disable()
            from .sdk_server import ReplayedInput, go_on

            gc.freeze()
            gc.enable()
            streams = ReplayedInput(unanswered, source), sink
            go_on(home, front, streams, agent=agent, holder=holder, profile=profile)
    except* BrokenPipeError:
        pass  # the agent's program is gone
    finally:
        presence.close()


class StdinReader:
    """The bytes that a client writes; they end as well when the client reads no more.

    Args:
        stdin, stdout: the descriptors of both directions.
    """

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin = stdin
        self._both = select.poll()
        self._both.register(stdin, select.POLLIN)
        self._both.register(stdout, 0)  # poll reports errors and the end without a mask

    def is_quiet(self, for_ms: int) -> bool:
        """Wait for something to read, and say whether nothing came."""
        return not self._both.poll(for_ms)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes as soon as there are any; nothing at the end."""
        if self._stdin not in dict(self._both.poll()):
            return b""  # the end comes after the bytes that were written before
        return os.read(self._stdin, size)


def _converse(
    front: Front, source: StdinReader, sink: BinaryIO, when_quiet: Callable[[], None]
) -> bytes:
    """Answer lines until one needs the SDK; return it with all bytes that were read after it.

    Returns nothing when the client has ended.
    """
    read = b""
    while True:
        line, end, rest = read.partition(b"\n")
        if not end:
            if len(read) > _CHUNK_BYTES:
                return read
            if source.is_quiet(_QUIET_MS):
                when_quiet()
            more = source.read(_CHUNK_BYTES)
            if not more:
                return read
            read += more
            continue
        answer = front.answer(line)
        if answer is None:
            return read
        sink.write(answer)
        sink.flush()
        read = rest


def _take_stdin() -> int:
    """Return stdin, and redirect it from the null device, for all others that read it."""
    try:
        wire = os.dup(0)
    except OSError:  # stdin is closed
        return os.open(os.devnull, os.O_RDONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return wire


def _take_stdout() -> BinaryIO:
    """Return stdout as a file, and redirect stdout to stderr."""
    wire = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return os.fdopen(wire, "wb")
