"""The JSON of messages over HTTP: what is taken in, and what is documented to come out."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ..schema import ABSENT, Draft, Receipt, parse_priority


class Given(BaseModel):
    """A body that a client sends: nothing in it is ignored."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class MessageGiven(Given):
    """A message to be published: the fields of a line of `bus.jsonl`."""

    type: str = Field(description="Its routing word.", examples=["task.done"])
    from_agent: str = Field(alias="from", description="Who sends.", examples=["lead"])
    to_agent: str | None = Field(None, alias="to", description="Who is to receive; none: all.")
    payload: Any = Field(None, description="Any JSON value; left out: a message without one.")
    payload_ref: str | None = Field(None, description="The name of a blob, instead of `payload`.")
    id: str | None = Field(None, description="Publishing it again then stores nothing.")
    in_reply_to: str | None = Field(None, description="The id of the message that it answers.")
    correlation_id: str | None = Field(None, description="Its conversation.")
    priority: str | int = Field("normal", description="interactive, normal or background; 0 to 2.")
    headers: dict[str, Any] | None = Field(None, description="Metadata.")

    def draft(self) -> Draft:
        """Return the message as the library takes it."""
        return Draft(
            self.type,
            self.payload if "payload" in self.model_fields_set else ABSENT,
            from_agent=self.from_agent,
            to_agent=self.to_agent,
            id=self.id,
            in_reply_to=self.in_reply_to,
            correlation_id=self.correlation_id,
            priority=parse_priority(self.priority),
            headers=self.headers,
            payload_ref=self.payload_ref,
        )


class ReceiptRecord(BaseModel):
    """What publishing returns."""

    seq: int = Field(description="Its place in the log.")
    id: str = Field(description="Its identity.")
    duplicate: bool = Field(description="It was there already, and nothing was stored.")
    warning: str | None = Field(None, description="The recipient was never seen, for instance.")

    @classmethod
    def of(cls, receipt: Receipt, warning: str | None) -> ReceiptRecord:
        """Return the record of a receipt."""
        return cls(seq=receipt.seq, id=receipt.id, duplicate=receipt.duplicate, warning=warning)


class MessageRecord(BaseModel):
    """A stored message: the object that `bus read --json` prints."""

    model_config = ConfigDict(extra="allow")

    seq: int
    id: str
    ts: str = Field(description="When it was published (RFC 3339, UTC).")
    from_agent: str = Field(alias="from")
    to: str | None = None
    type: str
    correlation_id: str | None = None
    in_reply_to: str | None = None
    priority: str | None = None
    headers: dict[str, Any] | None = None
    payload: Any = None
    payload_ref: str | None = None
    payload_error: str | None = Field(None, description="Why the payload can't be had.")


class MessagePage(BaseModel):
    """Messages in order, and how to go on."""

    messages: list[MessageRecord]
    after: int = Field(description="Ask for the next page with `after` set to this.")
    more: bool = Field(description="Whether there may be more at this moment.")
    newest_seq: int = Field(description="The newest seq of the log.")
