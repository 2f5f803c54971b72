"""The bounds of each column beyond its type: a line for each, with its repair.

Named CHECKs and triggers of the file (schema.sql) refuse some of the bad values; the doctor finds
all, and a repair and an upgrade put them right, by the rules that are made here of the lines. So
each named CHECK has lines here that put a row right which breaks it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import orjson

from ...errors import InvalidInput, shown
from ...findings import Mended, bad, ok
from ...message.names import (
    MAX_COUNT,
    MAX_PATH_CHARS,
    MAX_POLICY_S,
    MAX_SEQ,
    check_agent,
    check_lease_name,
    check_line,
    check_queue_name,
)
from ...message.patterns import TypePattern, check_pattern
from ...message.times import MAX_TS_MS
from ...queries import Queries, is_too_wide
from ..transactions import without_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import apsw

    from ...findings import Finding
    from ..database import Database

_MAX_POLICY_MS = round(MAX_POLICY_S * 1000)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of one table.

    Attributes:
        table: the table.
        broken: the fault of the rows that break it, in words.
        mended: what the repair does to them, in words.
        find: the statement that names the rows which break it.
        mend: the statements that repair these rows.
        lost: the knowledge that is lost; empty where nothing is lost.
        is_slow: whether it reads tables that grow with the log: only a full examination does.
    """

    table: str
    broken: str
    mended: str
    find: str
    mend: str
    lost: str = ""
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class _Shape:
    """The bounds of one column, in which NULL is right where the column may be NULL.

    Attributes:
        holds: whether a value, `{}`, is right, in SQL.
        what: the fault of any other value, in words.
        mended: the value that replaces it, in SQL; "" where the row is deleted.
        then: the replacement, in words.
    """

    holds: str
    what: str
    mended: str = ""
    then: str = "are removed"


def _number(least: int, most: int | str, mended: str, then: str) -> _Shape:
    return _Shape(f"{{}} BETWEEN {least} AND {most}", "numbers that can't be", mended, then)


def _count(least: int, mended: str) -> _Shape:
    return _number(least, MAX_COUNT, mended, f"are {mended}")


def _duration(least: int, mended: int) -> _Shape:
    return _number(least, _MAX_POLICY_MS, str(mended), f"are {mended:,} ms, as in a new queue")


def _name(function: str) -> _Shape:
    return _Shape(f"{function}({{}})", "what is not a name there")


_TIMES = "impossible times"
_TIME = _Shape("{} BETWEEN 0 AND {last_time}", _TIMES, "?1", "are of now")
_BEGIN = _Shape("{} BETWEEN 0 AND {last_time}", _TIMES, "?1", "may begin now")
_PAST = _Shape("{} BETWEEN 0 AND {soon}", f"{_TIMES}, or to come", "?1", "are of now")
_LEASE = _Shape("{} BETWEEN 0 AND {far}", f"{_TIMES}, or over a year ahead", "?1", "end now")
_SPAN = "{last_time}"
_SEQ = _Shape("{} BETWEEN 1 AND {newest}", "seqs that no message has")
_PID = _number(1, MAX_COUNT, "", "are removed")
_AGENT = _name("is_agent")
_GROUP = _name("is_line")
_LIMITED = _name("iif(kind = 'queue', is_queue({}), is_agent({})) AND is_line")
_NOBODY = _Shape(
    "is_agent({}) OR {} = '*'", "what is not a name there", "NULL", "take no addressed"
)
_PATTERN = _Shape(
    "is_pattern({})", "what is not a pattern there", "'lost-' || id", "take nothing in"
)
# Another queue may have any name that can be guessed.
_LOST_NAME = "'lost-' || id || '-' || lower(hex(randomblob(4)))"
_QUEUE = _Shape("is_queue({})", "what is not a name there", _LOST_NAME, "are named lost-…")
_HIDES = _Shape(
    f"NOT ({{}} = 'all' AND {is_too_wide('pattern')})",
    "all of a pattern with a word between a * and a last >",
    "'exact'",
    "hide nothing",
)
_WANTS = _Shape("are_patterns({})", "what are no patterns there", "NULL", "want all broadcasts")
_NO_TEXT = "what is not a line of text there"
_STATUS = _Shape("is_line({})", _NO_TEXT, "'unknown'", "are unknown")
_LINE = _Shape("is_line({})", _NO_TEXT, "NULL", "are left out")
_WORD = _Shape("{} = '' OR is_line({})", _NO_TEXT, "''", "are left out")
_NUMBERED = _Shape(
    "is_agent({}) AND number BETWEEN 1 AND 999999999 AND {} ="
    " iif(number = 1, base, substr(base, 1, 127 - length(number)) || '-' || number)",
    "what is not the name of their number",
)
_SHORT = "length({}) <= 100000 AND "
_RANGES = _Shape(f"{_SHORT}are_ranges({{}})", "what are no ranges", "'[]'", "are empty")
_PARTS = _Shape(f"{_SHORT}are_parts({{}})", "what are no parts", "'{}'", "are empty")
_LOOKED = _number(0, "{newest} + 1", "0", "are 0: what was shown is shown again")

