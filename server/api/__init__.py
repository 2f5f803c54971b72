"""The JSON API, one file for each group of operations."""

from .conversations import router as conversations
from .inboxes import router as inboxes
from .messages import router as messages

ROUTERS = (messages, inboxes, conversations)

__all__ = ["ROUTERS"]
