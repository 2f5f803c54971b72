"""The board of tasks as tables for people."""

from __future__ import annotations

from ...schema.message.times import age, format_ts
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...tasks.board.board import Board
    from ...tasks.board.waiting import Row

TASK_HEADINGS = ("task", "state", "attempt", "worker", "branch", "since", "beat", "doing")
WAITING_HEADINGS = ("waits", "task", "for", "since", "what")

#: How many changes are shown to people.
_CHANGES = 10


def headline(board: Board) -> str:
    """Return the first line about a board."""
    tasks = output.counted(len(board.rows), "task")
    if board.jobs:
        tasks += f", {output.counted(len(board.jobs), 'job')} without a task"
    waiting = output.counted(len(board.waiting), "thing")
    wait = "waits" if len(board.waiting) == 1 else "wait"
    return f"{format_ts(board.at_ms)}  seq {board.seq}  {tasks}, {waiting} {wait} for a person"


def task_rows(board: Board) -> list[tuple[object, ...]]:
    """Return the tasks as rows of a table, and after them the jobs without one."""
    rows: list[tuple[object, ...]] = [
        (
            *(row.task.task, "blocked" if row.task.blocked else row.task.state, row.task.attempt),
            *(row.task.worker, row.task.branch, _since(board, row.task.changed_at_ms)),
            *(_beat(row), _doing(row)),
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
        (each.kind, each.task, each.by, _since(board, each.since_ms), each.text)
        for each in board.waiting
    ]


def change_lines(board: Board) -> list[str]:
    """Return the newest changes, a line each."""
    return [
        "  ".join(
            (str(each.seq), format_ts(each.ts_ms), each.from_agent, each.type, _said(each.payload))
        )
        for each in board.changes[:_CHANGES]
    ]


def show(board: Board) -> None:
    """Print a board: its JSON object with --json, else tables."""
    if output.is_json():
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
        for each in change_lines(board):
            output.line(each)
    if board.problem is not None:
        output.note(f"no forecast of conflicts: {board.problem}")


def _since(board: Board, at_ms: int | None) -> str | None:
    return None if at_ms is None else age(max(0, board.at_ms - at_ms) / 1000)


def _beat(row: Row) -> str | None:
    return None if row.beat is None else f"{row.beat.liveness.value} {age(row.beat.age_s)}"


def _doing(row: Row) -> str | None:
    if row.task.blocked is not None:
        return f"asks: {row.task.blocked.question}"
    if row.beat is not None and row.beat.task is not None:
        progress = "" if row.beat.progress is None else f" ({row.beat.progress:g})"
        return f"{row.beat.status}: {row.beat.task}{progress}"
    return row.task.reason


def _said(payload: object) -> str:
    if isinstance(payload, dict) and {"task", "from", "to"} <= payload.keys():
        return f"{payload['task']}: {payload['from'] or 'new'} → {payload['to']}"
    return output.preview_of(payload)
