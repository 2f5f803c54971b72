"""The state of tasks as the sum of their messages: what the log shows, which proves nothing.

A message counts when its attempt and its token go on from what came before it. Others are returned
for people to look at. Anybody can write one that counts; so a row of the table is never made equal
to this sum (`difference`).
"""

from __future__ import annotations

from dataclasses import fields, replace

from ..records.task import FINAL, Blocked, Task
from .messages import ANSWER, BLOCKED, STATE_CHANGE, TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ...schema.message.message import Message

#: The next state of each, but for the ends that are open from all that are not final.
NEXT = {
    "ASSIGNED": "WORKING",
    "WORKING": "IN_REVIEW",
    "IN_REVIEW": "APPROVED",
    "APPROVED": "COMPLETED",
}


class Fold:
    """The tasks as the messages given so far make them.

    Attributes:
        tasks: by name.
        foreign: the messages that did not count.
    """

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.foreign: list[Message] = []

    def add(self, message: Message) -> None:
        """Take in the next message, in the order of the log; other types are left out."""
        if message.type not in (STATE_CHANGE, BLOCKED, ANSWER):
            return
        payload = message.payload
        after = self._after(message, payload) if isinstance(payload, dict) else None
        if after is None:
            self.foreign.append(message)
        else:
            self.tasks[after.task] = after

    def add_all(self, messages: Iterable[Message]) -> Fold:
        """Take in messages, and return this."""
        for message in messages:
            self.add(message)
        return self

    def _after(self, message: Message, payload: dict[str, Any]) -> Task | None:
        name = payload.get("task")
        before = self.tasks.get(name) if isinstance(name, str) else None
        try:
            if message.type == STATE_CHANGE:
                return _changed(before, message, payload)
            if before is None or not _goes_on(before, payload):
                return None
            if message.type == BLOCKED:
                return _blocked(before, message, payload)
            return _answered(before, message, payload)
        except (KeyError, TypeError, ValueError):
            return None


def fold(messages: Iterable[Message]) -> Fold:
    """Return the tasks that messages of the log make, given in its order."""
    return Fold().add_all(messages)


def is_step(before: str, after: str) -> bool:
    """Whether a state follows another within an attempt."""
    return NEXT.get(before) == after or (before not in FINAL and after in ("CANCELLED", "FAILED"))


def _changed(before: Task | None, message: Message, payload: dict[str, Any]) -> Task | None:
    if message.to_agent != TASKS:
        return None
    if payload["from"] is None:
        return _begun(before, message, payload)
    if before is None or not _goes_on(before, payload):
        return None
    if payload["from"] != before.state or not is_step(before.state, payload["to"]):
        return None
    return replace(
        before,
        state=payload["to"],
        worker=payload["worker"],
        token=payload["token"],
        reason=payload["reason"],
        head=payload["head"],
        commit_id=payload["commit"],
        blocked=None,
        last_seq=message.seq,
        changed_at_ms=message.ts_ms,
    )


def _begun(before: Task | None, message: Message, payload: dict[str, Any]) -> Task | None:
    """Return the task of a first message, or its next attempt."""
    if payload["to"] != "ASSIGNED":
        return None
    if before is None:
        return _from_record(message, payload) if payload["attempt"] == 1 else None
    if before.state != "FAILED" or payload["attempt"] != before.attempt + 1:
        return None
    return replace(
        before,
        attempt=payload["attempt"],
        state="ASSIGNED",
        reason=payload["reason"],
        head=None,
        last_seq=message.seq,
        changed_at_ms=message.ts_ms,
    )


def _from_record(message: Message, payload: dict[str, Any]) -> Task:
    record = payload["record"]
    known = {each.name: record[each.name] for each in fields(Task) if each.name in record}
    known["depends_on"] = tuple(known["depends_on"])
    return Task(
        **known,
        attempt=1,
        state="ASSIGNED",
        token=payload["token"],
        head=None,
        reason=None,
        blocked=None,
        commit_id=None,
        correlation_id=message.conversation,
        last_seq=message.seq,
        created_at_ms=message.ts_ms,
        changed_at_ms=message.ts_ms,
        cleaned_at_ms=None,
    )


def _blocked(before: Task, message: Message, payload: dict[str, Any]) -> Task | None:
    if before.state != "WORKING":
        return None
    asked = Blocked(payload["question"], payload["reason"], message.ts_ms, payload["deadline_ms"])
    return replace(before, blocked=asked, changed_at_ms=message.ts_ms)


def _answered(before: Task, message: Message, payload: dict[str, Any]) -> Task | None:
    if before.blocked is None:
        return None
    return replace(before, blocked=None, token=payload["token"], changed_at_ms=message.ts_ms)


def _goes_on(before: Task, payload: dict[str, Any]) -> bool:
    return bool(payload["attempt"] == before.attempt and payload["token"] >= before.token)
