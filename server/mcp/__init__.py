"""The door for agents: tools and resources of the Model Context Protocol, over stdio and HTTP."""

from __future__ import annotations

from ...schema import on_first_use
from .profiles import PROFILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .mounting import McpMount
    from .stdio import serve_stdio

__all__ = [
    "PROFILES",
    "McpMount",
    "serve_stdio",
]

#: The names that are loaded on first use, by module.
_NAMES = {
    "mounting": "McpMount",
    "stdio": "serve_stdio",
}

__getattr__ = on_first_use(__name__, _NAMES)
