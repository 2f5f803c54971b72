"""The rules of state that a file may break: each with its fault in words, and its repair.

The doctor looks for rows that break them; a repair and an upgrade put the rows right. Work is
rather done twice than lost, and a number that may have been given is never given again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ...errors import shown
from ...findings import Mended, bad, ok
from ...message.names import MAX_SEQ
from ...message.times import MAX_TS_MS
from ...queries import Queries
from ..transactions import without_triggers
from .column_rules import Rule, add_functions, column_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...findings import Finding
    from ..database import Database

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
    with database.write(), without_triggers(database.connection):
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
