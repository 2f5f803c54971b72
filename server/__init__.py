"""The doors for programs that don't open the file: HTTP, streams, and what is built on them."""

from .access import Access, Principal
from .app import create_app
from .running import DEFAULT_HOST, DEFAULT_PORT, serve

__all__ = [
    # The application
    "create_app",
    # Who may do what
    "Access",
    "Principal",
    # Running it
    "DEFAULT_HOST",
    "DEFAULT_PORT",
    "serve",
]
