"""The routers of the live streams."""

from .events import router as events
from .sessions import router as sessions
from .sessions import sockets as session_sockets
from .sockets import router as sockets

ROUTERS = (events, sockets, sessions, session_sockets)
