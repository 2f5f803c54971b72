"""Publishing, as the operations that publish share it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

import anyio

from ...bus import Bus, tracing
from ...schema import Draft, LimitReached
from ..records import ReceiptRecord
from ..threads import in_thread

#: How often a publisher that waits for room tries again, in seconds: what makes room rings no bell.
_TRY_EVERY_S = 0.05


async def publish_all(
    bus: Bus,
    drafts: list[Draft],
    trace: Mapping[str, str],
    *,
    strict: bool = False,
    wait_s: float = 0,
) -> list[ReceiptRecord]:
    """Publish messages, all or none. Who waits for room holds no thread meanwhile.

    Args:
        bus, drafts: what is published, and where.
        trace: the trace context of messages that name none.
        strict: refuse a recipient that was never seen.
        wait_s: how long to wait for room, in seconds.

    Raises:
        As for `Bus.publish_many`.
    """
    drafts = tracing.traced(drafts, trace)
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return await in_thread(partial(_publish, bus, drafts, strict))
        except LimitReached:
            if time.monotonic() >= deadline:
                raise
        await anyio.sleep(_TRY_EVERY_S)


def _publish(bus: Bus, drafts: list[Draft], strict: bool) -> list[ReceiptRecord]:
    recipients = {draft.to_agent for draft in drafts}
    warnings = {recipient: _warning(bus, recipient, strict) for recipient in recipients}
    receipts = bus.log.append(drafts)
    return [
        ReceiptRecord.of(receipt, warnings[draft.to_agent])
        for draft, receipt in zip(drafts, receipts, strict=True)
    ]


def _warning(bus: Bus, recipient: str | None, strict: bool) -> str | None:
    stranger = None if recipient is None else bus.agents.stranger(recipient, repeat=True)
    if stranger is not None and strict:
        raise stranger
    return None if stranger is None else str(stranger)
