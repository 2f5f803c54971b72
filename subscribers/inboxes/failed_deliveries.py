"""Failed deliveries: their counts and errors, and parked messages."""

from __future__ import annotations

import os

from ...schema.errors import NotFound
from ...schema.message.times import format_ts
from ...schema.paging import pages
from ...schema.processes import has_run_for
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How much of a failure's text is kept, in characters.
MAX_ERROR_CHARS = 2000


class Parked:
    """A message set aside after too many failed deliveries, for a person to decide.

    Attributes:
        agent: whose inbox it was in.
        seq: its place in the log.
        attempts: how often it was delivered.
        error: why the last delivery failed.
        parked_at_ms: when it was parked, in epoch milliseconds.
    """

    __slots__ = ("agent", "attempts", "error", "parked_at_ms", "seq")

    def __init__(self, agent: str, seq: int, attempts: int, error: str, parked_at_ms: int) -> None:
        self.agent, self.seq, self.attempts = agent, seq, attempts
        self.error, self.parked_at_ms = error, parked_at_ms

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "agent": self.agent,
            "seq": self.seq,
            "attempts": self.attempts,
            "parked_at": format_ts(self.parked_at_ms),
            "error": self.error,
        }

    def __repr__(self) -> str:
        return f"<Parked {self.agent} seq={self.seq} attempts={self.attempts}: {self.error}>"


#: How many notes of finished messages are looked at in one transaction.
_FORGET_BATCH = 500


class Deliveries(Table):
    """The tables `deliveries`, `loops` and `finished`: the results of deliveries."""

    def count_failure(self, agent: str, seq: int, error: str) -> int:
        """Note one more failed delivery, and return how many there have been."""
        # An error may quote what is no Unicode text, and must be counted all the same.
        text = error[:MAX_ERROR_CHARS].encode(errors="backslashreplace").decode()
        row = (agent, seq, text, self._engine.now_ms())
        ((attempts,),) = self._engine.change(SQL["count_failure"], row)
        return int(attempts)

    def forget(self, agent: str) -> None:
        """Delete all results of an agent's deliveries, in the caller's transaction."""
        for statement in ("forget_deliveries", "forget_loop", "forget_what_is_finished"):
            self._engine.rows(SQL[statement], (agent,))

    def attempts(self, agent: str, seq: int) -> int:
        """Return how many deliveries of a message to an agent have failed."""
        count: int | None = self._engine.value(SQL["attempts"], (agent, seq))
        return count or 0

    def park(self, agent: str, seq: int) -> None:
        """Put a failing message aside."""
        self._engine.change(SQL["set_state"], ("parked", self._engine.now_ms(), agent, seq))

    def requeued(self, agent: str, limit: int) -> list[int]:
        """Return the seqs of up to `limit` messages that were parked and are to come again."""
        return [seq for (seq,) in self._engine.rows(SQL["requeued"], (agent, limit))]

    def acknowledge(self, agent: str, seq: int) -> None:
        """Forget the failures of what an acknowledgement of `seq` covers.

        A requeued message is covered only by its own seq: a cursor that has long passed it says
        nothing about it.
        """
        self._engine.change(SQL["delivered"], (agent, seq))
        self._engine.change(SQL["passed"], (agent, seq))

    def parked(self, agent: str | None = None) -> list[Parked]:
        """Return what is parked for one agent, or for all (None), in order."""
        if agent is None:
            rows = self._engine.rows(SQL["all_parked"])
        else:
            rows = self._engine.rows(SQL["parked"], (agent,))
        return [Parked(*row) for row in rows]

    def count_parked(self, limit: int) -> int:
        """Return how many are parked, of all agents, counted up to a limit."""
        count: int = self._engine.value(SQL["count_parked"], (limit,))
        return count

    def requeue(self, agent: str, seq: int) -> None:
        """Requeue a parked message: it is delivered again, with a new count.

        Raises:
            NotFound: it is not parked.
        """
        self._unpark("requeue", self._engine.now_ms(), agent, seq)

    def drop(self, agent: str, seq: int) -> None:
        """Drop a parked message for this agent; it stays in the log.

        Raises:
            NotFound: it is not parked.
        """
        self._unpark("drop", agent, seq)

    def _unpark(self, statement: str, *values: object) -> None:
        if not self._engine.change(SQL[statement], values):
            *_, agent, seq = values
            raise NotFound(f"message {seq} is not parked for {agent}; see 'bus parked list'")

    def agents_in_loops(self) -> set[str]:
        """Return the agents whose delivery loops run, in processes that are there still."""
        loops = self._engine.rows(SQL["loops"])
        return {agent for agent, pid, since_ms in loops if self._still_runs(pid, since_ms)}

    def begin_loop(self, agent: str) -> tuple[int, bool] | None:
        """Record that this process delivers to an agent now.

        Returns:
            The id of another process that did so before and has not ended it in good order, and
            whether that process is there still; None if there is none.
        """
        with self._engine.write():
            before = self._engine.row(SQL["running_loop"], (agent,))
            self._engine.rows(SQL["begin_loop"], (agent, os.getpid(), self._engine.now_ms()))
        if before is None:
            return None
        pid, since_ms = before
        runs = self._still_runs(pid, since_ms)
        return None if runs and pid == os.getpid() else (pid, runs)

    def _still_runs(self, pid: int, since_ms: int) -> bool:
        return has_run_for(pid, (self._engine.now_ms() - since_ms) / 1000)

    def end_loop(self, agent: str) -> None:
        """Note that this process has stopped delivering, in good order."""
        self._engine.change(SQL["end_loop"], (agent, os.getpid()))

    def finish(self, agent: str, message_id: str) -> bool:
        """Note that an agent has done what a message asked for; False if it had before."""
        values = (agent, message_id, self._engine.now_ms())
        return bool(self._engine.change(SQL["finish"], values))

    def is_finished(self, agent: str, message_id: str) -> bool:
        """Whether an agent has finished a message."""
        return bool(self._engine.value(SQL["is_finished"], (agent, message_id)))

    def forget_finished(self) -> int:
        """Forget which archived messages were finished; a few hundred in a transaction.

        Those that are parked or requeued may be delivered again, and stay.

        Returns:
            How many were forgotten.
        """

        def finished(after: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
            return self._engine.rows(SQL["finished_after"], (*after, _FORGET_BATCH))

        count, after = 0, (b"", b"")
        for page in pages(finished, after, place=tuple, what="finished deliveries"):
            count += len(self._engine.change(SQL["forget_finished"], (*after, *page[-1])))
            after = page[-1]
        return count
