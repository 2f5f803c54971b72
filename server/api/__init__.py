"""The versioned JSON API: one file for each group of resources."""

from .messages import router as messages

ROUTERS = (messages,)

__all__ = ["ROUTERS"]
