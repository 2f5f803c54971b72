"""The door for agents: tools and resources of the Model Context Protocol, over stdio and HTTP."""

from __future__ import annotations

from .profiles import PROFILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mounting import McpMount as McpMount
    from .stdio import serve_stdio as serve_stdio

__all__ = ["PROFILES", "McpMount", "serve_stdio"]

_HOMES = {"McpMount": "mounting", "serve_stdio": "stdio"}


def __getattr__(name: str) -> object:
    """Load what needs the SDK, or the server, only when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
