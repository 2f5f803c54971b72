"""The error of an agent that was not woken."""

from __future__ import annotations

from ..schema.errors import Refused


class NotWoken(Refused):
    """An agent was not woken, and nothing was typed that is still there.

    Attributes:
        agent: its name.
        reason: the reason, and the next step where there is one.
    """

    def __init__(self, agent: str, reason: str) -> None:
        self.agent, self.reason = agent, reason
        super().__init__(f"{agent!a} was not woken: {reason}")
