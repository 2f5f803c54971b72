"""Heartbeats: one row for each agent."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from enum import StrEnum

from ..schema.arguments import with_checked_arguments
from ..schema.errors import InvalidInput
from ..schema.message.names import check_agent
from ..schema.message.times import format_ts
from ..schema.process_table import is_gone
from ..schema.queries import Table
from .statements import SQL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How often an agent's heart beats, in seconds.
BEAT_INTERVAL_S = 10.0

#: The ages, in seconds, from which an agent is taken for warn, stale and dead.
WARN_AFTER_S, STALE_AFTER_S, DEAD_AFTER_S = 30, 100, 300

#: The statuses of an agent that stopped in good order: it is not expected to beat.
STOPPED, OFFLINE = "stopped", "offline"

#: The entry of `meta` that names the processes whose hearts beat for an agent.
_HEARTS = "hearts of "

#: At most so many processes are named there: with more, the agent's life goes by time alone.
_MAX_PROCESSES = 64

_MAX_STATUS_CHARS = 64
_MAX_TASK_CHARS = 512

#: Words of other systems for the same status.
_ALIASES = {"busy": "working"}


class Liveness(StrEnum):
    """The liveness of an agent, by its last beat and the processes whose hearts beat for it."""

    ALIVE = "alive"
    WARN = "warn"
    STALE = "stale"
    DEAD = "dead"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last beat of one agent.

    Attributes:
        agent: its name.
        ts_ms: when it beat, in epoch milliseconds.
        status: `idle`, `working`, `blocked`, `stopped`, `offline`, or a word of its own.
        task: its current task, or None.
        progress: the progress of its task, by its own measure (usually 0 to 1), or None.
        pid: the process that beat, or None.
        age_s: seconds since the beat when it was read; never negative.
        liveness: the meaning of that age; `dead` as soon as the processes whose hearts beat for
            it have ended, if they ran on this machine.
    """

    agent: str
    ts_ms: int
    status: str
    task: str | None
    progress: float | None
    pid: int | None
    age_s: float
    liveness: Liveness

    def record(self) -> dict[str, Any]:
        """Return its JSON object."""
        return {
            "agent": self.agent,
            "liveness": self.liveness.value,
            "status": self.status,
            "task": self.task,
            "progress": self.progress,
            "pid": self.pid,
            "beat": format_ts(self.ts_ms),
            "age_s": round(self.age_s, 1),
        }


