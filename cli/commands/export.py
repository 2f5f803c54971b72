"""The log outside of the bus: export, import, and log, which reads git's history."""

from __future__ import annotations

import math
import os
import re
import signal
from contextlib import closing
from typing import Annotated

import typer

from ...bus.local_bus import LocalBus
from ...export.jsonl.exporter import MIN_ROTATE_BYTES, Exporter
from ...export.jsonl.importer import FieldMap, ImportReport, import_jsonl
from ...export.jsonl.jsonl_file import open_exported
from ...export.jsonl.parts import exported_files
from ...export.jsonl.writer import Automatic
from ...git.bus_files import Commit, MessageFilters, traffic
from ...git.bus_files import stage as stage_for_git
from ...schema.directory.layout import BUS_DIR_VARIABLE, has_export
from ...schema.errors import InvalidInput, NotFound, Refused, shown
from ...schema.message.patterns import TypePattern
from ...schema.stop_limit import obey
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, TYPE_HELP, BusPlace, Json, OfAgent, Verbose
from ..options.payload import open_input
from ..running.looking import looking
from ..show.git_lines import readable
from ..show.output import NOTHING, Output
from ..show.terminal import progress
from ..show.text import counted, within_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

commands = Commands()

#: A size as people write it, in any case: `5000`, `500k`, `10MB`, `1.5 GiB`.
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,3})?) ?(?:([kmg])(i?))?b?", re.ASCII | re.IGNORECASE)

#: How many of a file's fields a note names.
_NAMED = 10


@commands.command("export", example="bus export --follow")
def export(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new messages, until Ctrl-C.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Export the present messages, and end: the default.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write the whole file again.")] = False,
    rotate: Annotated[
        str | None,
        optional(
            "SIZE|off",
            "From now on, for all exporters: begin a new file where bus.jsonl would outgrow a "
            "size like 10MB, at least 100kB (k is 1,000 bytes, Ki 1,024). The older lines move to "
            "bus-000001.jsonl and so on; bus.index.json lists these files. off makes one file "
            "again.",
        ),
    ] = None,
    auto: Annotated[
        str | None,
        optional(
            "on|off",
            "From now on, whether commands that publish also export, unasked: on, if never set. "
            "BUS_EXPORT=off keeps those of one environment from it.",
        ),
    ] = None,
    stage: Annotated[
        bool,
        typer.Option(
            "--stage", help="Then stage bus.jsonl, and the blobs that it names, for git's commit."
        ),
    ] = False,
    place: BusPlace = HERE,
) -> int:
    """Bring bus.jsonl up to date with the log.

    While another exporter runs, the plain form waits until that one has written all present
    messages; the others end with exit code 3.
    """
    alone = follow or auto is not None
    if sum((follow, once, rebuild, rotate is not None, auto is not None)) > 1 or (alone and stage):
        raise InvalidInput(
            "give one of --follow, --once, --rebuild, --rotate and --auto; or --stage"
        )
    if auto is not None:
        return _set_automatic(place, auto)
    limit = None if rotate is None else _rotate_bytes(rotate)
    with place.open() as bus:
        exporter = Exporter(bus)
        if follow:
            return _follow(exporter, place)
        count = _export_now(bus, exporter, rebuild=rebuild, limit=limit)
        record = {"exported": count, "last_seq": exporter.position, "file": bus.layout.jsonl}
        summary = f"exported {counted(count, 'message')} to {bus.layout.jsonl}"
        if stage:
            record["staged_blobs"] = blobs = stage_for_git(bus.layout)
            summary += f", and staged it with {counted(blobs, 'blob')}"
        place.output.result(record, summary)
    return 0


def _export_now(bus: LocalBus, exporter: Exporter, *, rebuild: bool, limit: int | None) -> int:
    """Export the present messages, all of them with `rebuild` or a new limit; return how many."""
    from_start = rebuild or limit is not None
    lacking = bus.log.newest_seq() - (0 if from_start else exporter.position)
    with progress("exporting", lacking) as move:
        if limit is not None:
            return exporter.rotate(limit, progress=move)
        return (exporter.rebuild if rebuild else exporter.export_once)(progress=move)


def _follow(exporter: Exporter, place: BusPlace) -> int:
    """Export until a signal comes."""
    place.output.show_logs()
    obey(lambda number, frame: exporter.stop(), signal.SIGINT, signal.SIGTERM)
    exporter.follow()
    return 0


def _set_automatic(place: BusPlace, word: str) -> int:
    """Store whether commands export without being asked."""
    if word not in ("on", "off"):
        raise InvalidInput(f"--auto must be on or off, not {shown(word)}")
    with place.open() as bus:
        Automatic.of(bus).set(word == "on")
    text = "keep bus.jsonl" if word == "on" else "leave bus.jsonl to 'bus export'"
    place.output.result({"auto": word}, f"from now on commands {text}")
    return 0


