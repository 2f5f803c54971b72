"""Reading with acknowledgement: cursors, inboxes, and what failed in them."""

from .cursors import Cursors
from .deliveries import Deliveries, Parked
from .inbox import MAX_DELIVERIES, POLL_LIMIT, Inbox
from .pace import Pace
from .rules import Rules
from .session import Session

__all__ = [
    "MAX_DELIVERIES",
    "POLL_LIMIT",
    "Cursors",
    "Deliveries",
    "Inbox",
    "Pace",
    "Parked",
    "Rules",
    "Session",
]
