"""The rules of state that a file may break, told in words, and put right in one way.

The doctor looks for rows that break them; a repair and an upgrade put the rows right. Work is
rather done again than lost, and a number that may have been given is never given again.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import shown
from .health import bad, ok
from .limits import MAX_SEQ
from .mended import Mended
from .queries import Queries
from .times import MAX_TS_MS
from .transactions import without_triggers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .database import Database
    from .health import Finding

#: The advice for a row that breaks a rule.
REPAIR = "'bus doctor --repair' puts it right"

#: How many rows a line names.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule of one table.

    Attributes:
        name: the statements' name in `bounds.sql`.
        table: the table.
        broken: what is wrong with the rows that are named.
        mended: what became of them.
        lost: what is not known any more; empty where nothing is lost.
    """

    name: str
    table: str
    broken: str
    mended: str
    lost: str = ""


#: The order matters: tokens are drawn from a row that is there.
_RULES = (
    _Rule("archive_state", "archive_state", "is missing", "is as the segments tell"),
    _Rule(
        "cursors",
        "cursors",
        "below 0 or past the newest message: such an agent gets no mail",
        "begin at 0: what is in the log comes again",
        "what they had acknowledged",
    ),
    _Rule(
        "queues",
        "queues",
        "filled past the newest message, or short of their own jobs: they take nothing in",
        "go on after their last jobs",
    ),
    _Rule(
        "fencing",
        "fencing",
        "is missing, or below a token that was given: tokens would be given twice",
        "goes on a million above the highest token that is known",
    ),
    _Rule("task_claims", "task_claims", "have tokens that were never given", "have new tokens"),
    _Rule("reservations", "reservations", "have tokens that were never given", "have new tokens"),
    _Rule(
        "export_state",
        "export_state",
        "is missing, or past the newest message: nothing is exported",
        "is 0: the next export goes on from what bus.jsonl has",
    ),
    _Rule(
        "notice_state",
        "notice_state",
        "is missing, or past the newest message: nobody is told of answers",
        "is at the newest message",
    ),
    _Rule(
        "catalog_state",
        "catalog_state",
        "is missing, or past the newest message: new senders stay unknown",
        "is 0: the catalog is counted again",
    ),
    _Rule("meta", "meta", "are not what these entries can be", "are removed", "what they said"),
    _Rule(
        "heartbeat times",
        "heartbeats",
        "have times that are none, or to come: such an agent seems alive",
        "are of now",
    ),
    _Rule(
        "lease times",
        "task_claims",
        "have times that are none, or over a year ahead: nobody else gets the lease",
        "end now",
    ),
    _Rule(
        "reservation times",
        "reservations",
        "have times that are none, or over a year ahead",
        "end now",
    ),
    _Rule(
        "claim times",
        "claims",
        "have leases over a year ahead: nobody else gets the job",
        "have leases that end now",
    ),
    _Rule(
        "job times",
        "jobs",
        "are to begin at times that are none",
        "may begin now",
    ),
)

_WORDS = {
    "{newest}": (
        "max(ifnull((SELECT max(seq) FROM messages), 0),"
        " ifnull((SELECT max(last_seq) FROM archive_state), 0))"
    ),
    "{above}": str(MAX_SEQ + 1),  # no token is so high
    "{last_time}": str(MAX_TS_MS),
    "{soon}": "?1 + 86400000",  # a day: clocks differ
    "{far}": "?1 + 31622400000",  # a year: no lease is so long
}


def _statements() -> dict[str, str]:
    found = dict(Queries(beside=__file__, file="bounds.sql"))
    for word, sql in _WORDS.items():
        found = {name: text.replace(word, sql) for name, text in found.items()}
    return found


_SQL = _statements()


def check_state(database: Database) -> Finding:
    """Look for rows that break a rule of their table; the gravest are told first."""
    found = broken_state(database)
    return bad("; ".join(found), REPAIR) if found else ok("every row keeps the rules of its table")


def broken_state(database: Database) -> list[str]:
    """Return what breaks a rule, in words; nothing where all is well."""
    return [text for _, text in _broken(database)]


def put_right(database: Database, *, dry_run: bool = False) -> Iterator[Mended]:
    """Put right what breaks a rule, in one transaction, and tell of it.

    Args:
        database: other programs may use it meanwhile.
        dry_run: only tell of it.
    """
    if dry_run:
        yield from (
            Mended(rule.table, f"{text}; {rule.mended}") for rule, text in _broken(database)
        )
        return
    if not any(True for _ in _broken(database)):
        return  # a file that is well is not written
    with database.write() as connection, without_triggers(connection):
        for rule, text in _broken(database):
            connection.execute(_SQL[f"{rule.name}.mend"], _times(database, rule, "mend"))
            yield Mended(rule.table, f"{text}; now {rule.mended}", rule.lost)


def _broken(database: Database) -> Iterator[tuple[_Rule, str]]:
    """Yield each broken rule in words; the next is looked at after the caller is done with it."""
    for rule in _RULES:
        text = _found(database, rule)
        if text:
            yield rule, text


def _found(database: Database, rule: _Rule) -> str:
    """Return what breaks a rule, in words, or ""."""
    rows = database.rows(_SQL[f"{rule.name}.find"], _times(database, rule, "find"))
    if not rows:
        return ""
    names = ", ".join(shown(row[0]).strip("'") for row in rows[:_NAMED])
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    return f"{rule.table}: {names}{more} {rule.broken}"


def _times(database: Database, rule: _Rule, act: str) -> tuple[int, ...]:
    """Return the values of a statement: the present time, if it has a place for one."""
    return (database.now_ms(),) if "?1" in _SQL[f"{rule.name}.{act}"] else ()
