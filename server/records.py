"""The JSON of messages over HTTP: request bodies, and documented responses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import orjson
from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from ..bus import options as bus_words
from ..schema.errors import InvalidInput
from ..schema.message.draft import ABSENT, Draft, parse_priority
from ..schema.message.message import Message, Receipt
from ..schema.message.names import MAX_SEQ
from ..subscribers import options as queue_words
from ..subscribers.jobs.json_records import json_name
from ..subscribers.jobs.outcomes import carried_on
from .access.tokens import Principal

# The header `Idempotency-Key`: it makes the ids of what a request publishes.
#
# A client that repeats a request under its key publishes nothing twice, without ids of its own. A
# key counts within its token and agent: the keys of others are other keys.

HEADER = "Idempotency-Key"

#: A key: printable ASCII, as it is or in the quotes of a structured header.
_KEY = re.compile(r"[!#-~]{1,255}")

#: The prefix of ids that are made of keys.
_PREFIX = "key-"


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """The idempotency key of a request, if it has one.

    Attributes:
        text: the key; None: each message has the id that its body gives, or a new one.
        token: the name of the client's token.
    """

    text: str | None = None
    token: str = ""

    @classmethod
    def parse(cls, header: str | None, token: str) -> IdempotencyKey:
        """Return the key of a header's value.

        Raises:
            InvalidInput: the value is not a key.
        """
        if header is None:
            return cls()
        quoted = len(header) > 1 and header[0] == header[-1] == '"'
        text = header[1:-1] if quoted else header
        if not _KEY.fullmatch(text):
            raise InvalidInput(f"{HEADER} has 1 to 255 printable ASCII characters, no blanks")
        return cls(text, token)

    def id_for(self, agent: str, number: int, own_id: str | None) -> str | None:
        """Return the id of a message.

        Args:
            agent: its sender.
            number: which message of the request it is, from 0.
            own_id: the id that its body gives; it may be the key, or the id that the key makes.

        Raises:
            InvalidInput: the body gives another id.
        """
        if self.text is None:
            return own_id
        parts = orjson.dumps([self.token, agent, self.text, number])
        key_id = _PREFIX + hashlib.sha256(parts).hexdigest()[:40]
        is_key = own_id == self.text and number == 0
        if own_id not in (None, key_id) and not is_key:
            raise InvalidInput(
                f"the body has the id {own_id!a}, and {HEADER} makes another one: give one of both"
            )
        return key_id


# The fields of records, which models take over.

Model = TypeVar("Model", bound=BaseModel)

#: The names in types that the modules of records load for type checkers only.
_WORDS = vars(bus_words) | vars(queue_words) | {"Any": Any, "Message": Message}

#: The names of times, in epoch milliseconds. In JSON they are text; durations are not.
_TIME = re.compile(r"(.*_)?(at|until)_ms")


def types_of(record: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a dataclass."""
    return get_type_hints(record, localns=_WORDS)


def with_fields(added: dict[str, Any]) -> Callable[[type[Model]], type[Model]]:
    """Give a model fields besides its own: types with defaults, as for `create_model`."""

    def add(model: type[Model]) -> type[Model]:
        own = model.model_fields
        others = {name: field for name, field in added.items() if name not in own}
        about: Any = {"__module__": model.__module__, "__doc__": model.__doc__}
        return create_model(model.__name__, __base__=model, **about, **others)

    return add


def with_fields_of(
    record: type[Any], *without: str, omits_none: bool = False, **descriptions: str
) -> Callable[[type[Model]], type[Model]]:
    """Give a response the fields of a record as JSON has them, besides its own.

    Args:
        record: a dataclass.
        without: its fields that JSON does not have.
        omits_none: a field that is None is left out.
        descriptions: of some of the fields.
    """
    added = {}
    for name, kind in types_of(record).items():
        can_be_none = NoneType in get_args(kind)
        if _TIME.fullmatch(name):
            kind = str | None if can_be_none else str
        shown = json_name(name) if kind in (str, str | None) else name  # durations say their unit
        default = None if omits_none and can_be_none else ...
        if name not in without:
            added[shown] = (kind, Field(default, description=descriptions.get(shown)))
    assert descriptions.keys() <= added.keys()
    return with_fields(added)