@with_checked_arguments
class Heartbeats(Table):
    """The heartbeats of a bus: the table `heartbeats`."""

    def beat(
        self,
        agent: str,
        status: str = "idle",
        *,
        task: str | None = None,
        progress: float | None = None,
        pid: int | None = None,
        is_here: bool = True,
        process: str | None = None,
    ) -> None:
        """Write a beat of an agent in the place of its last beat. Safe to repeat.

        Args:
            agent, status, task, progress: as for `Heartbeat`.
            pid: its process; None: this process.
            is_here: whether it is a process of this machine; else none is noted unless it is given.
            process: for a heart, which beats as long as its process runs: `str` of the `Process`.
                With its end the agent is dead, and not only when the beat is old.

        Raises:
            InvalidInput: a field breaks a rule.
        """
        status = check_status(agent, status, task, progress)
        pid = pid or (os.getpid() if is_here else None)
        row = (agent, self._engine.now_ms(), status, task, progress, pid)
        if process is None:
            self._engine.change(SQL["beat"], row)
            return
        with self._engine.write():
            self._engine.change(SQL["beat"], row)
            self._note_process(agent, row[1], process, has_ended=status in (STOPPED, OFFLINE))

    def _note_process(self, agent: str, now_ms: int, process: str, *, has_ended: bool) -> None:
        """Note the process of a beat beside those that beat lately, in the caller's transaction."""
        hearts = self._engine.value(SQL["hearts"], (_HEARTS + agent,))
        recent = {
            other: ts_ms
            for ts_ms, other in _hearts(hearts)
            if other != process and not is_gone(other) and abs(now_ms - ts_ms) < DEAD_AFTER_S * 1000
        }
        lines = [f"{now_ms} {process}"] * (not has_ended)
        lines += [f"{ts_ms} {other}" for other, ts_ms in recent.items()]
        if lines:
            text = "\n".join(lines[: _MAX_PROCESSES + 1])
            self._engine.change(SQL["note_hearts"], (_HEARTS + agent, text))
        else:
            self._engine.change(SQL["forget_hearts"], (_HEARTS + agent,))

    def mark(self, agent: str, status: str) -> None:
        """Change the status of an agent's last beat, and its task: what others found out of it.

        It is no beat. Nothing changes for an agent that never beat.

        Raises:
            InvalidInput: the status breaks a rule.
        """
        self._engine.change(SQL["mark"], (check_status(agent, status, None, None), agent))

    def forget(self, agent: str) -> bool:
        """Delete an agent's last beat, and return whether there was a beat."""
        with self._engine.write():
            self._engine.change(SQL["forget_hearts"], (_HEARTS + agent,))
            return bool(self._engine.change(SQL["forget_heartbeat"], (agent,)))

    def get(self, agent: str) -> Heartbeat | None:
        """Return an agent's last beat, or None if it never beat."""
        row = self._engine.row(SQL["heartbeat"], (agent,))
        return None if row is None else self._heartbeat(row)

    def list(self, *, older_than_s: float = 0) -> list[Heartbeat]:
        """Return the last beat of every agent, by name.

        Args:
            older_than_s: only beats of at least this age: 30 lists the agents to worry about.
        """
        beats = map(self._heartbeat, self._engine.rows(SQL["heartbeats"]))
        return [beat for beat in beats if beat.age_s >= older_than_s]

    def _heartbeat(
        self, row: tuple[str, int, str, str | None, float | None, int | None, bytes | None]
    ) -> Heartbeat:
        _, ts_ms, status, _, _, _, hearts = row
        age_s = (self._engine.now_ms() - ts_ms) / 1000
        if age_s < 0:  # a beat comes every 10 s: one that far ahead is of a wrong clock
            age_s = -age_s if -age_s >= WARN_AFTER_S else 0.0
        liveness = _liveness(status, age_s)
        if liveness is not Liveness.STOPPED and _have_ended(hearts, ts_ms):
            liveness = Liveness.DEAD
        return Heartbeat(*row[:6], age_s, liveness)


def check_status(agent: str, status: str, task: str | None, progress: float | None) -> str:
    """Check the fields of a beat, and return the status in this project's words.

    Raises:
        InvalidInput: a field breaks a rule.
    """
    check_agent(agent)
    if not 0 < len(status) <= _MAX_STATUS_CHARS or not status.isprintable():
        raise InvalidInput(f"a status is 1 to {_MAX_STATUS_CHARS} printable characters")
    if task is not None and (len(task) > _MAX_TASK_CHARS or not task.isprintable()):
        raise InvalidInput(f"a task is at most {_MAX_TASK_CHARS} printable characters")
    if progress is not None and not math.isfinite(progress):
        raise InvalidInput("progress must be a finite number")
    return _ALIASES.get(status, status)


def _liveness(status: str, age_s: float) -> Liveness:
    if status in (STOPPED, OFFLINE):
        return Liveness.STOPPED
    if age_s >= DEAD_AFTER_S:
        return Liveness.DEAD
    if age_s >= STALE_AFTER_S:
        return Liveness.STALE
    return Liveness.WARN if age_s >= WARN_AFTER_S else Liveness.ALIVE


def _hearts(text: bytes | None) -> list[tuple[int, str]]:
    """Return the times of beats, and the processes, that an entry names; anybody may write one."""
    pairs = (line.split(" ", 1) for line in (text or b"").decode("ascii", "replace").split("\n"))
    return [
        (int(words[0]), words[1])
        for words in pairs
        if len(words) == 2 and words[0].isdigit() and len(words[0]) < 16
    ]


def _have_ended(text: bytes | None, ts_ms: int) -> bool:
    """Whether all processes that beat for an agent were seen to end.

    An entry counts only for the very beat that it was written with: after a beat by other means,
    as by plain SQL, what it says of the former one makes nobody dead.
    """
    hearts = _hearts(text)
    is_of_beat = 0 < len(hearts) <= _MAX_PROCESSES and hearts[0][0] == ts_ms
    return is_of_beat and all(is_gone(process) for _, process in hearts)