#: For each table the column that names its rows, and the shapes of its columns; a column's rule may
#: end with the consequence of breaking it.
_COLUMNS: dict[str, tuple[str, list[tuple[str, _Shape] | tuple[str, _Shape, str]]]] = {
    "cursors": (
        "agent_id",
        [("agent_id", _AGENT), ("updated_at_ms", _TIME), ("wants", _WANTS)],
    ),
    "received": ("agent_id", [("agent_id", _AGENT), ("seq", _SEQ)]),
    "passed_over": (
        "agent_id",
        [
            ("agent_id", _AGENT),
            (
                "last_seq",
                _number(0, "{archived}", "{archived}", "are of the end of the archive"),
                ": such an agent is told of lost mail for ever",
            ),
            ("archived_at_ms", _TIME),
        ],
    ),
    "deliveries": (
        "agent_id",
        [
            ("agent_id", _AGENT),
            ("seq", _SEQ),
            ("attempts", _count(0, "0")),
            ("updated_at_ms", _TIME),
        ],
    ),
    "loops": ("agent_id", [("agent_id", _AGENT), ("pid", _PID), ("started_at_ms", _TIME)]),
    "finished": ("agent_id", [("agent_id", _AGENT), ("finished_at_ms", _TIME)]),
    "heartbeats": (
        "agent_id",
        [
            ("agent_id", _AGENT),
            ("ts_ms", _PAST, ": such an agent seems alive"),
            ("status", _STATUS),
            ("current_task", _LINE),
            ("progress", _Shape("abs({}) < 9e999", "numbers that can't be", "NULL", "are none")),
            ("pid", _number(1, MAX_COUNT, "NULL", "are left out")),
        ],
    ),
    "task_claims": (
        "task_id",
        [
            ("task_id", _name("is_lease")),
            ("claimed_by", _AGENT),
            ("claimed_at_ms", _PAST),
            ("lease_until_ms", _LEASE, ": no other holder gets the lease"),
        ],
    ),
    "sessions": (
        "name",
        [
            ("name", _NUMBERED),
            ("base", _AGENT),
            ("process", _LINE),
            ("connection", _WORD),
            ("resume_id", _WORD),
            ("begun_at_ms", _PAST),
            ("until_ms", _LEASE, ": no other session gets the name"),
            ("revision", _number(0, MAX_SEQ, "0", "are 0")),
            ("announced_seq", _LOOKED, ": hooks announce no mail"),
            ("counted_seq", _LOOKED),
            ("shown", _RANGES),
            ("shown_parts", _PARTS),
        ],
    ),
    "reservations": (
        "path",
        [
            ("path", _name("is_path")),
            ("agent_id", _AGENT),
            ("reason", _LINE),
            ("reserved_at_ms", _PAST),
            ("until_ms", _LEASE),
        ],
    ),
    "waiting_limits": ("name", [("name", _LIMITED), ("max_waiting", _count(1, str(MAX_COUNT)))]),
    "queues": (
        "name",
        [
            ("name", _QUEUE),
            ("pattern", _PATTERN),
            ("ageing_ms", _duration(1, 60_000)),
            ("max_attempts", _count(1, "4")),
            ("backoff_ms", _duration(0, 30_000)),
            ("max_running", _count(1, "1")),
            ("max_running_per_key", _count(1, "1")),
            ("dedupe_window_ms", _duration(0, 86_400_000)),
            ("rank_clock_ms", _TIME),
            ("rank_offset_ms", _Shape(f"abs({{}}) <= {_SPAN}", _TIMES, "0", "are 0")),
            ("paused_at_ms", _TIME),
            ("created_at_ms", _TIME),
            ("removed_at_ms", _TIME),
            ("addressed", _NOBODY),
            ("hides", _HIDES, ": they hide what they never take"),
        ],
    ),
    "jobs": (
        "seq",
        [
            ("attempt", _count(1, "1")),
            ("max_attempts", _count(1, "4")),
            ("available_at_ms", _BEGIN),
            ("turn_ms", _number(0, _SPAN, "0", "go first")),
            ("rank_ms", _number(0, f"{_SPAN} + 2 * {_MAX_POLICY_MS}", "0", "go first")),
            ("created_at_ms", _TIME),
            ("started_at_ms", _TIME),
            ("ended_at_ms", _TIME),
        ],
    ),
    "claims": (
        "token",
        [
            ("lease_until_ms", _LEASE, ": no other worker gets the job"),
            ("attempt", _count(1, "1")),
            ("available_at_ms", _TIME),
            ("claimed_at_ms", _TIME),
            ("ended_at_ms", _TIME),
        ],
    ),
    "work_acts": ("id", [("at_ms", _TIME)]),
    "queue_workers": ("worker_group", [("worker_group", _GROUP), ("begun_at_ms", _TIME)]),
    "worker_states": ("worker_group", [("worker_group", _GROUP), ("updated_at_ms", _TIME)]),
    "notices": ("conversation", [("seq", _SEQ), ("notified_at_ms", _TIME)]),
    "archive_segments": (
        "first_seq",
        [("first_seq", _SEQ), ("archived_at_ms", _TIME), ("discarded_at_ms", _TIME)],
    ),
    "archived_ids": ("id", [("seq", _number(1, "{archived}", "", "are removed"))]),
    "archived_blobs": (
        "payload_ref",
        [("payload_ref", _Shape("{} GLOB 'sha256-*' AND length({}) = 71", "what names no blob"))],
    ),
    "access_tokens": (
        "token_id",
        [
            ("name", _name("is_line")),
            ("scopes", _Shape("are_texts({})", "what are no scopes")),
            ("agent_id", _AGENT),
            ("created_at_ms", _TIME),
            ("expires_at_ms", _Shape(_TIME.holds, _TIMES, "?1", "end now")),
        ],
    ),
}

