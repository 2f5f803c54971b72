"""The care of a bus: doctor, archive, segments, maintain, backup."""

from __future__ import annotations

import os
import platform
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Annotated

import apsw
import typer

from ... import __version__
from ...doctor.examination import examine_bus
from ...doctor.repair.repair import repair_bus
from ...schema.directory.discovery import refuse_foreign, refuse_led_away
from ...schema.directory.layout import BUS_DIRECTORY
from ...schema.errors import AckbusError, BusNotFound, InvalidInput
from ...schema.findings import BAD, Finding, bad, examine, ok
from ...schema.message.times import age, format_ts
from ...schema.sqlite.sqlite_errors import check_sqlite_version
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, MAX_SEQ, BusPlace
from ..options.service import ExitCode, answer
from ..running.looking import looking
from ..show.confirmation import Yes, confirm
from ..show.output import Output
from ..show.terminal import progress, waiting
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...bus.local_bus import LocalBus
    from ...bus.log.records import Segment
    from ...export.backup import Backup
    from ...schema.findings import Mended
    from ...subscribers.overview.retention import ArchivePlan, Hold, Retention

# The repair of a bus, part by part, with the losses of each.


def repair_and_report(place: BusPlace, backup: str | None, dry_run: bool) -> int:
    """Repair the bus, print a line for each damaged part, and return the exit code."""
    where = _directory(place)
    is_lossy = False
    count = 0
    parts = repair_bus(where, backup=backup, dry_run=dry_run)
    for mended in watched(parts):
        count += 1
        is_lossy = is_lossy or bool(mended.lost)
        place.output.result(asdict(mended), *_repair_lines(mended))
        place.output.flush()
    if not count and not place.output.is_json:
        place.output.line("nothing is damaged; nothing was changed")
    if dry_run and count:
        place.output.note("nothing was changed: leave --dry-run out to repair it")
    return 1 if is_lossy else 0


def watched(parts: Iterator[Mended]) -> Iterator[Mended]:
    """Yield each part, with an activity bar until it comes: a large bus takes minutes."""
    while True:
        with waiting("repairing"):
            part = next(parts, None)
        if part is None:
            return
        yield part


def _directory(place: BusPlace) -> str:
    """Return the directory of the bus, also of one whose file is missing."""
    if place.named() is None:
        with suppress(BusNotFound):
            return place.find()[0]
        near = os.path.join(os.getcwd(), BUS_DIRECTORY)
        if os.path.isdir(near):
            refuse_foreign(near)
            refuse_led_away(near)
            return near
    return place.find()[0]


def _repair_lines(mended: Mended) -> Iterator[str]:
    yield f"saved  {mended.part}: {mended.text}"
    if mended.lost:
        yield f"LOST   {mended.part}: {mended.lost}"


# The archive and maintenance: moving old messages into compressed files, and checking those.

commands = Commands()

#: The exit code when idle agents hold messages back.
_HELD = 3

#: How many idle agents a line names.
_NAMED = 5

#: The headings of the list of segments.
_HEADINGS = ("file", "first seq", "last seq", "messages", "bytes", "archived at", "state")

#: The age of messages that are archived by default.
_OLDER_THAN = "7d"

