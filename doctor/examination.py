"""The examination of a bus: its directory, its file, and what is in it. Nothing is changed."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial

import apsw

from ..automation.attention import checks_of
from ..bus.local_bus import LocalBus
from ..schema.directory.discovery import refuse_place
from ..schema.directory.layout import Layout, lost_file_hint
from ..schema.errors import AckbusError, BusUnusable, Unfinished
from ..schema.findings import bad, examine
from ..schema.sqlite.database import SCHEMA_VERSION, Database
from ..schema.sqlite.file_checks import REPAIR
from ..schema.sqlite.rules.column_rules import check_state
from .checks.bus import checks_of_bus, checks_of_tasks, checks_of_work
from .checks.directory import check_contents, checks_of_file, checks_of_place
from .checks.export import checks_of_export

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..schema.findings import Finding


#: How many files checks have open at a time, at most.
_DESCRIPTORS = 16


def examine_bus(directory: str, *, full: bool = False) -> Iterator[Finding]:
    """Yield the findings of all checks that can be made; what can't be opened is a finding too.

    Args:
        directory: the bus directory.
        full: read everything, however long it takes.

    Raises:
        BusUnusable: this process may open too few files for an examination.
    """
    _refuse_scarcity()
    layout = Layout(directory)
    yield from examine(checks_of_place(layout))
    try:
        database = Database(directory, any_version=True, read_only=True)
    except AckbusError as error:
        yield from examine({"file": partial(_why_not_opened, error, layout)})
        if os.path.exists(layout.database + "-wal") or os.path.isfile(layout.database):
            yield from examine({"contents": lambda: check_contents(layout)})
        return
    with closing(database):
        yield from _of_file(database, full)


def _refuse_scarcity() -> None:
    """Open as many files as checks may need: without them, whole files look damaged."""
    taken: list[int] = []
    try:
        for _ in range(_DESCRIPTORS):
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise BusUnusable(
            f"{error.strerror}: checks have up to {_DESCRIPTORS} open at a time; raise the limit"
            " (ulimit -n)"
        ) from error
    finally:
        for descriptor in taken:
            os.close(descriptor)


def _why_not_opened(error: AckbusError, layout: Layout) -> Finding:
    """Name the repair, unless the error itself ends with what to do about the place."""
    text, _, advice = str(error).rpartition("; ")
    if text and (isinstance(error, Unfinished) or _is_refused(layout) or lost_file_hint(layout)):
        return bad(text, advice)
    if isinstance(error.__cause__, (apsw.CorruptError, apsw.NotADBError)):
        return bad(str(error), REPAIR)
    return bad(str(error), f"if there was a bus: {REPAIR}")


def _is_refused(layout: Layout) -> bool:
    try:
        refuse_place(layout)
    except BusUnusable:
        return True
    except OSError:  # there is no such place
        pass
    return False


def _of_file(database: Database, full: bool) -> Iterator[Finding]:
    findings = list(examine(checks_of_file(database, full=full)))
    yield from findings
    if database.schema_version() != SCHEMA_VERSION:
        return  # what the tables hold can't be told
    if any(finding.state == "bad" for finding in findings):
        yield from examine({"contents": lambda: check_contents(database.layout)})
    opened = LocalBus(database)
    yield from examine(
        {
            "state": lambda: check_state(database, full=full),
            **checks_of_bus(opened, full=full),
            **checks_of_work(opened, full=full),
            **checks_of_export(opened, full=full),
            **checks_of(opened),
            **checks_of_tasks(opened, full=full),
        }
    )
