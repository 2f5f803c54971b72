"""Tasks as a whole: the board, and the forecast of conflicts. 'bus task' takes these in."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput, NotFound
from ...schema.message.names import seq_in
from ...tasks.board.board import Boards
from ...tasks.board.comments import comment, comments, place_in
from ...tasks.board.forecast import (
    TaskRepositories,
    forecast_of_refs,
    forecast_of_tasks,
    reserved_by_others,
)
from ...tasks.board.proof import prove, seq_at, verify
from ...tasks.steps.tasks import Tasks
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..hints import AGENT_VARIABLE
from ..options.common import HERE, BusPlace, since_time
from ..options.payload import STDIN, json_argument
from ..options.tasks import Actor, Name, note_reserved
from ..running.looking import looking
from ..show.board import show
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.console import RenderableType

    from ...bus.local_bus import LocalBus
    from ...tasks.board.board import Board
    from ...tasks.board.comments import Comment
    from ...tasks.board.forecast import Clash

commands = Commands()

#: How many digits a time has at least, in milliseconds since 1970: it is after 2001.
_DIGITS_OF_TIMES = 13

_COMMENT_HEADINGS = ("line", "now", "by", "comment", "text")


@commands.command("board", example="bus task board")
def board(
    at: Annotated[
        str | None,
        optional("SEQ|T", "As it was at this seq, or at a time, or so long ago (10m).", "--at"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the present board, and end.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Show what every worker does, and what waits for a person.

    These are questions, reviews, approved tasks without an integrator, tasks that are lost or
    failed for good, dependencies that will not land, dead jobs and completions, conflicts to come,
    and changed files that others have reserved. Jobs without a task yet are shown too. On a
    terminal it is live, and the key q ends it.
    """
    with place.open() as bus:
        boards = Boards(bus)
        if at is not None:
            show(place.output, boards.at(*_moment_of(bus, at)))
        elif place.output.is_terminal() and os.environ.get("TERM") != "dumb" and not once:
            _watch(place.output, bus, boards)
        else:
            with looking():
                show(place.output, boards.now())
    return 0


def _moment_of(bus: LocalBus, text: str) -> tuple[int, int | None]:
    """Return the seq of a text and None, or for a time its newest seq and the time.

    A number is a seq, unless the log is shorter and it is the epoch millisecond of a time after
    2001.

    Raises:
        InvalidInput: it is none of these.
        NotFound: the log has no such seq yet.
    """
    seq, newest = seq_in(text), bus.log.newest_seq()
    if seq is not None and seq <= newest:
        return seq, None
    if text.isascii() and text.isdecimal() and len(text.lstrip("0")) < _DIGITS_OF_TIMES:
        raise NotFound(f"the log ends at seq {newest}: there is no {text}")
    try:
        at_ms = since_time(text, bus.now_ms(), "--at")
    except InvalidInput as error:
        raise InvalidInput(f"{error}, or a seq of the log") from error
    return seq_at(bus, at_ms), at_ms


def _watch(output: Output, bus: LocalBus, boards: Boards) -> None:
    from ..top.running import keep_showing

    def picture(current: Board, height: int) -> RenderableType:
        from ..show.board import picture  # rich is slow to load

        return picture(current, height)

    keep_showing(output, bus, boards.now, picture)


@commands.command("forecast", example="bus task forecast")
@looking()
def forecast(
    refs: Annotated[
        list[str] | None,
        optional_word("[REF]...", "Branches, commits or tasks. Default: the live tasks."),
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Print the pairs of tasks, or of refs, that would not merge.

    With each come the files that conflict. No merge driver or filter of the repository is run: a
    file that has one is reported as not known. Changed files that others have reserved are named
    on stderr. Exit code 4 when a REF is unknown.
    """
    with place.open() as bus:
        lookout = TaskRepositories(bus)
        if refs:
            clashes, reserved = forecast_of_refs(bus, refs, os.getcwd()), []
        else:
            clashes = forecast_of_tasks(bus, lookout)
            reserved = reserved_by_others(bus, Tasks(bus).list(is_live=True), lookout)
        for clash in clashes:
            place.output.result(clash.record(), f"{clash.a}  {clash.b}  {_what_clashes(clash)}")
        note_reserved(place.output, bus, reserved)
    for reason in lookout.not_looked_into.values():
        place.output.note(reason)
    return 0


def _what_clashes(clash: Clash) -> str:
    files = ", ".join(clash.files)
    if clash.not_known is not None:
        return f"not known: {files}{': ' if files else ''}{clash.not_known}"
    return files or "they have no common ancestor"


@commands.command("comment", example="bus task comment fix-login src/app.py:12 'Why twice?'")
@looking()
def comment_on(
    name: Name,
    place_of_line: Annotated[
        str, typer.Argument(metavar="FILE:LINE", help="The line; FILE from the repository's root.")
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The comment.")],
    agent: Actor = None,
    place: BusPlace = HERE,
) -> int:
    """Comment on a line of a task: a message to its worker.

    The line is that of the commit that is done, or of the newest on the branch. Exit code 4 when
    there is no such task, file or line.
    """
    agent = arguments.sender(agent, "--agent")
    where = place_in(place_of_line)
    with place.open() as bus:
        entry = comment(bus, name, where, text, agent=agent)
    place.output.result(
        entry.record(), f"seq {entry.seq}, on {entry.commit[:12]}: {entry.text.strip()}"
    )
    return 0


@commands.command("comments", example="bus task comments fix-login")
@looking()
def list_comments(name: Name, place: BusPlace = HERE) -> int:
    """List the comments on a task, and where their lines are now.

    Exit code 4 when there are none, or no such task.
    """
    with place.open() as bus:
        entries = comments(bus, name)
    rows = [
        (
            f"{entry.place.file}:{entry.place.line}",
            _now(entry),
            entry.by,
            entry.words,
            entry.text.strip(),
        )
        for entry in entries
    ]
    return place.output.results([entry.record() for entry in entries], rows, _COMMENT_HEADINGS)


def _now(entry: Comment) -> str:
    return "changed" if entry.now is None else f"{entry.now.file}:{entry.now.line}"


@commands.command("proof", example="bus task proof fix-login --agent lead > proof.json")
@looking()
def proof(
    name: Annotated[
        str | None,
        optional_word("[TASK|COMMIT]", "A task, or the commit as which it has landed."),
    ] = None,
    checked: Annotated[
        str | None, optional("FILE", "Check the proof in this file; - is stdin.", "--verify")
    ] = None,
    agent: Annotated[
        str | None, optional("A", "Sign with the key of this agent. Default: $BUS_AGENT.")
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Print the proof of a landing: from the request to the commit.

    It is one JSON object, made of the log and of git, and compared with both; differences are
    printed on stderr, and make exit code 1. Exit code 3 when the task has not landed, 4 when there
    is none.
    """
    if (name is None) == (checked is None):
        raise InvalidInput("give a task or a commit, or --verify FILE")
    with place.open() as bus:
        if checked is not None:
            problems = verify(bus, _read(checked))
            place.output.result({"problems": problems}, *(() if problems else ("all agrees",)))
        else:
            agent = agent or os.environ.get(AGENT_VARIABLE) or None
            document = prove(bus, name or "", os.getcwd(), agent=agent)
            problems = document["problems"]
            place.output.json_line(document)
    for problem in problems:
        place.output.note(problem)
    return 1 if problems else 0


def _read(file: str) -> dict[str, Any]:
    read = json_argument(file if file == STDIN else f"@{file}", "--verify")
    if not isinstance(read, dict):
        raise InvalidInput(f"{file} has no JSON object")
    return read
