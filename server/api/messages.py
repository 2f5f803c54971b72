"""Publishing and reading messages."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import Depends, Query, Request, Response

from ...bus import Bus
from ...schema import NotFound
from ..access import needs
from ..principals import Principal, Scope
from ..problems import documented
from ..records import MessageGiven, MessagePage, MessageRecord, ReceiptRecord
from .common import PAGE, After, Limit, TheBus, json_array, json_response, new_router, with_trace

router = new_router("messages")

Reader = Annotated[Principal, Depends(needs(Scope.MESSAGES_RO))]
Writer = Annotated[Principal, Depends(needs(Scope.MESSAGES_RW))]


@router.post(
    "/messages",
    status_code=201,
    responses={
        200: {"model": ReceiptRecord, "description": "It was there already."},
        **documented(401, 403, 409, 413, 422, 429, 503),
    },
)
def publish(
    message: MessageGiven,
    bus: TheBus,
    writer: Writer,
    request: Request,
    response: Response,
    strict: Annotated[bool, Query(description="Refuse a recipient that was never seen.")] = False,
) -> ReceiptRecord:
    """Publish one message. When this returns, it is committed, and waiters are awake.

    Repeating it with the same `id` and content is safe: it returns the first seq, with status 200.
    """
    writer.act_as(message.from_agent)
    warning = _warning(bus, message.to_agent, strict)
    draft = message.draft()
    draft.headers = with_trace(draft.headers, request)
    receipt = bus.log.append([draft])[0]
    if receipt.duplicate:
        response.status_code = 200
    response.headers["Location"] = f"/v1/messages/{receipt.seq}"
    return ReceiptRecord.of(receipt, warning)


def _warning(bus: Bus, recipient: str | None, strict: bool) -> str | None:
    stranger = None if recipient is None else bus.agents.stranger(recipient, repeat=True)
    if stranger is not None and strict:
        raise stranger
    return None if stranger is None else str(stranger)


@router.get("/messages", responses={200: {"model": MessagePage}, **documented(401, 403, 422, 503)})
def read(
    bus: TheBus,
    _: Reader,
    after: After = 0,
    limit: Limit = PAGE,
    type: Annotated[str | None, Query(description="A pattern, like `task.*`.")] = None,
    agent: Annotated[str | None, Query(description="From or to this agent.")] = None,
    conversation: Annotated[str | None, Query(description="Its first message's id.")] = None,
) -> Response:
    """Read messages in order, a page at a time."""
    newest = bus.log.newest_seq()
    found = list(
        islice(
            bus.log.read(
                after_seq=after, upto_seq=newest, type=type, agent=agent, conversation=conversation
            ),
            limit,
        )
    )
    more = len(found) == limit
    body = b'{"messages":%b,"after":%d,"more":%b,"newest_seq":%d}' % (
        json_array(message.to_json() for message in found),
        found[-1].seq if more else max(after, newest),
        b"true" if more else b"false",
        newest,
    )
    return json_response(body)


@router.get(
    "/messages/{key}",
    responses={200: {"model": MessageRecord}, **documented(401, 403, 404, 422, 503)},
)
def show(key: str, bus: TheBus, _: Reader) -> Response:
    """Show one message, by its seq or its id. It never changes."""
    message = bus.get(int(key)) if key.isdecimal() and len(key) < 19 else bus.get(key)
    if message is None:
        raise NotFound(f"no message {key!r}")
    return json_response(message.to_json(), {"ETag": f'"{message.seq}"'} | _FOR_GOOD)


#: How long a client may keep what never changes: a year.
_FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable"}
