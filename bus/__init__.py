"""The log and its archive, search, leases, reservations, heartbeats, the doorbell."""

from .bus import COLLECT_AFTER_S, RECHECK_S, Bus
from .doorbell import Listener
from .wanted import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import tracing as tracing
    from .archive import SegmentMissing as SegmentMissing
    from .archive import segment_name as segment_name
    from .chain import Chain as Chain
    from .chain import Link as Link
    from .health import checks as checks
    from .heartbeats import Heart as Heart
    from .heartbeats import Heartbeat as Heartbeat
    from .heartbeats import Heartbeats as Heartbeats
    from .heartbeats import Liveness as Liveness
    from .hearts import Hearts as Hearts
    from .imports import Imports as Imports
    from .keys import Key as Key
    from .keys import Keyring as Keyring
    from .leases import Lease as Lease
    from .leases import Leases as Leases
    from .maintenance import Maintenance as Maintenance
    from .path_patterns import escape_path as escape_path
    from .path_patterns import parse_pattern as parse_pattern
    from .project_paths import note_for as note_for
    from .project_paths import paths_from_root as paths_from_root
    from .project_paths import project_root as project_root
    from .reservations import DEFAULT_RESERVATION_S as DEFAULT_RESERVATION_S
    from .reservations import MAX_CONFLICTS as MAX_CONFLICTS
    from .reservations import Conflict as Conflict
    from .reservations import Reservation as Reservation
    from .reservations import Reservations as Reservations
    from .reservations import ReserveResult as ReserveResult
    from .search import SEARCH_LIMIT as SEARCH_LIMIT
    from .search import Found as Found
    from .search import Search as Search
    from .segments import Frame as Frame
    from .segments import Segment as Segment
    from .signing import sign_only_for as sign_only_for
    from .stats import Stats as Stats
    from .verification import Verification as Verification
    from .verification_checks import Counts as Counts
    from .verification_checks import Problem as Problem
    from .waiting_limits import WaitingLimit as WaitingLimit
    from .waiting_limits import WaitingLimits as WaitingLimits

__all__ = [
    "COLLECT_AFTER_S",
    "DEFAULT_RESERVATION_S",
    "MAX_CONFLICTS",
    "RECHECK_S",
    "SEARCH_LIMIT",
    "Bus",
    "Chain",
    "Conflict",
    "Counts",
    "Found",
    "Frame",
    "Heart",
    "Heartbeat",
    "Heartbeats",
    "Hearts",
    "Imports",
    "Lease",
    "Leases",
    "Listener",
    "Liveness",
    "Maintenance",
    "Reservation",
    "Reservations",
    "ReserveResult",
    "Search",
    "Segment",
    "SegmentMissing",
    "Stats",
    "Verification",
    "WaitingLimit",
    "WaitingLimits",
    "Wanted",
    "escape_path",
    "note_for",
    "parse_pattern",
    "paths_from_root",
    "project_root",
    "checks",
    "segment_name",
    "sign_only_for",
    "tracing",
]

_HOMES = {
    "DEFAULT_RESERVATION_S": "reservations",
    "MAX_CONFLICTS": "reservations",
    "SEARCH_LIMIT": "search",
    "Chain": "chain",
    "Conflict": "reservations",
    "Counts": "verification_checks",
    "Found": "search",
    "Frame": "segments",
    "Heart": "heartbeats",
    "Heartbeat": "heartbeats",
    "Heartbeats": "heartbeats",
    "Hearts": "hearts",
    "Imports": "imports",
    "Key": "keys",
    "Keyring": "keys",
    "Lease": "leases",
    "Leases": "leases",
    "Link": "chain",
    "Liveness": "heartbeats",
    "Maintenance": "maintenance",
    "Problem": "verification_checks",
    "Reservation": "reservations",
    "Reservations": "reservations",
    "ReserveResult": "reservations",
    "Search": "search",
    "Segment": "segments",
    "SegmentMissing": "archive",
    "Stats": "stats",
    "Verification": "verification",
    "WaitingLimit": "waiting_limits",
    "WaitingLimits": "waiting_limits",
    "escape_path": "path_patterns",
    "note_for": "project_paths",
    "parse_pattern": "path_patterns",
    "paths_from_root": "project_paths",
    "project_root": "project_paths",
    "checks": "health",
    "segment_name": "archive",
    "sign_only_for": "signing",
}


def __getattr__(name: str) -> object:
    """Load names that the hot commands don't need (threads, queues) on first use."""
    from importlib import import_module

    if name == "tracing":
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
