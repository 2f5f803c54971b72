"""The doors for programs that don't open the file: HTTP, streams, and what is built on them.

Each name is loaded when it is first used: a door needs only its own extra to be installed.
"""

from __future__ import annotations

from ..schema import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .access import Access
    from .app import create_app
    from .mcp import PROFILES, serve_stdio
    from .page import is_served_at
    from .patience import Patience
    from .principals import Principal, Scope
    from .running import Options, serve
    from .threads import WRITE_TIMEOUT_S
    from .tokens import Token, Tokens

__all__ = [
    "PROFILES",
    "WRITE_TIMEOUT_S",
    "Access",
    "Options",
    "Patience",
    "Principal",
    "Scope",
    "Token",
    "Tokens",
    "create_app",
    "is_served_at",
    "serve",
    "serve_stdio",
]

#: The names that are loaded on first use, by module.
_NAMES = {
    "access": "Access",
    "app": "create_app",
    "mcp": "PROFILES serve_stdio",
    "page": "is_served_at",
    "patience": "Patience",
    "principals": "Principal Scope",
    "running": "Options serve",
    "threads": "WRITE_TIMEOUT_S",
    "tokens": "Token Tokens",
}

__getattr__ = on_first_use(__name__, _NAMES)