@commands.command(
    "import", example="bus import notes.jsonl --map type=kind,payload=body,in_reply_to=reply_to"
)
def import_(
    file: Annotated[
        str | None,
        optional_word(
            "FILE",
            "JSON lines; - reads stdin. Default: the bus's own bus.jsonl, as git left it "
            "there after a merge.",
        ),
    ] = None,
    field_map: Annotated[
        list[str] | None,
        optional(
            "OURS=THEIRS,...",
            "OURS is the field of the bus, THEIRS that of the file. "
            "'type=kind|note' takes kind, or note where there is no kind; 'headers.x=y' puts y "
            "into the headers, 'headers.*=*' all other fields; may be repeated.",
            "--map",
        ),
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Publish the lines of a file that the log lacks.

    Lines are compared by id, so it is safe to repeat. Lines that can't be messages are skipped and
    listed; then the exit code is 3.
    """
    fields = _fields(field_map or ())
    with place.open(exports_all=True) as bus:
        names = [file] if file is not None else exported_files(bus.layout.jsonl)
        if names in ([], [bus.layout.jsonl]) and not has_export(bus.layout):
            raise NotFound(f"{bus.layout.jsonl} is not there, or empty; name a FILE")
        opening = open_exported if file is None else open_input
        reports = [(name, _import(bus, name, fields, opening)) for name in names]
    if fields.unread:
        names = sorted(fields.unread)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        place.output.note(
            f"ignored fields: {', '.join(names[:_NAMED])}{more}; map them with --map, or keep them"
            " as headers with --map 'headers.*=*'"
        )
    return _print(place.output, reports)


def _import(
    bus: LocalBus, name: str, fields: FieldMap, opening: Callable[[str], BinaryIO]
) -> ImportReport:
    with closing(opening(name)) as stream:
        size = os.fstat(stream.fileno()).st_size or None
        with progress("importing", size) as move:
            return import_jsonl(bus, stream, field_map=fields, progress=move)


def _rotate_bytes(size: str) -> int:
    """Return the bytes that --rotate means; 0 for off."""
    if size == "off":
        return 0
    match = _SIZE.fullmatch(size)
    if match is None:
        raise InvalidInput(f"--rotate must be off, or a size like 500kB, 10MB, 1GiB, not {size!a}")
    number, unit, binary = match.groups()
    power = "kmg".index(unit.lower()) + 1 if unit else 0
    limit = round(float(number) * math.pow(1024 if binary else 1000, power))
    if limit < MIN_ROTATE_BYTES:
        raise InvalidInput(
            f"--rotate must be {MIN_ROTATE_BYTES // 1000} kB at least, not {size}: where files are"
            " cut more often, 'tail -F' misses lines"
        )
    return limit


def _fields(entries: Sequence[str]) -> FieldMap:
    try:
        return FieldMap(entries)
    except InvalidInput as error:
        raise InvalidInput(f"--map: {error}") from error


def _print(output: Output, reports: list[tuple[str, ImportReport]]) -> int:
    """Print the skipped lines and the totals; return the exit code."""
    for name, report in reports:
        where = f"{name}: " if len(reports) > 1 else ""
        alike: dict[str, list[int]] = {}
        for number, reason in report.reasons:
            alike.setdefault(reason, []).append(number)
        for reason, (first, *others) in alike.items():
            and_more = f" and {counted(len(others), 'more line')}" if others else ""
            output.note(f"{where}line {first}{and_more} skipped: {within_line(reason)}")
        if report.skipped > len(report.reasons):
            more = counted(report.skipped - len(report.reasons), "more line")
            output.note(f"{where}{more} skipped")
    record = {
        name: sum(getattr(report, name) for _, report in reports)
        for name in ("stored", "duplicates", "skipped")
    }
    output.result(record, ", ".join(f"{name} {count}" for name, count in record.items()))
    return Refused.exit_code if record["skipped"] else 0


# The bus in git's history: log.

#: How many commits `bus log` shows of a history that has no beginning of its own.
LOG_COMMITS = 20

_FIELDS = ("hash", "short", "author", "date", "subject", "messages")

Revision = Annotated[
    str,
    typer.Argument(metavar="[REV|REV..REV]", help="Where to begin, or a range, as git log has it."),
]
Limit = Annotated[
    int | None,
    optional(
        "N", "At most so many commits. Default: all of a range, else 20.", "-n", "--limit", min=1
    ),
]
OneBus = Annotated[
    str | None,
    optional(
        "DIR",
        "Only of this bus directory. Default: $BUS_DIR, else every .worker-state/ of the "
        "repository.",
        "--dir",
    ),
]


@commands.command("log", example="bus log main..topic --agent alice")
@looking()
def log(
    output: Output,
    revision: Revision = "HEAD",
    conversation: Annotated[
        str | None, optional("C", "Only this conversation: its first message's id.")
    ] = None,
    agent: OfAgent = None,
    type: Annotated[str | None, optional("P", TYPE_HELP, "--type")] = None,
    limit: Limit = None,
    json: Json = False,
    directory: OneBus = None,
    verbose: Verbose = False,
) -> int:
    """Print the messages that git commits added to bus.jsonl.

    The newest commit comes first. It reads only git's history, so it works in a clone without a
    bus, and in a bare one.
    """
    filters = MessageFilters(conversation, agent, None if type is None else TypePattern(type))
    directory = directory or os.environ.get(BUS_DIR_VARIABLE)
    most = limit or (None if ".." in revision else LOG_COMMITS)
    commits = traffic(
        directory or os.getcwd(), revision, everywhere=directory is None, filters=filters
    )
    count = 0
    for commit in commits:
        if count == most:
            output.detail(f"there is more; see --limit {most * 10}")
            break
        if output.is_json:
            output.json_line({name: getattr(commit, name) for name in _FIELDS})
        else:
            _print_commits(output, commit, first=count == 0)
        count += 1
    if not count and filters == MessageFilters():
        output.note(f"no commit of {revision} added messages to a bus.jsonl")
    return 0 if count else NOTHING


def _print_commits(output: Output, commit: Commit, *, first: bool) -> None:
    if not first:
        output.line("")
    head = (commit.short, commit.date, commit.author, commit.subject)
    output.branch("", "  ".join(head), "yellow")
    for record in commit.messages:
        output.branch("  ", readable(record), "")
