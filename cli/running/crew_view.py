"""The roles of a crew, as `bus crew` shows them."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.times import age
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...bus.presence.heartbeats import Heartbeat

HEADINGS = ("ROLE", "STATE", "FOR", "STARTS", "AGENT", "TASK", "LAST")


@dataclass(frozen=True, slots=True)
class RoleSight:
    """A role of a crew, and the last beat of the agent of its name.

    Attributes:
        role: the record of its state.
        beat: the beat, or None.
        now_ms: when it was looked at, in epoch milliseconds.
    """

    role: dict[str, Any]
    beat: Heartbeat | None
    now_ms: int

    def row(self) -> tuple[object, ...]:
        """Return it as a row of the table."""
        role, beat = self.role, self.beat
        state = role["status"]
        if state == "waiting" and role["until_ms"] is not None:
            left_s = max(0.0, (role["until_ms"] - self.now_ms) / 1000)
            state = f"starts in {left_s:.0f} s"
        last = role["last"] or role["ended"]
        if state not in ("running", "spare", "stopped"):
            last = role["ended"] if not role["last"] else f"{role['ended']}: {role['last']}"
        status = (
            None if beat is None else beat.status if beat.liveness == "alive" else beat.liveness
        )
        return (
            *(role["name"], state, age(max(0, self.now_ms - role["since_ms"]) / 1000)),
            *(role["starts"], status, None if beat is None else beat.task, last),
        )

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        beat = self.beat
        told = {
            "liveness": None if beat is None else beat.liveness.value,
            "agent_status": None if beat is None else beat.status,
            "task": None if beat is None else beat.task,
        }
        return self.role | told


def table(sights: Sequence[RoleSight]) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    """Return the table of roles."""
    return HEADINGS, [sight.row() for sight in sights]


def print_lines(sights: Sequence[RoleSight]) -> None:
    """Print the roles, each as a line of JSON or as a row."""
    output.results([sight.record() for sight in sights], [each.row() for each in sights], HEADINGS)
