"""Publishing, as the operations that publish share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import aclosing
from functools import partial

from fastapi import Response

from ...bus import tracing
from ...bus.bus import Bus
from ...bus.own_answers import answered_before
from ...schema.errors import LimitReached
from ...schema.message.acted_types import not_acted_upon
from ...schema.message.draft import Draft
from ..records import ReceiptRecord
from ..threads import in_thread
from ..waiting import Waiter


async def publish_all(
    bus: Bus,
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


def _publish(bus: Bus, drafts: list[Draft], strict: bool) -> list[ReceiptRecord]:
    recipients = {draft.to_agent for draft in drafts}
    warnings = {recipient: _warning(bus, recipient, strict) for recipient in recipients}
    again = [answered_before(bus, draft) for draft in drafts]
    receipts = bus.log.append(drafts)
    return [
        ReceiptRecord.of(receipt, not_acted_upon(draft.type) or warnings[draft.to_agent] or second)
        for draft, receipt, second in zip(drafts, receipts, again, strict=True)
    ]


def _warning(bus: Bus, recipient: str | None, strict: bool) -> str | None:
    if recipient is None:
        return None
    stranger = bus.agents.check_recipient(recipient, strict=strict)
    return None if stranger is None else str(stranger)
