"""The examination of a bus, check by check, with advice where one fails."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated

import apsw
import typer

from ... import __version__
from ...doctor.examination import examine_bus
from ...schema.errors import AckbusError, BusNotFound, InvalidInput
from ...schema.findings import BAD, Finding, bad, examine, ok
from ...schema.sqlite.sqlite_errors import check_sqlite_version
from .. import hints
from ..definition import Commands
from ..options.common import HERE, Place
from ..options.monitoring import ExitCode, answer
from ..running.looking import looking
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

commands = Commands()


@commands.command("doctor", example="bus doctor --full")
def doctor(
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Read every page, blob, segment and exported line, however long it takes.",
        ),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Restore damaged parts from undamaged ones; no program may use the bus.",
        ),
    ] = False,
    backup: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="With --repair: the backup. Default: the newest one near the bus.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --repair: change nothing; print what it would do."),
    ] = False,
    exit_code: ExitCode = False,
    place: Place = HERE,
) -> int:
    """Examine the bus, and print a line for each check.

    A line is ok, warn or bad, with advice. Takes a few seconds at most, unless --full reads
    everything. Nothing is changed. Exit code 1 when something is bad.

    --repair makes a new file from the readable parts of a damaged bus.db, bus.jsonl, archive and
    blobs, and of a backup; the new file is checked, and replaces the damaged one, which is kept
    under another name. Exit code 1 when something could not be saved.
    """
    if repair:
        from ..show.repair import repair as repair_bus

        if exit_code:
            raise InvalidInput("--exit-code belongs to an examination, not to --repair")
        return repair_bus(place, backup, dry_run)
    if backup is not None or dry_run:
        raise InvalidInput("--from and --dry-run belong to --repair")
    if exit_code:
        where, _ = place.find()
        if not os.path.isdir(where):
            raise BusNotFound(f"there is no directory {where}: nothing is known of its bus")
    with looking():
        return _examine(place, full, exit_code)


def _examine(place: Place, full: bool, exit_code: bool) -> int:
    states = set()
    for finding in _findings(place, full):
        states.add(finding.state)
        advice = f"; {hints.completed(finding.advice)}" if finding.advice else ""
        output.result(
            {"check": finding.check, **asdict(finding)},
            f"{finding.state:<4}  {finding.check}: {finding.text}{advice}",
        )
        output.flush()  # some checks take their time
    if exit_code:
        return answer(states)
    return 1 if BAD in states else 0


def _findings(place: Place, full: bool) -> Iterator[Finding]:
    yield from examine({"versions": _versions})
    try:
        where, found_by = place.find()
    except AckbusError as error:
        yield Finding("bad", str(error), "name another with --dir", "bus")
        return
    yield Finding("ok", f"{where}, found by {found_by}", check="bus")
    yield from examine_bus(where, full=full)


def _versions() -> Finding:
    sqlite = apsw.sqlite_lib_version()
    text = (
        f"ackbus {__version__}, Python {platform.python_version()}, SQLite {sqlite},"
        f" apsw {version('apsw')}, orjson {version('orjson')}"
    )
    try:
        check_sqlite_version(sqlite)
    except AckbusError as error:
        return bad(text, str(error))
    return ok(f"{text}; without the WAL-reset bug")
