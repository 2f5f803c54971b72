"""Spans of OpenTelemetry, in processes that use it; W3C trace context in the headers of messages.

A process that wants spans has loaded the SDK and told it where they go. So it is looked for among
what is loaded, and never loaded here: who has no use for it pays for one look.
"""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext

from ..schema import TRACE_PARENT, TRACE_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from opentelemetry.trace import Tracer

    from ..schema import Draft, Message

_FORM = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

#: The longest `tracestate` that is carried on, in characters: what W3C asks of all.
_MAX_STATE_CHARS = 512

_NOTHING: AbstractContextManager[None] = nullcontext()


def is_used() -> bool:
    """Whether this process makes spans."""
    return "opentelemetry.sdk.trace" in sys.modules


def current_trace() -> dict[str, str]:
    """Return the headers that name the span that is on in this thread or task; {} for none."""
    carrier: dict[str, str] = {}
    if is_used():
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier


def given_trace(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the trace context among headers, names and all; {} when there is none, or no form."""
    parent, state = headers.get(TRACE_PARENT, ""), headers.get(TRACE_STATE, "")
    if not _FORM.fullmatch(parent):
        return {}
    found = {TRACE_PARENT: parent}
    return found | {TRACE_STATE: state} if 0 < len(state) <= _MAX_STATE_CHARS else found


def publishing(drafts: Sequence[Draft]) -> AbstractContextManager[object]:
    """Return a span for storing messages, which become parts of it unless they name another."""
    from opentelemetry.trace import SpanKind

    destination = {draft.type for draft in drafts}
    name = destination.pop() if len(destination) == 1 else "messages"
    attributes: dict[str, Any] = {
        "messaging.system": "ackbus",
        "messaging.operation.type": "send",
        "messaging.destination.name": name,
        "messaging.batch.message_count": len(drafts),
    }
    return _tracer().start_as_current_span(
        f"publish {name}", kind=SpanKind.PRODUCER, attributes=attributes
    )


def traced(drafts: Sequence[Draft]) -> list[Draft]:
    """Return messages with the span that is on in their headers, where they name no other."""
    from copy import copy

    trace = current_trace()
    found = []
    for draft in drafts:
        if trace and TRACE_PARENT not in (draft.headers or {}):
            draft = copy(draft)
            draft.headers = {**(draft.headers or {}), **trace}
        found.append(draft)
    return found


def handling(message: Message, agent: str) -> AbstractContextManager[object]:
    """Return a span for what is done about a message: a part of the trace that it belongs to.

    Args:
        message: which is handled.
        agent: by whom: the agent of an inbox, or a worker group.
    """
    if not is_used():
        return _NOTHING
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers = {name: text for name, text in message.headers.items() if isinstance(text, str)}
    attributes: dict[str, Any] = {
        "messaging.system": "ackbus",
        "messaging.operation.type": "process",
        "messaging.destination.name": message.type,
        "messaging.consumer.group.name": agent,
        "messaging.message.id": message.id,
        "messaging.message.conversation_id": message.conversation,
        "ackbus.seq": message.seq,
        "ackbus.attempt": message.attempt,
    }
    return _tracer().start_as_current_span(
        f"process {message.type}",
        TraceContextTextMapPropagator().extract(headers),
        kind=SpanKind.CONSUMER,
        attributes=attributes,
    )


def mark_failed(why: str) -> None:
    """Say of the span that is on that what it is about failed."""
    if is_used():
        from opentelemetry.trace import Status, StatusCode, get_current_span

        get_current_span().set_status(Status(StatusCode.ERROR, why))


def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    return get_tracer("ackbus")
