"""Tasks as a whole: the board, and the forecast of conflicts. 'bus task' takes these in."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.message.seqs import seq_in
from ...tasks.board.board import Boards
from ...tasks.board.forecast import forecast_of_refs, forecast_of_tasks
from ...tasks.board.past import seq_at
from ...tasks.board.reserved import reserved_by_others
from ...tasks.steps.tasks import Tasks
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, Place, since_time
from ..show import output
from ..top.board_sight import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.console import RenderableType

    from ...bus.bus import Bus
    from ...tasks.board.board import Board
    from ...tasks.board.reserved import Reserved

commands = Commands()


@commands.command("board", example="bus task board")
def board(
    at: Annotated[
        str | None,
        optional("SEQ|T", "As it was at this seq, or at a time, or so long ago (10m).", "--at"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the present board, and end.")] = False,
    place: Place = HERE,
) -> int:
    """Show what every worker does, and what waits for a person.

    These are questions, reviews, lost tasks, dead completions, conflicts to come, and changed files
    that others have reserved. On a terminal it is live, and the key q ends it.
    """
    with place.open() as bus:
        boards = Boards(bus)
        if at is not None:
            show(boards.at(_seq_of(bus, at)))
        elif output.is_terminal() and os.environ.get("TERM") != "dumb" and not once:
            _watch(bus, boards)
        else:
            show(boards.now())
    return 0


def _seq_of(bus: Bus, text: str) -> int:
    """Return the seq that a text is, or the newest one of tasks at the time that it is."""
    seq = seq_in(text)
    if seq is not None and seq <= bus.log.newest_seq():
        return seq
    try:
        at_ms = since_time(text, bus.now_ms(), "--at")
    except InvalidInput as error:
        raise InvalidInput(f"{error}, or a seq of the log") from error
    return seq_at(bus, at_ms)


def _watch(bus: Bus, boards: Boards) -> None:
    from ..top.running import keep_showing

    def picture(seen: Board, height: int) -> RenderableType:
        from ..top.board_view import picture  # rich is slow to load

        return picture(seen, height)

    keep_showing(bus, boards.now, picture)


@commands.command("forecast", example="bus task forecast")
def forecast(
    refs: Annotated[
        list[str] | None,
        optional_word("[REF]...", "Branches, commits or tasks. Default: the live tasks."),
    ] = None,
    place: Place = HERE,
) -> int:
    """Print the pairs of tasks, or of refs, that would not merge.

    With each come the files that conflict. Changed files that others have reserved are told on
    stderr. Exit code 4 when a REF is unknown.
    """
    with place.open() as bus:
        if refs:
            found, reserved = forecast_of_refs(bus, refs, os.getcwd()), []
        else:
            found = forecast_of_tasks(bus)
            reserved = reserved_by_others(bus, Tasks(bus).list(is_live=True))
    for clash in found:
        files = ", ".join(clash.files) or "they have no common ancestor"
        output.result(clash.record(), f"{clash.a}  {clash.b}  {files}")
    for each in reserved:
        output.note(_line(each))
    return 0


def _line(reserved: Reserved) -> str:
    from ..show.reservations import describe

    return f"task {reserved.task} changes a file that is not its own: {describe(reserved.conflict)}"
