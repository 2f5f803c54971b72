"""The totals of a run, as its answers tell them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from .examine import PYTHON_NOT_CHECKED, PYTHON_OK
from .protocol import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema.message.message import Message

#: How many of the largest files are named.
SHOWN_FILES = 10


@dataclass(slots=True)
class Totals:
    """The totals of all answers.

    Attributes:
        files, bytes, lines: sums over the examined files.
        python_ok, python_errors, python_not_checked: Python files by their syntax.
        failed: how many files could not be read.
        by_agent: how many answers each worker published.
    """

    files: int = 0
    bytes: int = 0
    lines: int = 0
    python_ok: int = 0
    python_errors: int = 0
    python_not_checked: int = 0
    failed: int = 0
    by_agent: dict[str, int] = field(default_factory=dict)

    def add(self, result: Message) -> None:
        """Add one answer."""
        found = result.payload
        self.by_agent[result.from_agent] = self.by_agent.get(result.from_agent, 0) + 1
        if "error" in found:
            self.failed += 1
            return
        self.files += 1
        self.bytes += found["bytes"]
        self.lines += found["lines"]
        syntax = found["python"]
        self.python_ok += syntax == PYTHON_OK
        self.python_not_checked += syntax == PYTHON_NOT_CHECKED
        self.python_errors += syntax not in (None, PYTHON_OK, PYTHON_NOT_CHECKED)


def totals_of(messages: Iterable[Message]) -> tuple[Totals, list[Message]]:
    """Return the totals of a log, and the answers about its largest files, the largest first."""
    totals = Totals()

    def added(result: Message) -> int:
        totals.add(result)
        return int(result.payload.get("bytes", -1))

    results = (message for message in messages if message.type == DONE)
    largest = heapq.nlargest(SHOWN_FILES, results, key=added)
    return totals, [result for result in largest if "error" not in result.payload]