#: Names, as far as a schema can express their rule.
Name = Annotated[str, Field(min_length=1, max_length=128)]
Type = Annotated[str, Field(min_length=1, max_length=255)]
Id = Annotated[str, Field(min_length=1, max_length=255)]
Seq = Annotated[int, Field(ge=1, le=MAX_SEQ)]
Token = Annotated[int, Field(ge=1, le=MAX_SEQ)]
#: In descriptions: the default of a field that names the acting agent.
DEFAULT_AGENT_TEXT = "left out: the agent that the token is bound to"


def _one_or_several(recipients: Any) -> Any:
    """Refuse a wrong type in one line: pydantic would report an error for each accepted form."""
    if recipients is None or isinstance(recipients, str):
        return recipients
    if isinstance(recipients, list) and all(isinstance(name, str) for name in recipients):
        return recipients
    raise PydanticCustomError("recipients", "it must be a name, or a list of names")


#: One recipient, or several, of which each gets a message; the draft checks the names.
Recipients = Annotated[str | list[str] | None, BeforeValidator(_one_or_several)]
PriorityGiven = Literal["interactive", "normal", "background"]

#: The most messages that one request publishes.
MAX_BATCH = 10_000
#: The most seqs, paths, patterns or replies in one request.
MAX_ENTRIES = 1000

Seqs = Annotated[list[Seq], Field(min_length=1, max_length=MAX_ENTRIES)]


class RequestBody(BaseModel):
    """A request body: unknown fields are refused, and values are never converted."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, body: Any) -> Any:
        """Refuse the first unknown field: for a million pydantic would make a million errors."""
        if isinstance(body, dict):
            fields = {field.alias or name: field for name, field in cls.model_fields.items()}
            others = {name for field in fields.values() for name in _other_names(field)}
            unknown = next((name for name in body if name not in fields.keys() | others), None)
            if unknown is not None:
                raise PydanticCustomError(
                    "extra_forbidden",
                    "there is no field {name}; it takes {names}",
                    {"name": ascii(unknown[:80]), "names": ", ".join(fields) or "none"},
                )
        return body


def _other_names(field: FieldInfo) -> list[str]:
    """Return the alternative names of a field; none where it has only its own."""
    names = field.validation_alias
    return [str(name) for name in names.choices] if isinstance(names, AliasChoices) else []


class MessageBody(RequestBody):
    """A message to be published: the fields of a line of `bus.jsonl`."""

    type: Type = Field(description="Its routing word.", examples=["task.done"])
    from_agent: Name | None = Field(
        None, alias="from", description=f"The sender; {DEFAULT_AGENT_TEXT}.", examples=["lead"]
    )
    to_agent: Recipients = Field(
        None, alias="to", description="The recipient, or a list: a message for each. None: all."
    )
    payload: Any = Field(None, description="Any JSON value; left out: a message without one.")
    payload_ref: str | None = Field(None, description="The name of a blob, instead of `payload`.")
    id: Id | None = Field(None, description="Publishing it again then stores nothing.")
    in_reply_to: Id | None = Field(None, description="The id of the message that it answers.")
    conversation: Id | None = Field(
        None,
        validation_alias=AliasChoices("conversation", "correlation_id"),
        description="Its conversation; also as `correlation_id`, its name in a line.",
    )
    priority: PriorityGiven = Field("normal", description="How urgent it is.")
    headers: dict[str, Any] | None = Field(None, description="Metadata.")

    def drafts(self, principal: Principal, key: IdempotencyKey, number: int = 0) -> list[Draft]:
        """Return the message for each recipient, from a sender that the principal may act as.

        Args:
            principal: the client.
            key: the key of its request.
            number: which message of the request this is, from 0.
        """
        principal.check_may_send(self.type)
        sender = principal.act_as(self.from_agent, "from")
        draft = Draft(
            self.type,
            self.payload if "payload" in self.model_fields_set else ABSENT,
            from_agent=sender,
            id=key.id_for(sender, number, self.id),
            in_reply_to=self.in_reply_to,
            correlation_id=self.conversation,
            priority=parse_priority(self.priority),
            headers=self.headers,
            payload_ref=self.payload_ref,
        )
        return _to_each(draft, self.to_agent)


class MessagesBody(RequestBody):
    """Messages to be published together."""

    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=MAX_BATCH)]


class ReplyBody(RequestBody):
    """A reply to a message; it goes to that message's sender unless `to` says otherwise."""

    type: Type = Field(description="Its routing word.", examples=["task.done"])
    to_agent: Recipients = Field(None, alias="to", description="One, or a list. Null: all.")
    payload: Any = Field(None, description="Any JSON value.")
    payload_ref: str | None = Field(None, description="The name of a blob, instead of `payload`.")
    id: Id | None = Field(None, description="Its identity.")
    headers: dict[str, Any] | None = Field(None, description="Metadata.")

    def drafts(
        self, message: Message, sender: str, principal: Principal, key: IdempotencyKey, number: int
    ) -> list[Draft]:
        """Return the reply to each recipient, in the message's conversation and trace."""
        principal.check_may_send(self.type)
        fields_set = self.model_fields_set
        headers = carried_on(message) | (self.headers or {})
        draft = Draft(
            self.type,
            self.payload if "payload" in fields_set else ABSENT,
            from_agent=sender,
            id=key.id_for(sender, number, self.id),
            in_reply_to=message.id,
            correlation_id=message.conversation,
            priority=message.priority,
            headers=headers or None,
            payload_ref=self.payload_ref,
        )
        return _to_each(draft, self.to_agent if "to_agent" in fields_set else message.from_agent)


