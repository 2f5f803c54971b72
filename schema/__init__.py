"""What a message is and how it is stored. Imports no other room."""

from .create import create, keep_out_of_git
from .database import BUSY_TIMEOUT_MS, SCHEMA_VERSION, WRITE_TIMEOUT_S, Database, pages
from .draft import ABSENT, Draft, Row
from .errors import (
    AckbusError,
    AckPastEnd,
    BlobAltered,
    BlobMissing,
    BusBusy,
    BusNotFound,
    BusUnusable,
    IdConflict,
    InvalidInput,
    LeaseLost,
    LimitReached,
    MailArchived,
    NotFound,
    Refused,
    SecondLoopWarning,
    TimedOut,
    UnknownParent,
    UnknownRecipient,
    UnknownRecipientWarning,
    WrongProcess,
)
from .file_lock import FileLock
from .ids import new_id
from .json import decode, encode
from .layout import (
    BUS_DIR_VARIABLE,
    BUS_DIRECTORY,
    Layout,
    find_bus,
    sync_directory,
    user_bus,
)
from .limits import (
    INLINE_PAYLOAD_BYTES,
    MAX_AGENT_CHARS,
    MAX_HEADERS_BYTES,
    MAX_ID_CHARS,
    MAX_LEASE_NAME_CHARS,
    MAX_PATH_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_REASON_CHARS,
    MAX_TYPE_CHARS,
)
from .message import COLUMNS, PRIORITY_NAMES, Message, Priority, Receipt, parse_priority
from .names import check_agent, check_id, check_lease_name, check_line, check_queue_name, check_type
from .patterns import TypePattern, check_pattern
from .processes import is_running, leave_signals, start_thread
from .queries import Queries
from .times import MAX_TS_MS, format_ts, now_ms, parse_duration_ms, parse_since, parse_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .lines import message_of_line as message_of_line
    from .migrate import Upgrade as Upgrade
    from .migrate import upgrade as upgrade

__all__ = [
    "ABSENT",
    "BUSY_TIMEOUT_MS",
    "BUS_DIRECTORY",
    "BUS_DIR_VARIABLE",
    "COLUMNS",
    "INLINE_PAYLOAD_BYTES",
    "MAX_AGENT_CHARS",
    "MAX_HEADERS_BYTES",
    "MAX_ID_CHARS",
    "MAX_LEASE_NAME_CHARS",
    "MAX_PATH_CHARS",
    "MAX_PAYLOAD_BYTES",
    "MAX_REASON_CHARS",
    "MAX_TS_MS",
    "MAX_TYPE_CHARS",
    "PRIORITY_NAMES",
    "SCHEMA_VERSION",
    "WRITE_TIMEOUT_S",
    "AckPastEnd",
    "AckbusError",
    "BlobAltered",
    "BlobMissing",
    "BusBusy",
    "BusNotFound",
    "BusUnusable",
    "Database",
    "Draft",
    "FileLock",
    "IdConflict",
    "InvalidInput",
    "Layout",
    "LeaseLost",
    "LimitReached",
    "MailArchived",
    "Message",
    "NotFound",
    "Priority",
    "Queries",
    "Receipt",
    "Refused",
    "Row",
    "SecondLoopWarning",
    "TimedOut",
    "TypePattern",
    "UnknownParent",
    "UnknownRecipient",
    "UnknownRecipientWarning",
    "Upgrade",
    "WrongProcess",
    "check_agent",
    "check_id",
    "check_lease_name",
    "check_line",
    "check_pattern",
    "check_queue_name",
    "check_type",
    "create",
    "decode",
    "encode",
    "find_bus",
    "format_ts",
    "is_running",
    "keep_out_of_git",
    "leave_signals",
    "message_of_line",
    "new_id",
    "now_ms",
    "pages",
    "parse_duration_ms",
    "parse_priority",
    "parse_since",
    "parse_ts",
    "start_thread",
    "sync_directory",
    "upgrade",
    "user_bus",
]


_HOMES = {"Upgrade": "migrate", "message_of_line": "lines", "upgrade": "migrate"}


def __getattr__(name: str) -> object:
    """Load what only few commands need (upgrades, archives) when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
