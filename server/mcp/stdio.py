"""The protocol over the standard streams of a process that the agent's program starts."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable

import anyio
from mcp.server.stdio import stdio_server

from ...bus import Bus
from ...schema import AckbusError, UnknownRecipientWarning
from .home import Home
from .profiles import DEFAULT
from .protocol import Protocol
from .session import Session
from .tools import tools_of


def serve_stdio(
    open_bus: Callable[[], Bus], *, agent: str | None = None, profile: str = DEFAULT
) -> None:
    """Serve tools over stdin and stdout until stdin ends. Blocks.

    Nothing but the protocol is written to stdout: what anything else writes there goes to stderr.
    A bus that can't be opened is no reason to end: each call tells the agent, and tries again.

    Args:
        open_bus: opens the bus.
        agent: the name under which the agent acts; None: it chooses one.
        profile: which tools it is offered.
    """
    # The result says it, and the client would show it to nobody.
    warnings.simplefilter("ignore", UnknownRecipientWarning)
    home = Home(open_bus)
    session = Session(home, agent)
    if agent is not None:
        try:
            home.beat(agent)
        except AckbusError as error:
            logging.getLogger("ackbus.mcp").warning("%s", error)
    try:
        anyio.run(_serve, Protocol(tools_of(profile), lambda context: session))
    finally:
        home.close()


async def _serve(protocol: Protocol) -> None:
    server = protocol.server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
