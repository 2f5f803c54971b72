"""Copies of a whole bus."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..definition import Commands
from ..options.common import HERE, Place
from ..show import output
from ..show.progress import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...export.backup.backup import Backup

commands = Commands()

#: How many names of what is lacking a line for people has.
_NAMED = 3


@commands.command("backup", example="bus backup ../bus-of-today")
def backup(
    to: Annotated[
        str, typer.Argument(metavar="DIR", help="The directory to make; it must not exist.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier backup.")] = False,
    place: Place = HERE,
) -> int:
    """Copy the whole bus while it is in use, and check the copy.

    The copy is a bus directory: the file, with blobs and archive. Open it with --dir, or put it in
    the place of a damaged one. bus.jsonl and search.db are left out: they are made again.
    Exit code 1 when the bus itself lacks blobs or segments: the copy is made, and lacks them too.
    """
    from ...export.backup.backup import back_up, bytes_to_copy

    with place.open() as bus, progress("copying", bytes_to_copy(bus)) as move:
        made = back_up(bus, to, replace=force, on_progress=move)
    output.result(
        asdict(made),
        f"copied the bus to {made.directory}: {output.counted(made.messages, 'message')}"
        f" up to {made.newest_seq}, {output.counted(made.blobs, 'blob')},"
        f" {output.counted(made.segments, 'archive segment')}",
    )
    if made.lacking:
        output.note(_complaint(made))
    return 1 if made.lacking else 0


def _complaint(made: Backup) -> str:
    names = ", ".join(made.lacking[:_NAMED]) + ("…" if len(made.lacking) > _NAMED else "")
    return (
        f"the bus lacks {output.counted(len(made.lacking), 'file')}, or has altered them, and so"
        f" does the copy: {names}; see 'bus doctor --full'"
    )
