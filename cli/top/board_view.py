"""The board of tasks on a terminal: tasks, what waits for a person, and the newest changes."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from .board_sight import (
    TASK_HEADINGS,
    WAITING_HEADINGS,
    change_lines,
    headline,
    task_rows,
    waiting_rows,
)
from .screen import line, part, shares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...tasks.board.board import Board

#: The lines that are always there: the first, the last, and an empty one above each part.
_FRAME_LINES = 5


def picture(board: Board, height: int) -> RenderableType:
    """Return the picture for a terminal of so many lines; never more lines than it has."""
    tasks, waiting = task_rows(board), waiting_rows(board)
    rows = shares(height - _FRAME_LINES, [len(tasks), len(waiting)])
    parts: list[RenderableType] = [line(headline(board), "bold")]
    parts += part("tasks", "oldest", TASK_HEADINGS, tasks, rows[0])
    parts += part("waiting", "first", WAITING_HEADINGS, waiting, rows[1])
    used = 3 + sum(2 + count if count else 1 for count in rows)
    changes = change_lines(board)[: max(0, height - used)]
    parts += [Text(""), *(line(each, "") for each in changes)]
    problem = "" if board.problem is None else f"no forecast: {board.problem}; "
    parts += [line(f"{problem}q ends", "dim")]
    return Group(*parts[: max(1, height)])
