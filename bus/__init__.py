"""The log, leases, heartbeats, and the doorbell that wakes waiters."""

from .bus import COLLECT_AFTER_S, RECHECK_S, Bus
from .doorbell import Listener

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .archive import Frame as Frame
    from .archive import Segment as Segment
    from .archive import SegmentMissing as SegmentMissing
    from .archive import segment_name as segment_name
    from .heartbeats import Heart as Heart
    from .heartbeats import Heartbeat as Heartbeat
    from .heartbeats import Heartbeats as Heartbeats
    from .heartbeats import Liveness as Liveness
    from .leases import Lease as Lease
    from .leases import Leases as Leases
    from .maintenance import Maintenance as Maintenance
    from .search import SEARCH_LIMIT as SEARCH_LIMIT
    from .search import Found as Found
    from .search import Search as Search
    from .stats import Stats as Stats
    from .waiting_limits import WaitingLimit as WaitingLimit
    from .waiting_limits import WaitingLimits as WaitingLimits

__all__ = [
    "COLLECT_AFTER_S",
    "RECHECK_S",
    "SEARCH_LIMIT",
    "Bus",
    "Found",
    "Frame",
    "Heart",
    "Heartbeat",
    "Heartbeats",
    "Lease",
    "Leases",
    "Listener",
    "Liveness",
    "Maintenance",
    "Search",
    "Segment",
    "SegmentMissing",
    "Stats",
    "WaitingLimit",
    "WaitingLimits",
    "segment_name",
]

_HOMES = {
    "Found": "search",
    "Frame": "archive",
    "Heart": "heartbeats",
    "Heartbeat": "heartbeats",
    "Heartbeats": "heartbeats",
    "Lease": "leases",
    "Leases": "leases",
    "Liveness": "heartbeats",
    "Maintenance": "maintenance",
    "SEARCH_LIMIT": "search",
    "Search": "search",
    "Segment": "archive",
    "SegmentMissing": "archive",
    "Stats": "stats",
    "WaitingLimit": "waiting_limits",
    "WaitingLimits": "waiting_limits",
    "segment_name": "archive",
}


def __getattr__(name: str) -> object:
    """Load what the hot commands don't need (threads, queues) only when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
