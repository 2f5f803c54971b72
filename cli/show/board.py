"""The board of tasks as tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from ...schema.message.times import age, format_ts
from .output import Output, cells_of, preview_of
from .terminal import console, fitted_table
from .text import counted, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...tasks.board.board import Board, TaskRow

# A terminal that is filled with a picture, and the parts of such pictures.

Shown = TypeVar("Shown")

#: How many lines at least are kept for what follows the tables, if there is room.
_LEAST_REST = 3


@contextmanager
def full_screen(
    picture: Callable[[Shown, int], RenderableType],
) -> Iterator[Callable[[Shown], None]]:
    """Yield a function that fills the terminal; the former screen comes back at the end.

    Args:
        picture: makes the picture for a terminal of so many lines.
    """
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda shown: live.update(picture(shown, console.height), refresh=True)


def row_counts(lines: int, counts: Sequence[int]) -> list[int]:
    """Return how many rows each table gets of the lines, which also hold headings and messages.

    Each table gets all its rows if a third of the lines is left to messages; a table may use the
    lines that the other does not need.
    """
    room = max(0, lines - max(_LEAST_REST, lines // 3))
    shares = dict.fromkeys(range(len(counts)), 0)
    for index, table in enumerate(sorted(shares, key=lambda table: counts[table])):
        share = min(counts[table], room // (len(counts) - index) - 1)
        if share > 0:
            shares[table] = share
            room -= share + 1
    return list(shares.values())


def table_part(
    what: str, which: str, headings: Sequence[str], rows: Sequence[Sequence[object]], count: int
) -> list[RenderableType]:
    """Return a table of the first rows, by name, so that rows keep their places."""
    if not count:
        return [line(f"{len(rows) or 'no'} {what}", "dim")]
    shown = sorted(rows[:count], key=lambda row: str(row[0]))
    above = f"{what}: the {which} {count}" if count < len(rows) else ""
    return [line(above, "dim"), fitted_table(headings, cells_of(shown))]


def line(text: str, style: str) -> Text:
    """Return one line, cut at the edge of the terminal."""
    return cut(Text(visible(text), style))


def cut(text: Text) -> Text:
    """Keep a line from taking more than one of the terminal's."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


TASK_HEADINGS = ("task", "state", "attempt", "worker", "branch", "since", "beat", "doing")
WAITING_HEADINGS = ("waits", "task", "for", "since", "what")

#: How many changes are shown to people.
_CHANGES = 10


def headline(board: Board) -> str:
    """Return the first line about a board."""
    tasks = counted(len(board.rows), "task")
    if board.jobs:
        tasks += f", {counted(len(board.jobs), 'job')} without a task"
    waiting = counted(len(board.waiting), "thing")
    wait = "waits" if len(board.waiting) == 1 else "wait"
    return f"{format_ts(board.at_ms)}  seq {board.seq}  {tasks}, {waiting} {wait} for a person"


def task_rows(board: Board) -> list[tuple[object, ...]]:
    """Return the tasks as rows of a table, and after them the jobs without one."""
    rows: list[tuple[object, ...]] = [
        (
            *(row.task.task, "blocked" if row.task.blocked else row.task.state, row.task.attempt),
            *(row.task.worker, row.task.branch, _since(board, row.task.changed_at_ms)),
            *(_beat(row), _activity(row)),
        )
        for row in board.rows
    ]
    rows += [
        (
            *(job.task, job.state, job.attempt, job.worker),
            *(None, _since(board, job.since_ms), None, job.note),
        )
        for job in board.jobs
    ]
    return rows


def waiting_rows(board: Board) -> list[tuple[object, ...]]:
    """Return what waits for a person as rows of a table."""
    return [
        (wait.kind, wait.task, wait.by, _since(board, wait.since_ms), wait.text)
        for wait in board.waiting
    ]


def change_lines(board: Board) -> list[str]:
    """Return the newest changes, a line each."""
    return [
        "  ".join(
            (
                str(message.seq),
                format_ts(message.ts_ms),
                message.from_agent,
                message.type,
                _summary_of(message.payload),
            )
        )
        for message in board.changes[:_CHANGES]
    ]


def show(output: Output, board: Board) -> None:
    """Print a board: its JSON object with --json, else tables."""
    if output.is_json:
        output.json_line(board.record())
        return
    output.line(headline(board))
    if board.rows or board.jobs:
        output.line("")
        output.table(TASK_HEADINGS, task_rows(board))
    if board.waiting:
        output.line("")
        output.table(WAITING_HEADINGS, waiting_rows(board))
    if board.changes:
        output.line("")
        for text in change_lines(board):
            output.line(text)
    if board.problem is not None:
        output.note(f"no forecast of conflicts: {board.problem}")


def _since(board: Board, at_ms: int | None) -> str | None:
    return None if at_ms is None else age(max(0, board.at_ms - at_ms) / 1000)


def _beat(row: TaskRow) -> str | None:
    return None if row.beat is None else f"{row.beat.liveness.value} {age(row.beat.age_s)}"


def _activity(row: TaskRow) -> str | None:
    if row.task.blocked is not None:
        return f"asks: {row.task.blocked.question}"
    if row.beat is not None and row.beat.task is not None:
        progress = "" if row.beat.progress is None else f" ({row.beat.progress:g})"
        return f"{row.beat.status}: {row.beat.task}{progress}"
    return row.task.reason


def _summary_of(payload: object) -> str:
    if isinstance(payload, dict) and {"task", "from", "to"} <= payload.keys():
        return f"{payload['task']}: {payload['from'] or 'new'} → {payload['to']}"
    return preview_of(payload)


# The board of tasks on a terminal: tasks, what waits for a person, and the newest changes.

#: The lines that are always there: the first, the last, and an empty one above each part.
_FRAME_LINES = 5


def picture(board: Board, height: int) -> RenderableType:
    """Return the picture for a terminal of so many lines; never more lines than it has."""
    tasks, waiting = task_rows(board), waiting_rows(board)
    rows = row_counts(height - _FRAME_LINES, [len(tasks), len(waiting)])
    parts: list[RenderableType] = [line(headline(board), "bold")]
    parts += table_part("tasks", "oldest", TASK_HEADINGS, tasks, rows[0])
    parts += table_part("waiting", "first", WAITING_HEADINGS, waiting, rows[1])
    used = 3 + sum(2 + count if count else 1 for count in rows)
    changes = change_lines(board)[: max(0, height - used)]
    parts += [Text(""), *(line(text, "") for text in changes)]
    problem = "" if board.problem is None else f"no forecast: {board.problem}; "
    parts += [line(f"{problem}q ends", "dim")]
    return Group(*parts[: max(1, height)])