Before = Annotated[int | None, optional("SEQ", "Messages below this one.", min=1, max=MAX_SEQ)]
OlderThan = Annotated[
    str | None, optional("D", f"Messages older than this, like 12h or 30d. Default: {_OLDER_THAN}.")
]
IdleAfter = Annotated[
    str,
    typer.Option(
        metavar="D",
        help="Agents and queues not seen for this long are idle.",
    ),
]
PassOver = Annotated[
    list[str] | None,
    optional("AGENT", "Archive what this agent has not read, too; may be repeated."),
]
PassOverIdle = Annotated[
    bool,
    typer.Option("--pass-over-idle", help="Archive what idle agents have not read, too."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; print what would move or be deleted.")
]
Discard = Annotated[
    bool,
    typer.Option("--discard", help="Delete messages that are archived already, for good."),
]


@commands.command("archive", example="bus archive --older-than 30d --dry-run")
def archive(
    before: Before = None,
    older_than: OlderThan = None,
    idle_after: IdleAfter = "7d",
    pass_over: PassOver = None,
    pass_over_idle: PassOverIdle = False,
    discard: Discard = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    place: BusPlace = HERE,
) -> int:
    """Move old messages out of the bus, into compressed files.

    They stay in the log: replay, read, show, trace and search find them there. Messages move that
    every agent has acknowledged and every queue has finished. Broadcasts wait for agents that have
    acknowledged or joined: by a session, a loop, the tools or hooks of a coding agent.

    Exit code 3 when an idle agent holds more back. --pass-over and --pass-over-idle archive mail
    that an agent has not read: its next poll names that mail, and it holds nothing more back until
    it is seen again. An agent is seen when it acknowledges, joins, publishes, records a heartbeat,
    or runs a loop, but not when it only polls, which changes nothing. Mail that is younger, or was
    imported since, counts too. Idle queues hold nothing back: they read the archive.

    --discard deletes whole archived segments below --before or --older-than for good, and asks
    first. Nothing is deleted that a queue has still to do (exit code 3). Whoever reads the range
    later is told "archived and discarded".
    """
    if before is not None and older_than is not None:
        raise InvalidInput("give --before or --older-than, not both")
    if discard:
        return _discard(place, before, older_than, dry_run=dry_run, yes=yes)
    from ...subscribers.overview.retention import Retention

    idle_s = arguments.seconds(idle_after, "--idle-after")
    with place.open() as bus:
        if before is None:
            upto_seq = _last_older(
                place.output, bus, arguments.seconds(older_than or _OLDER_THAN, "--older-than")
            )
        else:
            upto_seq = before - 1
        retention = Retention(bus, idle_after_s=idle_s)
        find = partial(
            retention.plan, upto_seq, pass_over=pass_over or (), pass_over_idle=pass_over_idle
        )
        plan, count, new_segments = _archive(bus, retention, find, dry_run=dry_run)
        now_ms = bus.now_ms()
    record = {
        "dry_run": dry_run,
        "messages": count,
        "to": plan.upto_seq,
        "segments": [asdict(segment) for segment in new_segments],
        "held_by": [asdict(hold) for hold in plan.held_by],
        "passed_over": [asdict(hold) for hold in plan.passed_over],
    }
    place.output.result(record, *_lines(plan, count, new_segments, now_ms, dry_run=dry_run))
    if plan.idle:
        place.output.note(_refusal(plan.idle, now_ms))
    return _HELD if plan.idle else 0


def _discard(
    place: BusPlace, before: int | None, older_than: str | None, *, dry_run: bool, yes: bool
) -> int:
    from ...export.archive_writer import Archiver, discard, finish, segments_upto
    from ...subscribers.overview.retention import Retention

    with place.open() as bus, Archiver(bus):
        upto_seq = _last_to_discard(place.output, bus, before, older_than)
        held_by = Retention(bus).held_by_queues(min(upto_seq, bus.archive.upto()))
        segments = segments_upto(bus, min([upto_seq, *(hold.seq - 1 for hold in held_by)]))
        count = sum(segment.messages for segment in segments)
        first, last = (segments[0].first_seq, segments[-1].last_seq) if segments else (None, None)
        what = counted(count, "message") + (f", seq {first} to {last}" if segments else "")
        summary, discarded = f"would discard {what}", None
        if not dry_run:
            if segments:
                confirm(f"discard {what}, for good", yes)
                discarded = discard(bus, segments)
            finish(bus)  # completes a discard that was killed
            summary = str(discarded) if discarded else "discarded nothing"
        rest = bus.archive.segments()[0 if discarded else len(segments) :]
        advice = list(_how_to_discard_more(bus, rest, upto_seq))
        held_lines = [f"held: {_needs(hold, bus.now_ms())}" for hold in held_by]
    record = {
        "dry_run": dry_run,
        "messages": count,
        "from": first,
        "to": last,
        "discarded_at": discarded.at_ms if discarded else None,
        "held_by": [asdict(hold) for hold in held_by],
    }
    place.output.result(record, summary, *advice, *held_lines)
    return _HELD if held_by else 0


def _last_to_discard(
    output: Output, bus: LocalBus, before: int | None, older_than: str | None
) -> int:
    """Return the last seq that the options name."""
    if before is not None:
        return before - 1
    if older_than is not None:
        return _last_older(output, bus, arguments.seconds(older_than, "--older-than"), after_seq=0)
    raise InvalidInput("--discard deletes for good: say what, with --before or --older-than")


def _how_to_discard_more(bus: LocalBus, rest: Sequence[Segment], upto_seq: int) -> Iterator[str]:
    """Yield why segments with messages to discard stay, and what would discard them."""
    if rest and rest[0].first_seq <= upto_seq:
        end = rest[0].last_seq
        yield f"the next segment ends at {end}: --before {end + 1} takes it whole"
    if not bus.archive.upto():
        yield "nothing is archived; 'bus archive' does that first"


def _last_older(
    output: Output, bus: LocalBus, age_s: float, *, after_seq: int | None = None
) -> int:
    """Return the seq before the first message that is younger, of those after the archive.

    A message with an impossible time, such as one in microseconds, counts by its place in the log.
    """
    upto = bus.archive.upto()
    since_ms = bus.now_ms() - round(age_s * 1000)
    wrong = set(bus.log.wrong_times(upto))
    recent = bus.read(after_seq=upto if after_seq is None else after_seq, since_ms=since_ms)
    younger = next((message for message in recent if message.seq not in wrong), None)
    last = bus.log.newest_seq() if younger is None else younger.seq - 1
    if passed := sum(seq <= last for seq in wrong):
        output.note(f"{passed} of them have impossible times, and count by their places in the log")
    return last


def _archive(
    bus: LocalBus, retention: Retention, find: Callable[[], ArchivePlan], *, dry_run: bool
) -> tuple[ArchivePlan, int, list[Segment]]:
    """Return the plan, the number of its messages, and the new segments."""
    from ...export.archive_writer import Archiver

    archiver = Archiver(bus)  # a dry run is refused too where nothing may be archived
    with nullcontext() if dry_run else archiver:
        plan = find()
        begin = bus.archive.upto()
        count = bus.log.count(begin, plan.upto_seq)
        if dry_run or not count:
            return plan, count, []
        retention.pass_over(plan)
        with progress("archiving", plan.upto_seq - begin) as move:
            new_segments = archiver.archive(
                plan.upto_seq, on_progress=lambda seq: move(seq - begin)
            )
    return plan, count, new_segments


def _lines(
    plan: ArchivePlan, count: int, new_segments: list[Segment], now_ms: int, *, dry_run: bool
) -> Iterator[str]:
    act = "would archive" if dry_run else "archived"
    size = sum(segment.bytes for segment in new_segments)
    into = f", into {counted(size, 'byte')}" if new_segments else ""
    upto = f", up to {plan.upto_seq}" if count else ""
    yield f"{act} {counted(count, 'message')}{upto}{into}"
    for hold in plan.held_by:
        yield f"held: {_needs(hold, now_ms)}"
    for hold in plan.passed_over:
        yield f"{'would pass over' if dry_run else 'passed over'}: {_needs(hold, now_ms)}"


def _needs(hold: Hold, now_ms: int) -> str:
    age = _unseen_for(hold, now_ms)
    return f"{hold.kind} {hold.name} has not done with {hold.seq} (seen {age} ago)"


def _refusal(idle: list[Hold], now_ms: int) -> str:
    """Return the error about idle agents that hold messages back, and how to pass over them."""
    named = ", ".join(
        f"{hold.name} (seen {_unseen_for(hold, now_ms)} ago)" for hold in idle[:_NAMED]
    )
    more = f" and {len(idle) - _NAMED:,} more" if len(idle) > _NAMED else ""
    return (
        f"{counted(len(idle), 'idle agent')} did not read what could be archived:"
        f" {named}{more}; 'bus archive --pass-over NAME' or '--pass-over-idle' archives it, and"
        " the next poll of the agent says so"
    )


def _unseen_for(hold: Hold, now_ms: int) -> str:
    return age((now_ms - hold.seen_ms) / 1000)


@commands.command("segments", example="bus segments --verify")
def segments(
    verify: Annotated[
        bool, typer.Option("--verify", help="Read them all, and check them against their sums.")
    ] = False,
    place: BusPlace = HERE,
) -> int:
    """List the files of the archive, and the state of each.

    A file is ok when it is there, and as long as it was. Exit code 4 when there are none, 1 when
    the state of one is not ok: missing, unreadable or altered. Bytes that changed in place only
    --verify finds.
    """
    with place.open() as bus:
        all_segments = bus.archive.segments()
        records = [_record(bus, segment, verify) for segment in all_segments]
    rows = [
        (record | {"archived_at": format_ts(segment.archived_at_ms)}).values()
        for record, segment in zip(records, all_segments, strict=True)
    ]
    is_well = all(record["state"] == "ok" for record in records)
    return place.output.results(records, rows, _HEADINGS) or (0 if is_well else 1)


def _record(bus: LocalBus, segment: Segment, verify: bool) -> dict[str, object]:
    record: dict[str, object] = {
        "file": bus.archive.path(segment),
        "first_seq": segment.first_seq,
        "last_seq": segment.last_seq,
        "messages": segment.messages,
        "bytes": segment.bytes,
        "archived_at": segment.archived_at_ms,
    }
    look = bus.archive.state_of if verify else bus.archive.apparent_state_of
    return record | {"state": look(segment)}


@commands.command("maintain", example="bus maintain")
def maintain(place: BusPlace = HERE) -> int:
    """Shrink the files of the bus, in short steps.

    Publishers go on meanwhile. Collects blobs that no message names and no program used for a day,
    deletes the records of finished handlers of archived messages, gives free pages of the file
    back to the system (all but 4 MiB, which new messages fill), and empties the write-ahead log.
    Run it after `bus archive`, or from cron.
    """
    from ...bus.maintenance import Maintenance
    from ...subscribers.inboxes.failed_deliveries import Deliveries

    with place.open() as bus:
        bus.settings.require_in_use()  # said before anything is begun
        upkeep = Maintenance(bus)
        blobs, blob_bytes = bus.collect_blobs()
        forgotten = Deliveries.of(bus).forget_finished()
        with progress("giving back pages", None) as move:
            given_back = upkeep.give_back(on_progress=move)
        kept_free = upkeep.spare_bytes()
        wal_before, wal_after = upkeep.checkpoint()
    record: dict[str, object] = {
        "blobs": blobs,
        "blob_bytes": blob_bytes,
        "forgotten": forgotten,
        "bytes_given_back": given_back,
        "bytes_kept_free": kept_free,
        "wal_bytes_before": wal_before,
        "wal_bytes": wal_after,
    }
    gave = "nothing: another program has rebuilt the file, which uses free pages again"
    if given_back is not None:
        spare = f", and kept {counted(kept_free, 'byte')} free for what comes"
        gave = f"{counted(given_back, 'byte')} of the file{spare}"
    place.output.result(
        record,
        f"collected {counted(blobs, 'blob')}, {counted(blob_bytes, 'byte')}",
        f"forgot {counted(forgotten, 'finished message')} of the archive",
        f"gave back {gave}",
        f"the write-ahead log went from {wal_before:,} to {wal_after:,} bytes",
    )
    return 0


# Copies of a whole bus.

#: How many missing files a line for people names.
_NAMED_BLOBS = 3


@commands.command("backup", example="bus backup ../bus-of-today")
def backup(
    to: Annotated[
        str, typer.Argument(metavar="DIR", help="The directory to make; it must not exist.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier backup.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Copy the whole bus while it is in use, and check the copy.

    The copy is a bus directory: the file, with blobs and archive. Open it with --dir, or put it in
    the place of a damaged one. bus.jsonl and search.db are left out: they are made again.
    Exit code 1 when the bus itself lacks blobs or segments: the copy is made, and lacks them too.
    """
    from ...export.backup import back_up, bytes_to_copy

    with place.open() as bus, progress("copying", bytes_to_copy(bus)) as move:
        copy = back_up(bus, to, replace=force, on_progress=move)
    place.output.result(
        asdict(copy),
        f"copied the bus to {copy.directory}: {counted(copy.messages, 'message')}"
        f" up to {copy.newest_seq}, {counted(copy.blobs, 'blob')},"
        f" {counted(copy.segments, 'archive segment')}",
    )
    if copy.lacking:
        place.output.note(_complaint(copy))
    return 1 if copy.lacking else 0


def _complaint(copy: Backup) -> str:
    names = ", ".join(copy.lacking[:_NAMED_BLOBS]) + (
        "…" if len(copy.lacking) > _NAMED_BLOBS else ""
    )
    return (
        f"the bus lacks {counted(len(copy.lacking), 'file')}, or has altered them, and so"
        f" does the copy: {names}; see 'bus doctor --full'"
    )


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
            help="With --repair: the backup. Default: your newest near the bus.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="With --repair: change nothing; print what it would do."),
    ] = False,
    exit_code: ExitCode = False,
    place: BusPlace = HERE,
) -> int:
    """Examine the bus, and print a line for each check.

    A line is ok, warn or bad, with advice. It changes nothing, and takes a few seconds at most,
    unless --full reads everything. Exit code 1 when something is bad.

    --repair makes a new file from the readable parts of a damaged bus.db, bus.jsonl, archive and
    blobs, and of a backup; the new file is checked, and replaces the damaged one, which is kept
    under another name. Exit code 1 when something could not be saved.
    """
    if repair:
        if exit_code:
            raise InvalidInput("--exit-code belongs to an examination, not to --repair")
        return repair_and_report(place, backup, dry_run)
    if backup is not None or dry_run:
        raise InvalidInput("--from and --dry-run belong to --repair")
    if exit_code:
        where, _ = place.find()
        if not os.path.isdir(where):
            raise BusNotFound(f"there is no directory {where}: nothing is known of its bus")
    with looking():
        return _examine(place, full, exit_code)


def _examine(place: BusPlace, full: bool, exit_code: bool) -> int:
    states = set()
    for finding in _findings(place, full):
        states.add(finding.state)
        advice = f"; {place.output.completed(finding.advice)}" if finding.advice else ""
        place.output.result(
            {"check": finding.check, **asdict(finding)},
            f"{finding.state:<4}  {finding.check}: {finding.text}{advice}",
        )
        place.output.flush()  # some checks take their time
    if exit_code:
        return answer(states)
    return 1 if BAD in states else 0


def _findings(place: BusPlace, full: bool) -> Iterator[Finding]:
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
