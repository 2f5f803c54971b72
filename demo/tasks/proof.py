"""The proof of the demo: counted in the log, and in git."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .project import CELLAR, PLAN, PLUMS, PRICE_HIGH, PRICE_LOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from .project import Project


@dataclass(frozen=True, slots=True)
class TasksProof:
    """The counts of a run.

    Attributes:
        planned: how many jobs the planner made.
        landed: the tasks that landed, in order.
        landings: how often each landed.
        attempts: how many attempts each task took.
        ended: the reasons for which attempts ended, by task.
        positions: how many commits `main` was at.
        checked: how many of them had passed the check before, on that very commit.
        commits: how many commits agents were done with.
        kept: how many of them git still has on a branch or a rescue ref.
    """

    planned: int
    landed: list[str]
    landings: dict[str, int]
    attempts: dict[str, int]
    ended: dict[str, list[str]]
    positions: int
    checked: int
    commits: int
    kept: int

    @property
    def holds(self) -> bool:
        """Whether all landed once, `main` was never red, and no commit is lost."""
        again = {CELLAR, PLUMS}
        prices = {PRICE_LOW, PRICE_HIGH}
        return (
            self.planned == len(PLAN)
            and sorted(self.landed) == sorted(PLAN)
            and set(self.landings.values()) == {1}
            and all(self.attempts[task] > 1 for task in again)
            and any(self.attempts[task] > 1 for task in prices)
            and self.positions == self.checked
            and self.commits == self.kept > 0
        )


def read_proof(bus: Bus, project: Project) -> TasksProof:
    """Count what happened."""
    changes = [each for each in bus.read(type="state_change") if isinstance(each.payload, dict)]
    landed = [each.payload["task"] for each in changes if each.payload["to"] == "COMPLETED"]
    heads = {each.payload["head"] for each in changes if each.payload.get("head")}
    positions = project.positions()[:-1]  # the first commit is older than the demo
    passed = _passed(bus.read(type="check_result"))
    return TasksProof(
        planned=sum(1 for _ in bus.read(type="task_planned")) + _first_jobs(bus),
        landed=landed,
        landings=dict(Counter(landed)),
        attempts=_attempts(changes),
        ended=_ended(changes),
        positions=len(positions),
        checked=sum(commit in passed for commit in positions),
        commits=len(heads),
        kept=sum(map(project.is_kept, heads)),
    )


def _first_jobs(bus: Bus) -> int:
    """Count the jobs that entered the queue with the plan: no attempt and no plan was before."""
    planned = {each.payload["task"] for each in bus.read(type="task_planned")}
    jobs = [each.payload for each in bus.read(type="task.job")]
    return sum("attempt" not in job and job["task"] not in planned for job in jobs)


def _attempts(changes: Iterable[Message]) -> dict[str, int]:
    begun = Counter(each.payload["task"] for each in changes if each.payload["from"] is None)
    return dict(begun)


def _ended(changes: Iterable[Message]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for each in changes:
        if each.payload["to"] == "FAILED":
            reasons.setdefault(each.payload["task"], []).append(str(each.payload["reason"]))
    return reasons


def _passed(results: Iterable[Message]) -> set[str]:
    """Return the commits on which the check passed."""
    return {each.payload["candidate"] for each in results if each.payload.get("exit") == 0}
