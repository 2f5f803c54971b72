"""The data of pictures: the newest messages as arrows, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import orjson

from ...schema.errors import BlobMissing, InvalidInput
from ...schema.message.times import format_ts
from .words import EVERYBODY, counted, cut, plain, plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...blobs.store import BlobStore
    from ...schema.message.message import Message

#: How much of a payload an arrow carries, in characters: the text shown on hovering.
TEXT_CHARS = 400

#: Payloads in larger blobs, in bytes, are not read for a picture, which shows their size.
MAX_BLOB_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message as pictures show it.

    Attributes:
        seq, id, ts_ms, type: the message's.
        sender: its sender.
        recipient: its recipient; None stands for all.
        text: the first words of the payload, as one line; empty when there is none.
        is_reply: whether it answers another message.
    """

    seq: int
    id: str
    ts_ms: int
    sender: str
    recipient: str | None
    type: str
    text: str = ""
    is_reply: bool = False

    @classmethod
    def of(cls, message: Message, blobs: BlobStore) -> Arrow:
        """Return the arrow of a message. Reads its payload, unless that is a large blob."""
        return cls(
            message.seq,
            plain(message.id),
            message.ts_ms,
            plain_name(message.from_agent),
            None if message.to_agent is None else plain_name(message.to_agent),
            plain(message.type),
            _text(message, blobs),
            message.in_reply_to is not None,
        )

    @property
    def route(self) -> str:
        """The sender and the recipient."""
        return f"{self.sender} → {self.recipient or EVERYBODY}"

    @property
    def story(self) -> str:
        """All that the picture knows of it, for hovering."""
        head = f"#{self.seq} {self.type}, {self.route}, {format_ts(self.ts_ms)}"
        return f"{head}\n{self.text}" if self.text else head

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        record: dict[str, object] = {
            "seq": self.seq,
            "id": self.id,
            "ts": format_ts(self.ts_ms),
            "from": self.sender,
            "to": self.recipient,
            "type": self.type,
            "reply": self.is_reply,
            "text": self.text,
        }
        return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The messages of a picture.

    Attributes:
        arrows: the newest of them, in order.
        total: how many there were; more than `arrows` when the older ones are left out.
    """

    arrows: tuple[Arrow, ...]
    total: int

    @classmethod
    def of(cls, messages: Iterable[Message], blobs: BlobStore, *, limit: int) -> Traffic:
        """Return the newest `limit` of some messages; no more than that is held in memory."""
        newest: deque[Message] = deque(maxlen=limit)
        total = 0
        for total, message in enumerate(messages, 1):  # noqa: B007
            newest.append(message)
        return cls(tuple(Arrow.of(message, blobs) for message in newest), total)

    @property
    def agents(self) -> list[str]:
        """All senders and recipients, in order of appearance."""
        names = (name for arrow in self.arrows for name in (arrow.sender, arrow.recipient))
        return list(dict.fromkeys(name for name in names if name is not None))

    @property
    def lanes(self) -> list[str | None]:
        """The agents, and None at the end if there are broadcasts."""
        return lanes(self.agents, any(arrow.recipient is None for arrow in self.arrows))

    @property
    def is_cut(self) -> bool:
        """Whether older messages are left out."""
        return self.total > len(self.arrows)

    @property
    def extent(self) -> str:
        """The number of messages shown, and of all if some are left out."""
        if not self.is_cut:
            return counted(self.total, "message")
        return f"the newest {len(self.arrows):,} of {counted(self.total, 'message')}"

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        messages = [arrow.record() for arrow in self.arrows]
        return {"agents": self.agents, "total": self.total, "messages": messages}


def lanes(agents: list[str], everybody: bool) -> list[str | None]:
    """Return the lanes of a picture: agents, and None for broadcasts."""
    return [*agents, None] if everybody else [*agents]


def _text(message: Message, blobs: BlobStore) -> str:
    """Return the first words of a payload, or a note in their place."""
    size = _blob_size(message.payload_ref, blobs)
    if size > MAX_BLOB_BYTES:
        return f"[blob, {counted(size, 'byte')}]"
    if message.payload_error is not None:
        return f"[{message.payload_error}]"
    if not message.has_payload:
        return ""
    payload = message.payload
    text = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
    # Spaces may shrink to nothing: some more is taken than is shown, and never all of a large one.
    return cut(plain(text[: TEXT_CHARS * 4]), TEXT_CHARS)


def _blob_size(ref: str | None, blobs: BlobStore) -> int:
    """Return how large the blob of a payload is; 0 where there is none, whatever the reason."""
    try:
        return 0 if ref is None else blobs.size(ref)
    except (BlobMissing, InvalidInput):  # the message itself tells of it
        return 0
