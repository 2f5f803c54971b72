"""The results of a run, as they stand in the log."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from .examine import PYTHON_NOT_CHECKED, PYTHON_OK
from .protocol import RESULTS, TASK_DONE, TASKS_ASSIGNED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..bus.bus import Bus
    from ..schema.message.message import Message

#: How many files the table shows.
SHOWN_FILES = 10


@dataclass(slots=True)
class Totals:
    """The totals of all results.

    Attributes:
        files, bytes, lines, words: sums over what was examined.
        python_ok, python_errors, python_not_checked: Python files by their syntax.
        failed: how many files could not be read.
        binary, unreadable_directories: how many the coordinator passed over.
        by_agent: how many results each worker published.
        messages: how many messages the log holds.
    """

    files: int = 0
    bytes: int = 0
    lines: int = 0
    words: int = 0
    python_ok: int = 0
    python_errors: int = 0
    python_not_checked: int = 0
    failed: int = 0
    binary: int = 0
    unreadable_directories: int = 0
    by_agent: dict[str, int] = field(default_factory=dict)
    messages: int = 0

    def add(self, result: Message) -> None:
        """Add one result."""
        self.by_agent[result.from_agent] = self.by_agent.get(result.from_agent, 0) + 1
        if result.type != TASK_DONE:
            self.failed += 1
            return
        found = result.payload
        self.files += 1
        self.bytes += found["bytes"]
        self.lines += found["lines"]
        self.words += found["words"]
        syntax = found["python"]
        self.python_ok += syntax == PYTHON_OK
        self.python_not_checked += syntax == PYTHON_NOT_CHECKED
        self.python_errors += syntax not in (None, PYTHON_OK, PYTHON_NOT_CHECKED)


def read_results(bus: Bus) -> Iterator[Message]:
    """Yield every result, in the order of the log."""
    return (message for message in bus.read() if message.type in RESULTS)


def read_totals(bus: Bus) -> tuple[Totals, list[Message]]:
    """Add the results up; holds a page of the log in memory at a time.

    Returns:
        The totals, and the results of the largest files, the largest first.
    """
    totals = Totals()
    done = (result for result in _added(bus, totals) if result.type == TASK_DONE)
    largest = heapq.nlargest(SHOWN_FILES, done, key=lambda result: result.payload["bytes"])
    return totals, largest


def _added(bus: Bus, totals: Totals) -> Iterator[Message]:
    """Yield the results of the log, each added to the totals."""
    for message in bus.read():
        totals.messages += 1
        if message.type in RESULTS:
            totals.add(message)
            yield message
        elif message.type == TASKS_ASSIGNED:
            totals.binary = message.payload["binary"]
            totals.unreadable_directories = message.payload["unreadable_directories"]
