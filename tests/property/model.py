"""The promises of the bus, in plain Python: a list of messages, cursors, and leases by name."""

import json
from dataclasses import dataclass, field

from ackbus import ABSENT, Draft

#: Failed deliveries after which the inboxes of the machine park a message.
MAX_DELIVERIES = 2


@dataclass
class Stored:
    """A message of the log."""

    seq: int
    id: str
    from_agent: str
    to_agent: str | None
    type: str
    correlation_id: str | None
    in_reply_to: str | None
    priority: int
    payload: str | None
    headers: str

    def same_content(self, other: "Stored") -> bool:
        return {**vars(self), "seq": 0} == {**vars(other), "seq": 0}


@dataclass
class View:
    """One agent's inbox: its cursor, and what became of the messages that failed."""

    cursor: int = 0
    failing: dict[int, int] = field(default_factory=dict)
    requeued: dict[int, int] = field(default_factory=dict)
    parked: dict[int, int] = field(default_factory=dict)
    completed: set[str] = field(default_factory=set)

    def acknowledge(self, seq: int) -> None:
        self.cursor = max(self.cursor, seq)
        self.requeued.pop(seq, None)
        self.failing = {failed: count for failed, count in self.failing.items() if failed > seq}

    def fail(self, seq: int) -> bool:
        """Count a failure; say whether the message is parked now."""
        book = self.requeued if seq in self.requeued else self.failing
        book[seq] = book.get(seq, 0) + 1
        if book[seq] < MAX_DELIVERIES:
            return False
        self.parked[seq] = book.pop(seq)
        self.cursor = max(self.cursor, seq)
        return True


@dataclass
class Log:
    """The messages, and what would become of a draft."""

    messages: list[Stored] = field(default_factory=list)

    def by_id(self, id: str) -> Stored | None:
        return next((message for message in self.messages if message.id == id), None)

    def row(self, draft: Draft, id: str) -> Stored:
        """The row that publishing a draft whose parent is in the log would store."""
        parent = draft.in_reply_to and self.by_id(draft.in_reply_to)
        conversation = draft.correlation_id
        if parent and conversation is None:
            conversation = parent.correlation_id or parent.id
        return Stored(
            seq=len(self.messages) + 1,
            id=id,
            from_agent=draft.from_agent,
            to_agent=draft.to_agent,
            type=draft.type,
            correlation_id=conversation,
            in_reply_to=draft.in_reply_to,
            priority=draft.priority,
            payload=None if draft.payload is ABSENT else canonical(draft.payload),
            headers=canonical(dict(draft.headers or {})),
        )

    def waiting(self, agent: str, view: View, type: str | None = None) -> list[int]:
        """The seqs that a poll without a limit returns."""
        return [
            message.seq
            for message in self.messages
            if (message.seq > view.cursor or message.seq in view.requeued)
            and (
                message.to_agent == agent
                or (message.to_agent is None and message.from_agent != agent)  # no own broadcasts
            )
            and (type is None or message.type == type)
        ]


def canonical(value: object) -> str:
    """Text that is equal for equal JSON values, and tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)
