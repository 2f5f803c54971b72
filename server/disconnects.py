"""Clients that disconnect before their response."""

from __future__ import annotations

from starlette.types import Receive


async def until_gone(receive: Receive) -> None:
    """Return when a client has disconnected. Data that it still sends is discarded."""
    while (await receive())["type"] != "http.disconnect":
        pass
