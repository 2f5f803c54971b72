"""The state of a reader: its cursor, failed deliveries, and parked messages."""

from __future__ import annotations

import os

from ...schema.errors import MailArchived, NotFound
from ...schema.message.names import MAX_SEQ
from ...schema.message.times import format_ts
from ...schema.processes import has_run_for
from ...schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
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


#: How many rows of finished messages a transaction reads.
_FORGET_BATCH = 500


class Deliveries(Table):
    """The tables `deliveries`, `loops` and `finished`: the results of deliveries."""

    def count_failure(self, agent: str, seq: int, error: str) -> int:
        """Count a failed delivery, and return how many there have been."""
        # An error may quote text that is not Unicode, and must be counted all the same.
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
        """Return the seqs of up to `limit` parked messages that are to be delivered again."""
        return [seq for (seq,) in self._engine.rows(SQL["requeued"], (agent, limit))]

    def acknowledge(self, agent: str, seq: int) -> None:
        """Forget the failures of messages that an acknowledgement of `seq` covers.

        A requeued message is covered only by its own seq: a cursor that has long passed it says
        nothing about it.
        """
        self._engine.change(SQL["delivered"], (agent, seq))
        self._engine.change(SQL["passed"], (agent, seq))

    def parked(self, agent: str | None = None) -> list[Parked]:
        """Return the messages that are parked for one agent, or for all (None), in order."""
        if agent is None:
            rows = self._engine.rows(SQL["all_parked"])
        else:
            rows = self._engine.rows(SQL["parked"], (agent,))
        return [Parked(*row) for row in rows]

    def count_parked(self, limit: int) -> int:
        """Return how many messages are parked, of all agents, counted up to a limit."""
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
        """Return the agents whose delivery loops run, in processes that still run."""
        loops = self._engine.rows(SQL["loops"])
        return {agent for agent, pid, since_ms in loops if self._still_runs(pid, since_ms)}

    def begin_loop(self, agent: str) -> tuple[int, bool] | None:
        """Record that this process delivers to an agent now.

        Returns:
            The id of a process that delivered to the agent before and has not ended its loop in
            good order, and whether the process still runs; None: there is no such process.
        """
        with self._engine.write():
            before = self._engine.row(SQL["running_loop"], (agent,))
            self._engine.rows(SQL["begin_loop"], (agent, os.getpid(), self._engine.now_ms()))
        if before is None:
            return None
        pid, since_ms = before
        still_runs = self._still_runs(pid, since_ms)
        return None if still_runs and pid == os.getpid() else (pid, still_runs)

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

        Messages that are parked or requeued may be delivered again: they stay noted as finished.

        Returns:
            How many were forgotten.
        """
        from ...schema.paging import pages  # hooks load this module, and forget nothing

        def finished(after: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
            return self._engine.rows(SQL["finished_after"], (*after, _FORGET_BATCH))

        count, after = 0, (b"", b"")
        for page in pages(finished, after, place=tuple, what="finished deliveries"):
            count += len(self._engine.change(SQL["forget_finished"], (*after, *page[-1])))
            after = page[-1]
        return count


# Cursors of readers: how far each has acknowledged, and mail that was archived unread.


class Cursors(Table):
    """The tables `cursors`, `received` and `passed_over`. A cursor only moves forward.

    An agent with a cursor is a reader: it has joined or acknowledged, and broadcasts wait for it.
    """

    def position(self, agent: str) -> int:
        """Return the last seq that the agent acknowledged; 0 if it never did."""
        seq: int | None = self._engine.value(SQL["cursor"], (agent,))
        return seq or 0

    def count_unread(self, agent: str, limit: int) -> int:
        """Return how many messages wait in an agent's inbox; no message is read for it.

        Args:
            agent: the agent.
            limit: the highest count.
        """
        count: int = self._engine.value(SQL["unread"], (agent, limit))
        return count

    def passing(self, agent: str, seq: int) -> tuple[int, int]:
        """Return an agent's position, and how many messages acknowledging a seq would cover."""
        ((position, count),) = self._engine.rows(SQL["passing"], (agent, min(seq, MAX_SEQ)))
        return position, count

    def count_addressed(self, agent: str, limit: int) -> int:
        """Return how many messages that are addressed to an agent wait, counted up to a limit."""
        count: int = self._engine.value(SQL["unread_addressed"], (agent, limit))
        return count

    def covered(
        self, agent: str, seq: int, after_seq: int, limit: int, *, broadcasts: bool = True
    ) -> list[tuple[int, str, str]]:
        """Return seq, type and sender of mail above `after_seq` that acknowledging `seq` covers."""
        statement = SQL["covered" if broadcasts else "covered_addressed"]
        return self._engine.rows(statement, (agent, seq, after_seq, limit))

    def last_broadcasts(self, agent: str, limit: int) -> list[tuple[int, int]]:
        """Return seq and time of the last broadcasts that are an agent's mail, newest first."""
        return self._engine.rows(SQL["last_broadcasts"], (agent, limit))

    def count_broadcasts(self, agent: str, before_seq: int, limit: int) -> int:
        """Return how many broadcasts that are an agent's mail come before a seq, up to a limit."""
        count: int = self._engine.value(SQL["count_broadcasts"], (agent, before_seq, limit))
        return count

    def read_states(
        self, seq: int, type: str, sender: str, recipient: str | None
    ) -> list[tuple[str, str]]:
        """Return the readers of a message by name, and its state at each: a `ReadState`."""
        return sorted(self._engine.rows(SQL["read_states"], (seq, type, sender, recipient)))

    def standing(self, agent: str) -> tuple[int, bool, bool, bool]:
        """Return the state of an agent's inbox.

        To be called after its mail was read: mail is noted as passed over before it leaves the log
        unread.

        Returns:
            The agent's position; whether messages to it have failed; whether any are requeued; and
            whether it has said which broadcasts it wants, or received some mail by waiting.

        Raises:
            MailArchived: some of its mail has left the log unread.
        """
        ((position, passed_over, has_deliveries, chooses),) = self._engine.rows(
            SQL["standing"], (agent,)
        )
        if position < passed_over:
            raise MailArchived(agent, position, passed_over, self.discarded_upto())
        if not has_deliveries:
            return position, False, False, chooses
        ((failing, requeued),) = self._engine.rows(SQL["comes_again"], (agent,))
        return position, failing, requeued, chooses

    def discarded_upto(self) -> int:
        """Return the last seq that was discarded from the archive; 0 where nothing was."""
        seq: int | None = self._engine.value(SQL["discarded_upto"])
        return seq or 0

    def acknowledge(self, agent: str, seq: int) -> int | None:
        """Move an agent's cursor to a seq of the log in one step, and return where it is.

        None when nothing was done: there is no such seq, or messages of the agent have failed,
        and an acknowledgement has more to do.
        """
        if not 1 <= seq <= MAX_SEQ:  # SQLite takes no such number
            return None
        rows = self._engine.change(SQL["acknowledge"], (agent, seq, self._engine.now_ms()))
        return int(rows[0][0]) if rows else None

    def pass_over(self, agent: str, last_seq: int) -> None:
        """Note that an agent's mail up to a seq is archived, acknowledged or not."""
        self._engine.change(SQL["pass_over"], (agent, last_seq, self._engine.now_ms()))

    def first_waiting(self, agent: str, *, is_reader: bool) -> int | None:
        """Return the seq of the first message that waits for an agent; None when there is none.

        Args:
            agent: the agent; broadcasts of its own, or that it does not want, don't wait for it.
            is_reader: whether broadcasts wait for it at all.
        """
        statement = SQL["first_waiting" if is_reader else "first_addressed"]
        seq: int | None = self._engine.value(statement, (agent,))
        return seq

    def passed_over(self) -> dict[str, int]:
        """Return when an agent's mail was last archived unread, in epoch ms, by agent."""
        return dict(self._engine.rows(SQL["passed_over"]))

    def join(self, agent: str, *, after_seq: int = 0) -> None:
        """Record an agent as a reader; its cursor stays, and a new cursor is at `after_seq`."""
        self._engine.change(SQL["join"], (agent, after_seq, self._engine.now_ms()))

    def wants(self, agent: str) -> list[str] | None:
        """Return the type patterns of the broadcasts that an agent gets; None for all."""
        text: str | None = self._engine.value(SQL["wants"], (agent,))
        if text is None:
            return None
        import orjson  # a prompt counts what is unread without it

        patterns: list[str] = orjson.loads(text)
        return patterns

    def set_wants(self, agent: str, patterns: Sequence[str] | None) -> None:
        """Store which broadcasts are an agent's mail, by patterns of types; None is all.

        Raises:
            InvalidInput: a pattern is not valid, or has a word between a `*` and a last `>`.
        """
        import orjson  # as above

        from ...schema.message.patterns import TypePattern, check_pattern

        for pattern in patterns or ():
            check_pattern(pattern)
            TypePattern(pattern).as_glob()
        text = None if patterns is None else orjson.dumps(list(patterns)).decode()
        self._engine.change(SQL["set_wants"], (agent, self._engine.now_ms(), text))

    def receive(self, agent: str, seq: int, timeout_s: float | None = None) -> None:
        """Record that an agent got a message by waiting for it, so that it leaves the inbox.

        It writes only the first time. `timeout_s` as for `Engine.write`.
        """
        if not self._engine.value(SQL["is_unreceived"], (agent, seq)):
            return
        with self._engine.write(timeout_s):
            self._engine.rows(SQL["receive"], (agent, seq))
            self._engine.rows(SQL["forget_received"], (agent,))

    def forget(self, agent: str) -> bool:
        """Delete all that is stored of an agent's reading, in the caller's transaction.

        Returns:
            Whether it had a cursor.
        """
        self._engine.rows(SQL["forget_all_received"], (agent,))
        self._engine.rows(SQL["forget_passed_over"], (agent,))
        return bool(self._engine.rows(SQL["forget_cursor"], (agent,)))

    def seen(self) -> dict[str, tuple[int, int]]:
        """Return each reader's cursor, and when it last joined or acknowledged, in epoch ms."""
        return {agent: (seq, at_ms) for agent, seq, at_ms in self._engine.rows(SQL["cursors"])}

    def positions(self) -> dict[str, int]:
        """Return the position of every reader."""
        return {agent: seq for agent, (seq, _) in self.seen().items()}

    def advance(self, agent: str, seq: int) -> int:
        """Move an agent's cursor to `seq`, unless it is further, and return where it is."""
        values = (agent, seq, self._engine.now_ms())
        ((position,),) = self._engine.change(SQL["advance"], values)
        return int(position)
