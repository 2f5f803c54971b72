"""The message, and its storage in SQLite. Imports no other room."""

from .database import (
    BUSY_TIMEOUT_MS,
    SCHEMA_VERSION,
    WRITE_TIMEOUT_S,
    Database,
    other_version,
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
from .lazy import on_first_use
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
from .processes import boot_id, has_run_for, is_running, leave_signals, start_thread
from .queries import (
    COLUMNS,
    Queries,
    Table,
    engine_of,
    file_of,
    fits_pattern,
    is_too_wide,
    is_work,
    pages,
)
from .sqlite import ENDINGS, check_sqlite_version, make_file, open_file, translate
from .times import MAX_TS_MS, age, format_ts, now_ms, parse_duration_ms, parse_since, parse_ts
from .transactions import without_triggers
from .trouble import disk_full, means_full, unwritable, why_not_opened
from .upwards import find_bus, refuse_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .alone import refuse_openers
    from .bounds import broken_state, check_state, put_right
    from .callbacks import (
        call_plain,
        check_coroutine_function,
        check_plain,
        check_progress,
        is_coroutine_function,
        refuse_unrun,
    )
    from .content_checks import check_contents
    from .copying import copy_database
    from .creation import create, keep_out_of_git
    from .draft import ABSENT, SIGNATURE_HEADER, TRACE_PARENT, TRACE_STATE, Draft, NotJson, Row
    from .engine import Engine
    from .file_checks import checks_of_file, is_of_other_version
    from .health import Finding, bad, examine, ok, warn
    from .ids import new_id
    from .json import decode, decode_stored, encode
    from .lines import message_of_line, payload_as_stored
    from .lock_holders import holder, holders, openers
    from .log_checks import damage_of_log
    from .mended import Mended
    from .message import PRIORITY_NAMES, Message, Priority, Receipt, parse_priority
    from .migrate import Upgrade, upgrade
    from .ownership import (
        EVERY,
        SAFE_VARIABLE,
        add_safe_directory,
        remove_safe_directory,
        safe_directories,
        safe_list,
    )
    from .patterns import TypePattern, check_pattern
    from .place_checks import checks_of_place
    from .recovery import (
        Comparison,
        NewFile,
        Recovered,
        damage_in,
        in_words,
        parts_of_a_bus,
        ranges,
        ranges_without,
        read_into,
    )
    from .settings import DURABILITIES, Settings, age_of_backup

__all__ = [
    "ABSENT",
    "BUSY_TIMEOUT_MS",
    "BUS_DIRECTORY",
    "BUS_DIR_VARIABLE",
    "COLUMNS",
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
    "Engine",
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
    "Table",
    "TimedOut",
    "TypePattern",
    "Unfinished",
    "UnknownParent",
    "UnknownRecipient",
    "UnknownRecipientWarning",
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
    "engine_of",
    "examine",
    "file_of",
    "find_bus",
    "fits_pattern",
    "format_ts",
    "has_export",
    "has_run_for",
    "holder",
    "holders",
    "in_words",
    "inner_folder",
    "is_coroutine_function",
    "is_of_other_version",
    "is_running",
    "is_too_wide",
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
    "on_first_use",
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


#: The names that are loaded on first use, by module.
_NAMES = {
    "alone": "refuse_openers",
    "bounds": "broken_state check_state put_right",
    "callbacks": (
        "call_plain check_coroutine_function check_plain check_progress is_coroutine_function "
        "refuse_unrun"
    ),
    "content_checks": "check_contents",
    "copying": "copy_database",
    "creation": "create keep_out_of_git",
    "engine": "Engine",
    "draft": "ABSENT SIGNATURE_HEADER TRACE_PARENT TRACE_STATE Draft NotJson Row",
    "file_checks": "checks_of_file is_of_other_version",
    "health": "Finding bad examine ok warn",
    "ids": "new_id",
    "json": "decode decode_stored encode",
    "lines": "message_of_line payload_as_stored",
    "lock_holders": "holder holders openers",
    "log_checks": "damage_of_log",
    "mended": "Mended",
    "message": "PRIORITY_NAMES Message Priority Receipt parse_priority",
    "migrate": "Upgrade upgrade",
    "ownership": (
        "EVERY SAFE_VARIABLE add_safe_directory remove_safe_directory safe_directories safe_list"
    ),
    "patterns": "TypePattern check_pattern",
    "place_checks": "checks_of_place",
    "recovery": (
        "Comparison NewFile Recovered damage_in in_words parts_of_a_bus ranges ranges_without "
        "read_into"
    ),
    "settings": "DURABILITIES Settings age_of_backup",
}

__getattr__ = on_first_use(__name__, _NAMES)
