"""The fields of a message that calls pass on to `Bus.publish`, for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

# The words that a bus is set by, for type checkers.

#: How durable a commit is.
Durability = Literal["normal", "full"]


class SendFields(TypedDict, total=False):
    """The fields of a message that is sent: all but its type, payload, sender and recipient."""

    id: str | None
    correlation_id: str | None
    priority: int
    headers: Mapping[str, object] | None
    payload_ref: str | None
    strict: bool
    wait_s: float


class MessageFields(SendFields, total=False):
    """The same, with the recipient, and the message that it answers."""

    to_agent: str | None
    in_reply_to: str | None
