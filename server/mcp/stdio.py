"""MCP over the standard streams of a process that the agent's program starts."""

from __future__ import annotations

import gc
import io
import logging
import os
import signal
import warnings

from ...bus.reservations.project_paths import project_root
from ...schema.errors import AckbusError, InvalidInput, UnknownRecipientWarning
from ...subscribers.jobs.errors import UnservedRequestWarning
from .tools.profiles import DEFAULT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from ...bus.bus import Bus
    from .joined_agents import Home
    from .protocol import Protocol

#: How long the last beats may take when a signal ends the process, in seconds: less than the grace
#: of programs before they kill it.
_GOODBYE_S = 1.5


def serve_stdio(
    open_bus: Callable[[], Bus], *, agent: str | None = None, profile: str = DEFAULT
) -> None:
    """Serve tools over stdin and stdout until stdin ends, or a signal ends the process. Blocks.

    From here on to the end of the process, nothing but the protocol is written to stdout: what
    anything else writes there goes to stderr. A bus that can't be opened is no reason to end: each
    call tells the agent, and tries again.

    Args:
        open_bus: opens the bus.
        agent: the name under which the agent acts; None: it chooses one.
        profile: which tools it is offered.
    """
    wire = _take_stdout()
    # Here, since the SDK and what it needs might print as well. Hundreds of classes are made, and
    # stay: to look again and again whether they are garbage takes a sixth of the start.
    gc.disable()
    import anyio

    from .joined_agents import Home
    from .protocol import Protocol
    from .session import Session

    gc.freeze()
    gc.enable()
    # The result says it, and the client would show it to nobody.
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    warnings.simplefilter("ignore", UnservedRequestWarning)
    home = Home(open_bus)
    session = Session(home, agent, root=_root)
    if agent is not None:
        try:
            home.beat(agent)
        except AckbusError as error:
            logging.getLogger("ackbus.mcp").warning("%s", error)
    protocol = Protocol(lambda context: session, lambda context: profile)
    try:
        anyio.run(_serve, protocol, wire, home)
    except* BrokenPipeError:
        pass  # the agent's program is gone
    finally:
        home.close()


async def _serve(protocol: Protocol, wire: TextIO, home: Home) -> None:
    import anyio
    from mcp.server.stdio import stdio_server

    server = protocol.server()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_by_signal, home)
        async with stdio_server(stdout=anyio.wrap_file(wire)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _end_by_signal(home: Home) -> None:
    """On a signal, record the agent's stop, then end the process as the signal would have.

    The process ends at once: a thread reads stdin, and only the end of stdin stops it.
    """
    import anyio

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for number in signals:
            with anyio.move_on_after(_GOODBYE_S):
                await anyio.to_thread.run_sync(home.close, abandon_on_cancel=True)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _root(bus_directory: str) -> str:
    """Return the folder from which paths count.

    Some programs start their servers in any folder; then the bus names the project.
    """
    try:
        return project_root(bus_directory)
    except InvalidInput:
        return os.path.dirname(bus_directory)


def _take_stdout() -> TextIO:
    """Return stdout as a text file, and redirect stdout to stderr.

    The SDK does so too, but gives it back at its end, when threads may still print.
    """
    wire = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return io.TextIOWrapper(os.fdopen(wire, "wb"), encoding="utf-8")
