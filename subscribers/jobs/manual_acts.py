"""The record of acts by hand on jobs and queues: who did it, and when. Stored with the act."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.message.names import check_agent
from ...schema.message.times import format_ts
from ...schema.queries import Table
from .statements import SQL, VIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.engine import Engine
    from ..queues.queues import QueueInfo

#: Acts on a job, and on a queue as a whole.
CANCEL, RETRY = "cancel", "retry"
PAUSE, RESUME, PURGE, SKIP, SET = "pause", "resume", "purge", "skip", "set"
LIMIT, UNLIMIT, REMOVE = "limit", "unlimit", "remove"

#: How many acts on a queue are shown: the newest.
SHOWN_ACTS = 20


@dataclass(frozen=True, slots=True)
class Act:
    """An act of a person.

    Attributes:
        at_ms: when, in epoch milliseconds.
        who: the agent, or the account of the program that did it (`user@host`).
        act: `cancel` or `retry` of a job; `pause`, `resume`, `purge`, `skip`,
            `set`, `limit`, `unlimit` or `remove` of a queue.
        seq: the job; None: the queue as a whole.
        detail: more about it, for people; None for nothing.
    """

    at_ms: int
    who: str
    act: str
    seq: int | None
    detail: str | None

    def record(self) -> dict[str, object]:
        """Return it as an object, without the fields that are None."""
        fields = {
            "at": format_ts(self.at_ms),
            "who": self.who,
            "act": self.act,
            "seq": self.seq,
            "detail": self.detail,
        }
        return {name: value for name, value in fields.items() if value is not None}


class ManualActs(Table):
    """The table `work_acts`.

    Args:
        engine: of the bus.
        by: the actor; None: the account of this process.
    """

    def __init__(self, engine: Engine, by: str | None = None) -> None:
        if by is not None:
            check_agent(by, "name of the actor")
        super().__init__(engine)
        self._by = by

    def note(
        self, info: QueueInfo, act: str, *, seq: int | None = None, detail: str | None = None
    ) -> None:
        """Record an act, in the transaction that does it."""
        who = self._by or account()
        values = (self._engine.now_ms(), who, act, info.id, seq, detail)
        self._engine.rows(SQL["note_act"], values)

    def of_job(self, info: QueueInfo, seq: int) -> list[Act]:
        """Return the acts on a job, in order."""
        return [Act(*row) for row in self._engine.rows(VIEWS["acts_of_job"], (info.id, seq))]

    def of_queue(self, info: QueueInfo, limit: int = SHOWN_ACTS) -> list[Act]:
        """Return the newest acts on a queue as a whole, in order."""
        rows = self._engine.rows(VIEWS["acts_of_queue"], (info.id, limit))
        return [Act(*row) for row in reversed(rows)]


def account() -> str:
    """Return the account of this process: `user@host`."""
    import os
    import pwd  # only those who act by hand need it

    user = os.geteuid()
    try:
        name = pwd.getpwuid(user).pw_name
    except KeyError:  # as in a container
        name = str(user)
    return f"{name}@{os.uname().nodename}"