#: Tables that grow with the log, and which of their rows are looked at unless all are: those that
#: are found by an index, and hold others up.
_GROWING = {
    "jobs": "state = 'queued' AND gate = 'time'",
    "claims": "status = 'active'",
    "deliveries": "",
    "received": "",
    "finished": "",
    "archive_segments": "",
    "archived_ids": "",
    "archived_blobs": "",
    "notices": "",
    "work_acts": "",
}


def column_rules() -> Iterator[Rule]:
    """Yield the rules of all columns, in SQL with words in braces that `state_rules.py` knows."""
    for table, (key, columns) in _COLUMNS.items():
        for column, shape, *follows in columns:
            live = _GROWING.get(table)
            if live:
                yield _rule(table, key, column, shape, "".join(follows), live)
            yield _rule(table, key, column, shape, "".join(follows), is_slow=live is not None)


def _rule(
    table: str,
    key: str,
    column: str,
    shape: _Shape,
    follows: str,
    live: str = "TRUE",
    *,
    is_slow: bool = False,
) -> Rule:
    holds = shape.holds.replace("{}", column)
    broken = f"{live} AND {column} IS NOT NULL AND NOT ({holds})"
    change = f"UPDATE {table} SET {column} = {shape.mended}" if shape.mended else ""
    return Rule(
        table,
        f"have {shape.what} in {column}{follows}",
        shape.then,
        f"SELECT {key} FROM {table} WHERE {broken}",
        f"{change or f'DELETE FROM {table}'} WHERE {broken}",
        "" if change else "what these rows said",
        is_slow,
    )


# Rules for texts that SQL can't express --------------------------------------------------------


def add_functions(connection: apsw.Connection) -> None:
    """Add `is_agent(name)` and others to SQL: whether our code would take a text."""
    for name, check in _CHECKS.items():
        connection.create_scalar_function(name, _whether(check), 1, deterministic=True)


