"""The message, and its storage in SQLite. Imports no other room."""

from .database import (
    BUSY_TIMEOUT_MS,
    SCHEMA_VERSION,
    WRITE_TIMEOUT_S,
    Database,
    other_version,
    pages,
)
from .errors import (
    EVERYONE,
    AckbusError,
    AckPastEnd,
    BlobAltered,
    BlobMissing,
    BusBusy,
    BusMoved,
    BusNotFound,
    BusUnusable,
    IdConflict,
    InvalidInput,
    LeaseLost,
    LimitReached,
    MailArchived,
    NotFound,
    ReadOnlyBackup,
    Refused,
    RowRefused,
    SecondLoopWarning,
    TimedOut,
    Unfinished,
    UnknownParent,
    UnknownRecipient,
    UnknownRecipientWarning,
    WrongProcess,
    shown,
)
from .file_lock import FileLock
from .folder import Descriptor, Folder, Obstructed, inner_folder, locate
from .layout import (
    BUS_DIR_VARIABLE,
    BUS_DIRECTORY,
    KEYS_DIR_VARIABLE,
    Layout,
    has_export,
    keys_directory,
    refuse_links,
    refuse_network_filesystem,
    sync_directory,
    user_bus,
    without_file,
)
from .limits import (
    INLINE_PAYLOAD_BYTES,
    MAX_AGENT_CHARS,
    MAX_COUNT,
    MAX_HEADERS_BYTES,
    MAX_ID_CHARS,
    MAX_LEASE_NAME_CHARS,
    MAX_PATH_CHARS,
    MAX_PAYLOAD_BYTES,
    MAX_POLICY_S,
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
from .opening import refuse_place
from .processes import boot_id, is_running, leave_signals, start_thread
from .queries import COLUMNS, Queries, fits_pattern, is_work
from .sqlite import ENDINGS, check_sqlite_version, make_file, open_file, translate
from .times import MAX_TS_MS, age, format_ts, now_ms, parse_duration_ms, parse_since, parse_ts
from .transactions import without_triggers
from .trouble import disk_full, means_full, unwritable, why_not_opened
from .upwards import find_bus, refuse_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .alone import refuse_openers as refuse_openers
    from .bounds import broken_state as broken_state
    from .bounds import check_state as check_state
    from .bounds import put_right as put_right
    from .callbacks import call_plain as call_plain
    from .callbacks import check_coroutine_function as check_coroutine_function
    from .callbacks import check_plain as check_plain
    from .callbacks import check_progress as check_progress
    from .callbacks import is_coroutine_function as is_coroutine_function
    from .callbacks import refuse_unrun as refuse_unrun
    from .content_checks import check_contents as check_contents
    from .copying import copy_database as copy_database
    from .creation import create as create
    from .creation import keep_out_of_git as keep_out_of_git
    from .draft import ABSENT as ABSENT
    from .draft import SIGNATURE_HEADER as SIGNATURE_HEADER
    from .draft import TRACE_PARENT as TRACE_PARENT
    from .draft import TRACE_STATE as TRACE_STATE
    from .draft import Draft as Draft
    from .draft import NotJson as NotJson
    from .draft import Row as Row
    from .file_checks import checks_of_file as checks_of_file
    from .file_checks import is_of_other_version as is_of_other_version
    from .health import Finding as Finding
    from .health import bad as bad
    from .health import examine as examine
    from .health import ok as ok
    from .health import warn as warn
    from .ids import new_id as new_id
    from .json import decode as decode
    from .json import decode_stored as decode_stored
    from .json import encode as encode
    from .lines import message_of_line as message_of_line
    from .lines import payload_as_stored as payload_as_stored
    from .lock_holders import holder as holder
    from .lock_holders import holders as holders
    from .lock_holders import openers as openers
    from .log_checks import damage_of_log as damage_of_log
    from .mended import Mended as Mended
    from .message import PRIORITY_NAMES as PRIORITY_NAMES
    from .message import Message as Message
    from .message import Priority as Priority
    from .message import Receipt as Receipt
    from .message import parse_priority as parse_priority
    from .migrate import Upgrade as Upgrade
    from .migrate import upgrade as upgrade
    from .ownership import EVERY as EVERY
    from .ownership import SAFE_VARIABLE as SAFE_VARIABLE
    from .ownership import add_safe_directory as add_safe_directory
    from .ownership import remove_safe_directory as remove_safe_directory
    from .ownership import safe_directories as safe_directories
    from .ownership import safe_list as safe_list
    from .patterns import TypePattern as TypePattern
    from .patterns import check_pattern as check_pattern
    from .place_checks import checks_of_place as checks_of_place
    from .recovery import Comparison as Comparison
    from .recovery import NewFile as NewFile
    from .recovery import Recovered as Recovered
    from .recovery import damage_in as damage_in
    from .recovery import in_words as in_words
    from .recovery import parts_of_a_bus as parts_of_a_bus
    from .recovery import ranges as ranges
    from .recovery import ranges_without as ranges_without
    from .recovery import read_into as read_into
    from .settings import DURABILITIES as DURABILITIES
    from .settings import Settings as Settings
    from .settings import age_of_backup as age_of_backup

__all__ = [
    "ABSENT",
    "BUSY_TIMEOUT_MS",
    "COLUMNS",
    "BUS_DIRECTORY",
    "BUS_DIR_VARIABLE",
    "DURABILITIES",
    "ENDINGS",
    "EVERY",
    "EVERYONE",
    "INLINE_PAYLOAD_BYTES",
    "KEYS_DIR_VARIABLE",
    "MAX_AGENT_CHARS",
    "MAX_COUNT",
    "MAX_HEADERS_BYTES",
    "MAX_ID_CHARS",
    "MAX_LEASE_NAME_CHARS",
    "MAX_PATH_CHARS",
    "MAX_PAYLOAD_BYTES",
    "MAX_POLICY_S",
    "MAX_REASON_CHARS",
    "MAX_SEQ",
    "MAX_TS_MS",
    "MAX_TYPE_CHARS",
    "PRIORITY_NAMES",
    "SAFE_VARIABLE",
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
    "BusMoved",
    "BusNotFound",
    "BusUnusable",
    "Comparison",
    "Database",
    "Descriptor",
    "Draft",
    "FileLock",
    "Finding",
    "Folder",
    "IdConflict",
    "InvalidInput",
    "Layout",
    "LeaseLost",
    "LimitReached",
    "MailArchived",
    "Mended",
    "Message",
    "NewFile",
    "NotFound",
    "NotJson",
    "Obstructed",
    "Priority",
    "Queries",
    "ReadOnlyBackup",
    "Receipt",
    "Recovered",
    "Refused",
    "Row",
    "RowRefused",
    "SecondLoopWarning",
    "Settings",
    "TimedOut",
    "TypePattern",
    "UnknownParent",
    "UnknownRecipient",
    "UnknownRecipientWarning",
    "Unfinished",
    "Upgrade",
    "WrongProcess",
    "add_safe_directory",
    "age",
    "age_of_backup",
    "bad",
    "boot_id",
    "broken_state",
    "call_plain",
    "check_agent",
    "check_contents",
    "check_coroutine_function",
    "check_id",
    "check_lease_name",
    "check_line",
    "check_pattern",
    "check_plain",
    "check_progress",
    "check_queue_name",
    "check_sqlite_version",
    "check_state",
    "check_type",
    "check_unicode",
    "checks_of_file",
    "checks_of_place",
    "copy_database",
    "create",
    "damage_in",
    "damage_of_log",
    "decode",
    "decode_stored",
    "disk_full",
    "encode",
    "examine",
    "find_bus",
    "fits_pattern",
    "format_ts",
    "has_export",
    "holder",
    "holders",
    "in_words",
    "inner_folder",
    "is_coroutine_function",
    "is_of_other_version",
    "is_running",
    "is_work",
    "keep_out_of_git",
    "keys_directory",
    "leave_signals",
    "locate",
    "make_file",
    "means_full",
    "message_of_line",
    "new_id",
    "now_ms",
    "ok",
    "open_file",
    "openers",
    "other_version",
    "pages",
    "parse_duration_ms",
    "parse_priority",
    "parse_since",
    "parse_ts",
    "parts_of_a_bus",
    "payload_as_stored",
    "put_right",
    "ranges",
    "ranges_without",
    "read_into",
    "refuse_foreign",
    "refuse_links",
    "refuse_network_filesystem",
    "refuse_openers",
    "refuse_place",
    "refuse_unrun",
    "remove_safe_directory",
    "safe_directories",
    "safe_list",
    "shown",
    "start_thread",
    "sync_directory",
    "translate",
    "unwritable",
    "upgrade",
    "user_bus",
    "warn",
    "why_not_opened",
    "without_file",
    "without_triggers",
]


#: Where the names are that reading one number from a bus doesn't need.
_HOMES = {
    "broken_state": "bounds",
    "check_contents": "content_checks",
    "check_state": "bounds",
    "put_right": "bounds",
    "Mended": "mended",
    "ABSENT": "draft",
    "Comparison": "recovery",
    "DURABILITIES": "settings",
    "Draft": "draft",
    "EVERY": "ownership",
    "Finding": "health",
    "Message": "message",
    "NewFile": "recovery",
    "NotJson": "draft",
    "PRIORITY_NAMES": "message",
    "Priority": "message",
    "Receipt": "message",
    "Recovered": "recovery",
    "Row": "draft",
    "SAFE_VARIABLE": "ownership",
    "Settings": "settings",
    "SIGNATURE_HEADER": "draft",
    "TRACE_PARENT": "draft",
    "TRACE_STATE": "draft",
    "TypePattern": "patterns",
    "Upgrade": "migrate",
    "age_of_backup": "settings",
    "bad": "health",
    "check_pattern": "patterns",
    "checks_of_file": "file_checks",
    "checks_of_place": "place_checks",
    "copy_database": "copying",
    "create": "creation",
    "damage_in": "recovery",
    "damage_of_log": "log_checks",
    "decode": "json",
    "decode_stored": "json",
    "encode": "json",
    "examine": "health",
    "holder": "lock_holders",
    "holders": "lock_holders",
    "in_words": "recovery",
    "keep_out_of_git": "creation",
    "is_of_other_version": "file_checks",
    "message_of_line": "lines",
    "new_id": "ids",
    "ok": "health",
    "openers": "lock_holders",
    "parse_priority": "message",
    "parts_of_a_bus": "recovery",
    "payload_as_stored": "lines",
    "ranges": "recovery",
    "ranges_without": "recovery",
    "read_into": "recovery",
    "add_safe_directory": "ownership",
    "remove_safe_directory": "ownership",
    "safe_directories": "ownership",
    "safe_list": "ownership",
    "refuse_openers": "alone",
    "upgrade": "migrate",
    "warn": "health",
    "call_plain": "callbacks",
    "check_coroutine_function": "callbacks",
    "check_plain": "callbacks",
    "check_progress": "callbacks",
    "is_coroutine_function": "callbacks",
    "refuse_unrun": "callbacks",
}


def __getattr__(name: str) -> object:
    """Load the names about messages, and those of few commands, on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
