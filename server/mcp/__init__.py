"""The door for agents: tools and resources of the Model Context Protocol, over stdio and HTTP."""

from __future__ import annotations

from .profiles import PROFILES as PROFILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .stdio import serve_stdio as serve_stdio

__all__ = ["PROFILES", "serve_stdio"]


def __getattr__(name: str) -> object:
    """Load what needs the SDK when it is asked for."""
    if name != "serve_stdio":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .stdio import serve_stdio

    return serve_stdio