def reply_drafts(
    replies: Iterable[ReplyBody],
    message: Message,
    sender: str,
    principal: Principal,
    key: IdempotencyKey,
) -> list[Draft]:
    """Return the replies to a message, each to its recipients."""
    return [
        draft
        for number, reply in enumerate(replies)
        for draft in reply.drafts(message, sender, principal, key, number)
    ]


def _to_each(draft: Draft, to: str | list[str] | None) -> list[Draft]:
    """Return a draft for each recipient; without one it is a broadcast."""
    if isinstance(to, list):
        return draft.to_each(to)
    draft.to_agent = to
    return [draft]


class ReceiptRecord(BaseModel):
    """The receipt of a published message."""

    seq: int = Field(description="Its place in the log.")
    id: str = Field(description="Its identity.")
    duplicate: bool = Field(description="It was there already, and nothing was stored.")
    warning: str | None = Field(None, description="The recipient was never seen, for instance.")

    @classmethod
    def of(cls, receipt: Receipt, warning: str | None) -> ReceiptRecord:
        """Return the record of a receipt."""
        return cls(seq=receipt.seq, id=receipt.id, duplicate=receipt.duplicate, warning=warning)


class ReceiptList(BaseModel):
    """The receipts of published messages, in their order."""

    receipts: list[ReceiptRecord]


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
    payload_error: str | None = Field(
        None, description="Why it has no payload: `decode_failed` for a blob that is not JSON."
    )


class MessageList(BaseModel):
    """Messages in order. The name of a blob stands in place of a large payload."""

    messages: list[MessageRecord]


class MessagePage(MessageList):
    """Messages in order, and how to go on."""

    after: int = Field(description="Ask for the next page with `after` set to this.")
    more: bool = Field(description="Whether there may be more at this moment.")
    newest_seq: int = Field(description="The newest seq of the log.")


class FoundMessage(BaseModel):
    """A message that a search found."""

    message: MessageRecord
    snippet: str = Field(description="A passage of its payload with the words in it.")
    marks: list[list[int]] = Field(description="Where they are in it: begin and end.")


class FoundList(BaseModel):
    """The messages that a search found, the best first."""

    messages: list[FoundMessage]
    next_cursor: str | None = Field(description="For the next page; null: this is the last.")