def _whether(check: Callable[[str], object]) -> Callable[..., bool]:
    def is_right(text: str) -> bool:
        try:
            check(text)
        except (InvalidInput, TypeError, ValueError):
            return False
        return True

    return is_right


def _check_patterns(text: str) -> None:
    for pattern in _list_in(text, str):
        check_pattern(pattern)
        TypePattern(pattern).as_glob()


def _check_texts(text: str) -> None:
    for line in _list_in(text, str):
        check_line(line, "text", MAX_PATH_CHARS)


def _check_imports(text: str) -> None:
    for first, last, at_ms in _list_in(text, list):
        if not (type(first) is type(last) is type(at_ms) is int and 0 < first <= last):
            raise ValueError(text)


def _check_ranges(text: str) -> None:
    seqs = [seq for first, last in _list_in(text, list) for seq in (first, last)]
    if seqs != sorted(seqs) or any(type(seq) is not int for seq in seqs):
        raise ValueError(text)


def _check_parts(text: str) -> None:
    for seq, end in dict(orjson.loads(text)).items():
        if not seq.isdecimal() or type(end) is not int:
            raise ValueError(text)


def _list_in(text: str, kind: type) -> list[Any]:
    elements = orjson.loads(text)
    if type(elements) is not list or any(type(element) is not kind for element in elements):
        raise TypeError(text)
    return elements


_CHECKS: dict[str, Callable[..., object]] = {
    "is_agent": check_agent,
    "is_lease": check_lease_name,
    "is_queue": check_queue_name,
    "is_pattern": TypePattern,
    "is_path": lambda text: check_line(text, "path", MAX_PATH_CHARS),
    "is_line": lambda text: check_line(text, "text", MAX_PATH_CHARS),
    "are_patterns": _check_patterns,
    "are_texts": _check_texts,
    "are_imports": _check_imports,
    "are_ranges": _check_ranges,
    "are_parts": _check_parts,
}

# The rules of state that a file may break: each with its fault in words, and its repair.
#
# The doctor looks for rows that break them; a repair and an upgrade put the rows right. Work is
# rather done twice than lost, and a number that may have been given is never given again.

#: The advice for a row that breaks a rule.
REPAIR = "'bus doctor --repair' puts it right"

#: How many rows a line names.
_NAMED = 5


#: Faults that show in a comparison of rows, or of rows with the log: the table, as the
#: statements in `state_rules.sql` name it, the fault, its repair, and the knowledge that is lost.
#: The order matters: tokens are drawn from a row that is there.
_STATE: tuple[tuple[str, ...], ...] = (
    ("archive_state", "is missing", "is as the segments tell"),
    (
        "cursors",
        "below 0 or past the newest message: such an agent gets no mail",
        "begin at 0: what is in the log comes again",
        "what they had acknowledged",
    ),
    (
        "queues",
        "filled past the newest message, or short of their own jobs: they take nothing in",
        "go on after their last jobs",
    ),
    (
        "fencing",
        "is missing, or below a token that was given: tokens would be given twice",
        "goes on a million above the highest token that is known",
    ),
    ("task_claims", "have tokens that were never given", "have new tokens"),
    ("reservations", "have tokens that were never given", "have new tokens"),
    (
        "export_state",
        "is missing, or past the newest message: nothing is exported",
        "is 0: the next export goes on from what bus.jsonl has",
    ),
    (
        "notice_state",
        "is missing, or past the newest message: no notices of answers",
        "is at the newest message",
    ),
    (
        "catalog_state",
        "is missing, or past the newest message: new senders stay unknown",
        "is 0: the catalog is counted again",
    ),
    (
        "automation_service",
        "is missing: no service can begin",
        "goes on a million above the tokens of a new bus",
    ),
    ("catalog", "can't be right", "is counted again"),
    ("meta", "are not what these entries can be", "are removed", "what they said"),
    (
        "claims",
        "are of jobs and messages that are nowhere",
        "are removed",
        "who had them",
    ),
    ("work_acts", "are of queues that are nowhere", "are removed", "what was done by hand"),
    ("queue_workers", "are of queues that are nowhere", "are removed"),
    (
        "task_sessions",
        "have events or approvals, and are missing",
        "are there again; what has a name that no session can have is removed",
        "their labels",
    ),
)

