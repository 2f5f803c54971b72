"""MCP over the standard streams of a process that the agent's program starts.

The front answers first, and loads nothing. The SDK's server goes on where a line needs it: in the
process of an agent that calls no tool it is never loaded.
"""

from __future__ import annotations

import gc
import os
import select

from .front import Front
from .presence import PresenceThread
from .tools.profiles import DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from ...bus.local_bus import LocalBus

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
