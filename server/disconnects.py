"""Clients that go away before they have their answer."""

from __future__ import annotations

from starlette.types import Receive


async def until_gone(receive: Receive) -> None:
    """Return when a client has gone. What it still sends is taken, and not looked at."""
    while (await receive())["type"] != "http.disconnect":
        pass
