"""bus task board on a real terminal: live, and as large as the terminal."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ackbus import Bus
from ackbus.cli.show.board import picture
from ackbus.tasks.board.board import Boards
from ackbus.tasks.steps.tasks import Tasks

from ..tasks.conftest import new_task
from .test_top import Terminal, is_as_before


@pytest.fixture
def tasks(bus: Bus) -> Tasks:
    """Tasks of a repository that is not there, as of one that was moved."""
    tasks = Tasks(bus)
    task = tasks.assign(new_task("fix-login"), agent="lead")
    tasks.start("fix-login", agent="worker-1", token=task.token)
    tasks.block("fix-login", agent="worker-1", token=task.token, question="Which \x1b[2J one?")
    return tasks


@pytest.fixture
def board(tasks: Tasks, project: Path, bus_env: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(project, bus_env, "task", "board", lines=30, columns=120)
    yield terminal
    terminal.close()


@pytest.mark.slow
def test_the_board_follows_the_tasks_and_q_ends_it(board: Terminal, tasks: Tasks) -> None:
    """M-05: one command that a person leaves open."""
    for text in ("fix-login", "blocked", "worker-1/fix-login", "question", "Which \\x1b[2J one?"):
        board.wait_for(text)
    board.wait_for("1 task, 1 thing waits for a person")
    tasks.answer("fix-login", agent="lead", words="The new one.")
    board.wait_for("0 things wait for a person")
    tasks.assign(new_task("next"), agent="lead")
    board.wait_for("next: new → ASSIGNED")
    board.type("q")
    assert board.ended() == 0
    assert is_as_before(board)


@pytest.mark.parametrize("size", [(1, 20), (5, 30), (8, 40), (24, 80), (60, 200)])
def test_the_board_fits_any_terminal(size: tuple[int, int], bus: Bus) -> None:
    lines, columns = size
    for number in range(40):
        task = Tasks(bus).assign(new_task(f"task-{number}", worker=f"w-{number}"), agent="lead")
        Tasks(bus).start(task.task, agent=task.worker, token=task.token)
        if number % 2:
            Tasks(bus).block(task.task, agent=task.worker, token=task.token, question="long " * 90)
    console = Console(width=columns, height=lines, force_terminal=True)
    with console.capture() as captured:
        console.print(picture(Boards(bus).now(), lines))
    assert len(captured.get().splitlines()) <= lines
