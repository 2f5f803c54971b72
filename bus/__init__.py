"""The log and its archive, search, leases, reservations, heartbeats, the doorbell."""

from ..schema import on_first_use
from .bus import COLLECT_AFTER_S, RECHECK_S, Bus
from .doorbell import Listener
from .wanted import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import tracing
    from .archive import SegmentMissing, segment_name
    from .chain import Chain, Link
    from .health import checks
    from .heartbeats import Heartbeat, Heartbeats, Liveness
    from .hearts import Heart, Hearts
    from .imports import Imports
    from .keys import Key, Keyring
    from .leases import Lease, Leases
    from .maintenance import Maintenance
    from .path_patterns import escape_path, parse_pattern
    from .project_paths import note_for, paths_from_root, project_root
    from .reservations import (
        DEFAULT_RESERVATION_S,
        MAX_CONFLICTS,
        Conflict,
        Reservation,
        Reservations,
        ReserveResult,
    )
    from .search import SEARCH_LIMIT, Found, Search
    from .segments import Frame, Segment
    from .signing import sign_only_for
    from .stats import Stats
    from .verification import Verification
    from .verification_checks import Counts, Problem
    from .waiting_limits import WaitingLimit, WaitingLimits

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
    "Key",
    "Keyring",
    "Lease",
    "Leases",
    "Link",
    "Listener",
    "Liveness",
    "Maintenance",
    "Problem",
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
    "checks",
    "escape_path",
    "note_for",
    "parse_pattern",
    "paths_from_root",
    "project_root",
    "segment_name",
    "sign_only_for",
    "tracing",
]

#: The names that are loaded on first use, by module (modules themselves under "").
_NAMES = {
    "": "tracing",
    "archive": "SegmentMissing segment_name",
    "chain": "Chain Link",
    "health": "checks",
    "heartbeats": "Heartbeat Heartbeats Liveness",
    "hearts": "Heart Hearts",
    "imports": "Imports",
    "keys": "Key Keyring",
    "leases": "Lease Leases",
    "maintenance": "Maintenance",
    "path_patterns": "escape_path parse_pattern",
    "project_paths": "note_for paths_from_root project_root",
    "reservations": (
        "DEFAULT_RESERVATION_S MAX_CONFLICTS Conflict Reservation Reservations ReserveResult"
    ),
    "search": "SEARCH_LIMIT Found Search",
    "segments": "Frame Segment",
    "signing": "sign_only_for",
    "stats": "Stats",
    "verification": "Verification",
    "verification_checks": "Counts Problem",
    "waiting_limits": "WaitingLimit WaitingLimits",
}

__getattr__ = on_first_use(__name__, _NAMES)
