"""Live streams of messages: a replay from a cursor, then new messages, without a gap between."""

from .events import router as events
from .feed import Feed
from .sessions import router as sessions
from .sessions import sockets as session_sockets
from .sockets import nowhere
from .sockets import router as sockets

ROUTERS = (events, sockets, sessions, session_sockets, nowhere)

__all__ = ["ROUTERS", "Feed"]