#: Of these, those that look at rows which grow with the log.
_SLOW = {"catalog", "claims", "work_acts", "queue_workers", "task_sessions"}

_WORDS = {
    "{archived}": "ifnull((SELECT max(last_seq) FROM archive_state), 0)",
    "{newest}": (
        "max(ifnull((SELECT max(seq) FROM messages), 0),"
        " ifnull((SELECT max(last_seq) FROM archive_state), 0))"
    ),
    "{above}": str(MAX_SEQ + 1),  # no token is so high
    "{last_time}": str(MAX_TS_MS),
    "{soon}": "?1 + 86400000",  # a day: clocks differ
    # A row with a job or a message is rebuilt from it, and so is the queue of jobs and claims.
    "{nowhere}": """(seq < 1 OR seq > ifnull((SELECT max(last_seq) FROM archive_state), 0)
           AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.seq = claims.seq))
       AND NOT EXISTS (
           SELECT 1 FROM jobs WHERE jobs.queue_id = claims.queue_id AND jobs.seq = claims.seq)""",
    "{queueless}": """queue_id NOT IN (
        SELECT id FROM queues UNION SELECT queue_id FROM jobs UNION SELECT queue_id FROM claims)""",
    "{sessionless}": "session_id NOT IN (SELECT session_id FROM task_sessions)",
    "{far}": "?1 + 31622400000",  # a year: no lease is so long
}


@cache
def _rules() -> tuple[Rule, ...]:
    """Return all rules: those of columns first, since the others compare columns."""
    sql = Queries(beside=__file__, file="state_rules.sql")
    of_state = (
        Rule(
            table,
            broken,
            mended,
            sql[f"{table}.find"],
            sql[f"{table}.mend"],
            "".join(lost),
            is_slow=table in _SLOW,
        )
        for table, broken, mended, *lost in _STATE
    )
    return tuple(
        replace(rule, find=_worded(rule.find), mend=_worded(rule.mend))
        for rule in (*column_rules(), *of_state)
    )


def _worded(sql: str) -> str:
    for word, meant in _WORDS.items():
        sql = sql.replace(word, meant)
    return sql


def check_state(database: Database, *, full: bool = False) -> Finding:
    """Look for rows that break a rule of their table.

    Args:
        database: an open bus.
        full: look at the rows of tables that grow with the log, too.
    """
    broken = broken_state(database, full=full)
    if broken:
        return bad("; ".join(broken), REPAIR)
    more = "" if full else "; --full looks at those of ended jobs, too"
    return ok(f"every row keeps the rules of its table{more}")


def broken_state(database: Database, *, full: bool = True) -> list[str]:
    """Return what breaks a rule, in words; nothing where all is well."""
    return [text for _, text in _broken(database, full=full)]


def put_right(database: Database, *, dry_run: bool = False) -> Iterator[Mended]:
    """Repair the rows that break a rule, in one transaction, and yield what was done.

    Args:
        database: other programs may use it meanwhile.
        dry_run: only yield what would be done.
    """
    if dry_run:
        yield from (
            Mended(rule.table, f"{text}; {rule.mended}") for rule, text in _broken(database)
        )
        return
    if not any(True for _ in _broken(database)):
        return  # a file that is well is not written
    with database.write(), without_rules(database.connection):
        for rule, text in _broken(database):
            database.connection.execute(rule.mend, _times(database, rule.mend))
            yield Mended(rule.table, f"{text}; now {rule.mended}", rule.lost)


def _broken(database: Database, *, full: bool = True) -> Iterator[tuple[Rule, str]]:
    """Yield each broken rule in words; the next is looked at after the caller is done with it."""
    add_functions(database.connection)
    for rule in _rules():
        if full or not rule.is_slow:
            text = _found(database, rule)
            if text:
                yield rule, text


def _found(database: Database, rule: Rule) -> str:
    """Return what breaks a rule, in words, or ""."""
    rows = database.rows(rule.find, _times(database, rule.find))
    if not rows:
        return ""
    names = ", ".join(shown(row[0]).strip("'") for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return f"{rule.table}: {names}{more} {rule.broken}"


def _times(database: Database, sql: str) -> tuple[int, ...]:
    """Return the values of a statement: the present time, if the statement takes it."""
    return (database.now_ms(),) if "?1" in sql else ()
