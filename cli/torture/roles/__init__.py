"""The agents of a torture run: a module for each role, and the process that plays it."""

from .protocol import BACKOFF_S, MAX_ATTEMPTS

__all__ = ["BACKOFF_S", "MAX_ATTEMPTS"]
