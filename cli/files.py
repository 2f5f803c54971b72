"""bus.jsonl and its like: export, import."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from typing import Annotated

import typer

from ..export import Exporter, FieldMap, ImportReport, import_jsonl
from ..schema import InvalidInput, Refused
from . import actions, output
from .commands import Commands
from .options import Directory, Json, User, Verbose
from .payloads import open_input
from .progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

commands = Commands()


@commands.command("export", example="bus export --follow")
def export(
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with every new message, until Ctrl-C.")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Write the whole file anew.")] = False,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Bring bus.jsonl up to the log.

    While another exporter is at work, the plain form waits until that one has written what is
    there now; the others end with exit code 3.
    """
    if follow and rebuild:
        raise InvalidInput("give --follow or --rebuild, not both")
    with actions.open_bus(directory, user) as bus:
        exporter = Exporter(bus)
        if follow:
            output.show_logs()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: exporter.stop())
            exporter.follow()
            return 0
        write = exporter.rebuild if rebuild else exporter.export_once
        lacking = bus.log.newest_seq() - (0 if rebuild else exporter.position)
        with progress("exporting", lacking) as move:
            count = write(progress=move)
        if json:
            record = {"exported": count, "last_seq": exporter.position, "file": bus.layout.jsonl}
            output.json_line(record)
        else:
            output.line(f"exported {output.counted(count, 'message')} to {bus.layout.jsonl}")
    return 0


@commands.command(
    "import", example="bus import notes.jsonl --map type=kind,payload=body,in_reply_to=reply_to"
)
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - reads stdin.")],
    field_map: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OURS=THEIRS,...",
            help="Which of their fields becomes which of ours, where the names differ. "
            "'type=kind|note' takes note where kind is absent; 'headers.x=y' puts y into the "
            "headers, 'headers.*=*' all that is left.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Publish the lines of a file that the log lacks.

    It goes by id, so it is safe to repeat. Lines that can't be messages are skipped and listed;
    then the exit code is 3.
    """
    fields = _fields(field_map or ())
    with actions.open_bus(directory, user) as bus, closing(open_input(file)) as stream:
        size = os.fstat(stream.fileno()).st_size or None
        with progress("importing", size) as move:
            report = import_jsonl(bus, stream, field_map=fields, progress=move)
    _print(report, json)
    return Refused.exit_code if report.skipped else 0


def _fields(entries: Sequence[str]) -> FieldMap:
    try:
        return FieldMap(entries)
    except InvalidInput as error:
        raise InvalidInput(f"--map: {error}") from error


def _print(report: ImportReport, json: bool) -> None:
    for number, reason in report.reasons:
        output.note(f"line {number} skipped: {output.within_line(reason)}")
    if report.skipped > len(report.reasons):
        more = output.counted(report.skipped - len(report.reasons), "more line")
        output.note(f"{more} skipped")
    if json:
        record = {"stored": report.stored, "duplicates": report.duplicates}
        output.json_line(record | {"skipped": report.skipped})
    else:
        output.line(
            f"stored {report.stored}, already there {report.duplicates}, skipped {report.skipped}"
        )
