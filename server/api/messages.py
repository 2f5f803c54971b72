"""Publishing and reading messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal

import orjson
from fastapi import Header, Path, Query, Response
from pydantic import BaseModel, Field

from ...bus import tracing
from ...bus.local_bus import LocalBus
from ...bus.log.log import find_message
from ...bus.own_answers import answered_before
from ...bus.search.search import Search
from ...schema.errors import InvalidInput, LimitReached, NotFound
from ...schema.message.draft import Draft
from ...schema.message.message import Message
from ...schema.message.names import MAX_SEQ
from ...schema.message.patterns import not_acted_upon
from ...subscribers.overview.trace import read_receipts
from ..access.access import TheClient
from ..records import (
    MAX_BATCH,
    FoundList,
    MessageBody,
    MessageList,
    MessagePage,
    MessageRecord,
    MessagesBody,
    ReceiptList,
    ReceiptRecord,
)
from ..waiting import Waiter, begin_after, in_thread
from .common import (
    PAGE,
    After,
    Limit,
    OfAgent,
    OfConversation,
    OfType,
    TheBus,
    TheKey,
    TheTrace,
    TheWaiter,
    has_tag,
    json_array,
    json_of,
    json_response,
    new_router,
    problems,
    published,
)

# Publishing, as the operations that publish share it.


async def publish_all(
    bus: LocalBus,
    drafts: list[Draft],
    trace: Mapping[str, str],
    response: Response,
    *,
    strict: bool = False,
    waiter: Waiter | None = None,
) -> list[ReceiptRecord]:
    """Publish messages, all or none, for an operation. Waiting for room holds no thread.

    Nothing is published for a client that disconnects before there is room. The response gets the
    status 200 if all were there already, and the place of a message that is alone.

    Args:
        bus, drafts: the messages, and where they are published.
        trace: the trace context of messages that name none.
        response: what the operation answers with.
        strict: refuse a recipient that was never seen.
        waiter: the client that waits for room; None: full queues refuse at once.

    Raises:
        As for `Bus.publish_many`.
    """
    publish = partial(_publish, bus, tracing.traced(drafts, trace), strict)
    receipts = await _in_time(publish, waiter)
    if all(receipt.duplicate for receipt in receipts):
        response.status_code = 200
    if len(receipts) == 1:
        response.headers["Location"] = f"/v1/messages/{receipts[0].seq}"
    return receipts


async def _in_time(
    publish: Callable[[], list[ReceiptRecord]], waiter: Waiter | None
) -> list[ReceiptRecord]:
    """Publish as soon as there is room, as long as the client waits."""
    try:
        return await in_thread(publish)
    except LimitReached as error:
        if waiter is None or not waiter.wait_s:
            raise
        full = error
    async with waiter.patience(), aclosing(waiter.tries()) as tries:
        async for _ in tries:
            try:
                return await in_thread(publish)
            except LimitReached as error:
                full = error
    raise full


def _publish(bus: LocalBus, drafts: list[Draft], strict: bool) -> list[ReceiptRecord]:
    recipients = {draft.to_agent for draft in drafts}
    warnings = {recipient: _warning(bus, recipient, strict) for recipient in recipients}
    parents = bus.log.parents(drafts)
    again = [answered_before(bus, draft, parents) for draft in drafts]
    receipts = bus.log.append(drafts, parents=parents)
    return [
        ReceiptRecord.of(receipt, not_acted_upon(draft.type) or warnings[draft.to_agent] or second)
        for draft, receipt, second in zip(drafts, receipts, again, strict=True)
    ]


def _warning(bus: LocalBus, recipient: str | None, strict: bool) -> str | None:
    if recipient is None:
        return None
    stranger = bus.agents.check_recipient(recipient, strict=strict)
    return None if stranger is None else str(stranger)


router = new_router("messages")

#: The place of a page in a search: the newest seq of the first page, and how many come before.
_CURSOR = re.compile(r"([0-9]{1,18})\+([0-9]{1,9})")


class ReceiptOfReader(BaseModel):
    """The state of a message at one reader."""

    kind: Literal["inbox", "queue"]
    name: str = Field(description="Whose inbox, or which queue.")
    state: str = Field(
        description="`unread`, `acknowledged`, `parked`, `received` (as an answer) or `passed_over`"
        " (archived unread); in a queue the state of its job."
    )


class ReceiptOfReaderList(BaseModel):
    """The state of a message at each of its readers."""

    receipts: list[ReceiptOfReader]


Before = Annotated[
    int | None, Query(ge=1, le=MAX_SEQ, description="Only what comes before this seq.")
]
Strict = Annotated[bool, Query(description="Refuse a recipient that was never seen.")]


@router.post(
    "/messages",
    status_code=201,
    responses=published(ReceiptRecord | ReceiptList, "It was there already."),
)
async def publish(
    message: MessageBody,
    bus: TheBus,
    writer: TheClient,
    trace: TheTrace,
    response: Response,
    waiter: TheWaiter,
    key: TheKey,
    strict: Strict = False,
) -> ReceiptRecord | ReceiptList:
    """Publish one message. When this returns, it is committed, and waiting readers are woken.

    For a list of recipients each gets one, in one conversation, and there is a list of receipts.

    Repeating it with the same `id`, or `Idempotency-Key`, and content is safe: it returns the first
    seq, with status 200.
    It is refused if a queue or inbox that it goes to is still full after `wait_s`.
    """
    drafts = message.drafts(writer, key)
    receipts = await publish_all(bus, drafts, trace, response, strict=strict, waiter=waiter)
    return ReceiptList(receipts=receipts) if isinstance(message.to_agent, list) else receipts[0]


@router.post(
    "/messages/batch",
    status_code=201,
    responses=published(ReceiptList, "All were there already."),
)
async def publish_batch(
    batch: MessagesBody,
    bus: TheBus,
    writer: TheClient,
    trace: TheTrace,
    response: Response,
    waiter: TheWaiter,
    key: TheKey,
    strict: Strict = False,
) -> ReceiptList:
    """Publish messages in one transaction: all of them, or none when one is refused.

    Repeating it is safe where all have ids, or under an `Idempotency-Key`. A message for several
    recipients has a receipt for each.
    """
    drafts = [
        draft
        for number, message in enumerate(batch.messages)
        for draft in message.drafts(writer, key, number)
    ]
    if len(drafts) > MAX_BATCH:
        raise InvalidInput(
            f"{len(drafts)} messages are more than {MAX_BATCH}: publish fewer at once"
        )
    return ReceiptList(
        receipts=await publish_all(bus, drafts, trace, response, strict=strict, waiter=waiter)
    )


@router.get("/messages", response_model=MessagePage, responses=problems(409))
def read_messages(
    bus: TheBus,
    after: After = 0,
    limit: Limit = PAGE,
    type: OfType = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
) -> Response:
    """Read messages in order, a page at a time. Large payloads stay references to their blobs.

    An `after` beyond the end of the log is a conflict: that cursor is of another log.
    """
    return page_of(bus, after, limit, type=type, agent=agent, conversation=conversation)


def page_of(bus: LocalBus, after: int, limit: int, **filters: Any) -> Response:
    """Return a page of the log."""
    begin_after(bus, after, None)
    newest = bus.log.newest_seq()
    read = bus.log.read(after_seq=after, upto_seq=newest, **filters)
    messages = list(islice(read, limit))
    more = len(messages) == limit
    body = b'{"messages":%b,"after":%d,"more":%b,"newest_seq":%d}' % (
        _lines(messages),
        messages[-1].seq if more else newest,
        b"true" if more else b"false",
        newest,
    )
    return json_response(body)


@router.get("/newest", response_model=MessageList, responses=problems())
def newest_messages(
    bus: TheBus,
    before: Before = None,
    limit: Limit = PAGE,
    type: OfType = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
) -> Response:
    """Read the newest messages, or the newest before a seq, the oldest of them first."""
    messages = bus.log.newest(
        limit, before_seq=before, type=type, agent=agent, conversation=conversation
    )
    return json_response(b'{"messages":%b}' % _lines(messages))


def _lines(messages: list[Message]) -> bytes:
    return json_array(message.to_line() for message in messages)


@router.get("/search", response_model=FoundList, responses=problems())
def search_messages(
    bus: TheBus,
    words: Annotated[
        list[str] | None,
        Query(
            min_length=1,
            max_length=20,
            description="A word, a phrase (`disk full`), or a beginning (`migrat*`); repeatable.",
        ),
    ] = None,
    type: OfType = None,
    agent: OfAgent = None,
    conversation: OfConversation = None,
    limit: Limit = 20,
    cursor: Annotated[
        str | None, Query(description="The `next_cursor` of the page before, as it came.")
    ] = None,
) -> Response:
    """Find the messages whose payloads have all these words, the best matches first, by pages.

    What is published meanwhile is in no later page. The first search after many messages indexes
    them, which takes some 20 s for a million.
    """
    if words is None:
        raise InvalidInput("words is missing: give the words to look for, words=disk&words=full")
    upto, skip = _search_cursor(cursor) or (bus.log.newest_seq(), 0)
    hits = Search(bus).find(
        words,
        limit=limit + 1,
        skip=skip,
        upto_seq=upto,
        type=type,
        agent=agent,
        conversation=conversation,
    )
    records = [
        {
            "message": orjson.Fragment(hit.message.to_line()),
            "snippet": hit.snippet,
            "marks": hit.marks,
        }
        for hit in hits[:limit]
    ]
    following = f"{upto}+{skip + limit}" if len(hits) > limit else None
    return json_of({"messages": records, "next_cursor": following})


def _search_cursor(text: str | None) -> tuple[int, int] | None:
    """Return up to which seq a search looks, and how many of its matches come before a page."""
    if text is None:
        return None
    parts = _CURSOR.fullmatch(text)
    if parts is None:
        raise InvalidInput(f"cursor {text[:40]!a} is none: give next_cursor back as it came")
    return int(parts[1]), int(parts[2])


@router.get("/receipts/{key:path}", responses=problems())
def list_receipts(
    key: Annotated[str, Path(min_length=1, description="The seq or id of a message.")],
    bus: TheBus,
) -> ReceiptOfReaderList:
    """List the state of a message at each of its readers: inboxes by name, then queues."""
    receipts = [
        ReceiptOfReader.model_validate(receipt.record()) for receipt in read_receipts(bus, key)
    ]
    return ReceiptOfReaderList(receipts=receipts)


@router.get(
    "/messages/{key:path}",
    response_model=MessageRecord,
    responses={304: {"description": "It is what the client has."}, **problems()},
)
def show_message(
    key: str,
    bus: TheBus,
    if_none_match: Annotated[str | None, Header(description="What the client has.")] = None,
) -> Response:
    """Return one message with its payload, by its seq or its id. It never changes."""
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"no message {key[:255]!r}")
    return tagged(message.to_json(), if_none_match)


def tagged(body: bytes, if_none_match: str | None) -> Response:
    """Return JSON with an entity tag, or 304 to a client that has it.

    The client revalidates each time: the same address may serve another bus some day.
    """
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if has_tag(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    return json_response(body, headers)
