"""The doors for programs that don't open the file: HTTP, streams, and what is built on them."""

from .access import Access
from .app import create_app
from .live import Patience
from .principals import Principal, Scope
from .running import DEFAULT_HOST, DEFAULT_PORT, Options, serve
from .tokens import OVERLAP_S, Token, Tokens

__all__ = [
    # The application
    "create_app",
    # Who may do what
    "OVERLAP_S",
    "Access",
    "Principal",
    "Scope",
    "Token",
    "Tokens",
    # Running it
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "Options",
    "Patience",
    "serve",
]
