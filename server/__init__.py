"""The doors for programs that don't open the file: HTTP, streams, and what is built on them.

Each name is loaded when it is first used: a door needs only its own extra to be installed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .access import Access as Access
    from .app import create_app as create_app
    from .mcp import PROFILES as PROFILES
    from .mcp import serve_stdio as serve_stdio
    from .page import is_served_at as is_served_at
    from .patience import Patience as Patience
    from .principals import Principal as Principal
    from .principals import Scope as Scope
    from .running import Options as Options
    from .running import serve as serve
    from .threads import WRITE_TIMEOUT_S as WRITE_TIMEOUT_S
    from .tokens import Token as Token
    from .tokens import Tokens as Tokens

__all__ = [
    # The application
    "create_app",
    # Who may do what
    "Access",
    "Principal",
    "Scope",
    "Token",
    "Tokens",
    # Running it
    "Options",
    "Patience",
    "WRITE_TIMEOUT_S",
    "is_served_at",
    "serve",
    # For agents
    "PROFILES",
    "serve_stdio",
]

_HOMES = {
    "Access": "access",
    "Options": "running",
    "PROFILES": "mcp",
    "Patience": "patience",
    "Principal": "principals",
    "Scope": "principals",
    "Token": "tokens",
    "Tokens": "tokens",
    "WRITE_TIMEOUT_S": "threads",
    "create_app": "app",
    "is_served_at": "page",
    "serve": "running",
    "serve_stdio": "mcp",
}


def __getattr__(name: str) -> object:
    """Load a name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
