"""What a message is and how it is stored. Imports no other room."""

from .create import create, keep_out_of_git
from .database import BUSY_TIMEOUT_MS, SCHEMA_VERSION, WRITE_TIMEOUT_S, Database, pages
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
    RowRefused,
    SecondLoopWarning,
    TimedOut,
    UnknownParent,
    UnknownRecipient,
    UnknownRecipientWarning,
    WrongProcess,
)
from .file_lock import FileLock
from .layout import (
    BUS_DIR_VARIABLE,
    BUS_DIRECTORY,
    KEYS_DIR_VARIABLE,
    Layout,
    find_bus,
    keys_directory,
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
    MAX_SEQ,
    MAX_TYPE_CHARS,
)
from .names import (
    check_agent,
    check_id,
    check_lease_name,
    check_line,
    check_queue_name,
    check_type,
    check_unicode,
)
from .processes import is_running, leave_signals, start_thread
from .queries import Queries
from .sqlite import check_sqlite_version
from .times import MAX_TS_MS, format_ts, now_ms, parse_duration_ms, parse_since, parse_ts
from .transactions import without_triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .before_upgrade import old_programs as old_programs
    from .copying import copy_database as copy_database
    from .draft import ABSENT as ABSENT
    from .draft import SIGNATURE_HEADER as SIGNATURE_HEADER
    from .draft import TRACE_PARENT as TRACE_PARENT
    from .draft import TRACE_STATE as TRACE_STATE
    from .draft import Draft as Draft
    from .draft import NotJson as NotJson
    from .draft import Row as Row
    from .file_checks import checks_of_file as checks_of_file
    from .health import Finding as Finding
    from .health import bad as bad
    from .health import examine as examine
    from .health import ok as ok
    from .health import warn as warn
    from .ids import new_id as new_id
    from .json import decode as decode
    from .json import encode as encode
    from .lines import message_of_line as message_of_line
    from .lock_holders import holders as holders
    from .message import PRIORITY_NAMES as PRIORITY_NAMES
    from .message import Message as Message
    from .message import Priority as Priority
    from .message import Receipt as Receipt
    from .message import parse_priority as parse_priority
    from .migrate import Upgrade as Upgrade
    from .migrate import upgrade as upgrade
    from .patterns import TypePattern as TypePattern
    from .patterns import check_pattern as check_pattern
    from .place_checks import checks_of_place as checks_of_place

__all__ = [
    "ABSENT",
    "BUSY_TIMEOUT_MS",
    "BUS_DIRECTORY",
    "BUS_DIR_VARIABLE",
    "INLINE_PAYLOAD_BYTES",
    "KEYS_DIR_VARIABLE",
    "MAX_AGENT_CHARS",
    "MAX_HEADERS_BYTES",
    "MAX_ID_CHARS",
    "MAX_LEASE_NAME_CHARS",
    "MAX_PATH_CHARS",
    "MAX_PAYLOAD_BYTES",
    "MAX_REASON_CHARS",
    "MAX_SEQ",
    "MAX_TS_MS",
    "MAX_TYPE_CHARS",
    "PRIORITY_NAMES",
    "SCHEMA_VERSION",
    "SIGNATURE_HEADER",
    "TRACE_PARENT",
    "TRACE_STATE",
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
    "Finding",
    "IdConflict",
    "InvalidInput",
    "Layout",
    "LeaseLost",
    "LimitReached",
    "MailArchived",
    "Message",
    "NotFound",
    "NotJson",
    "Priority",
    "Queries",
    "Receipt",
    "Refused",
    "Row",
    "RowRefused",
    "SecondLoopWarning",
    "TimedOut",
    "TypePattern",
    "UnknownParent",
    "UnknownRecipient",
    "UnknownRecipientWarning",
    "Upgrade",
    "WrongProcess",
    "bad",
    "check_agent",
    "check_id",
    "check_lease_name",
    "check_line",
    "check_pattern",
    "check_queue_name",
    "check_sqlite_version",
    "check_type",
    "check_unicode",
    "checks_of_file",
    "checks_of_place",
    "copy_database",
    "create",
    "decode",
    "encode",
    "examine",
    "find_bus",
    "format_ts",
    "holders",
    "is_running",
    "keep_out_of_git",
    "keys_directory",
    "leave_signals",
    "message_of_line",
    "new_id",
    "now_ms",
    "ok",
    "old_programs",
    "pages",
    "parse_duration_ms",
    "parse_priority",
    "parse_since",
    "parse_ts",
    "start_thread",
    "sync_directory",
    "upgrade",
    "user_bus",
    "warn",
    "without_triggers",
]


#: Where the names are that reading one number from a bus doesn't need.
_HOMES = {
    "ABSENT": "draft",
    "Draft": "draft",
    "Finding": "health",
    "Message": "message",
    "NotJson": "draft",
    "PRIORITY_NAMES": "message",
    "Priority": "message",
    "Receipt": "message",
    "Row": "draft",
    "SIGNATURE_HEADER": "draft",
    "TRACE_PARENT": "draft",
    "TRACE_STATE": "draft",
    "TypePattern": "patterns",
    "Upgrade": "migrate",
    "bad": "health",
    "check_pattern": "patterns",
    "checks_of_file": "file_checks",
    "checks_of_place": "place_checks",
    "copy_database": "copying",
    "decode": "json",
    "encode": "json",
    "examine": "health",
    "holders": "lock_holders",
    "message_of_line": "lines",
    "new_id": "ids",
    "ok": "health",
    "old_programs": "before_upgrade",
    "parse_priority": "message",
    "upgrade": "migrate",
    "warn": "health",
}


def __getattr__(name: str) -> object:
    """Load what is about messages, and what only few commands need, when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
