"""Spans of OpenTelemetry, in processes that use it; W3C trace context in the headers of messages.

A process that wants spans has loaded and configured the SDK. So the SDK is looked up among the
loaded modules, and never loaded here: other processes pay for one lookup.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext

from ..schema.message.draft import TRACE_PARENT, TRACE_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

    from ..schema.message.draft import Draft
    from ..schema.message.message import Message

#: A `traceparent` that W3C calls valid: no version ff, and no number that is zero.
_PARENT = r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"

#: A `tracestate` that is carried on: printable, and as long as W3C asks of all.
_STATE = r"[ -~]{1,512}"

_NOTHING: AbstractContextManager[None] = nullcontext()


def is_used() -> bool:
    """Whether this process makes spans."""
    return "opentelemetry.sdk.trace" in sys.modules


def current_trace() -> dict[str, str]:
    """Return the headers of the current span of this thread or task; {} for none."""
    carrier: dict[str, str] = {}
    if is_used():
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
    return carrier


def given_trace(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the trace context headers among headers; {} when there is no valid context.

    Publishers may write anything into a header.
    """
    parent, state = headers.get(TRACE_PARENT), headers.get(TRACE_STATE)
    if not isinstance(parent, str):
        return {}
    import re  # most messages are of no trace

    if re.fullmatch(_PARENT, parent) is None:
        return {}
    trace = {TRACE_PARENT: parent}
    if isinstance(state, str) and re.fullmatch(_STATE, state):
        trace[TRACE_STATE] = state
    return trace


def child_trace(headers: Mapping[str, object]) -> dict[str, str]:
    """Return the trace context of a step within the trace of some headers: a new span; {} for none.

    Where this process makes spans, and a span of the trace is current, it is that span.
    """
    trace = given_trace(headers)
    if not trace:
        return {}
    parent = trace[TRACE_PARENT]
    current = current_trace().get(TRACE_PARENT, "")
    if current[3:35] != parent[3:35]:
        current = f"{parent[:36]}{os.urandom(8).hex()}{parent[52:]}"
    return trace | {TRACE_PARENT: current}


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


def traced(drafts: Iterable[Draft], trace: Mapping[str, str]) -> list[Draft]:
    """Return messages with a trace context in their headers, unless they have one."""
    from copy import copy

    with_trace = []
    for draft in drafts:
        if trace and TRACE_PARENT not in (draft.headers or {}):
            draft = copy(draft)
            draft.headers = {**(draft.headers or {}), **trace}
        with_trace.append(draft)
    return with_trace


def handling(message: Message, agent: str) -> AbstractContextManager[object]:
    """Return a span for handling a message, in the message's trace.

    Args:
        message: the message.
        agent: the handler: the agent of an inbox, or a worker group.
    """
    if not is_used():
        return _NOTHING
    from opentelemetry.trace import SpanKind

    return _tracer().start_as_current_span(
        f"process {message.type}",
        _context_of(message),
        kind=SpanKind.CONSUMER,
        attributes=_attributes(message, "process", agent),
    )


def claimed(message: Message, queue: str, group: str, at_ms: int) -> None:
    """Make a span for the claim under which a worker group has taken a message from a queue.

    It is a part of the trace that the message belongs to, beside what is then done about it: that
    may happen in a process that makes no spans.
    """
    if not is_used():
        return
    from opentelemetry.trace import SpanKind

    span = _tracer().start_span(
        f"claim {queue}",
        _context_of(message),
        kind=SpanKind.CLIENT,
        attributes=_attributes(message, "receive", group)
        | {"ackbus.queue": queue, "ackbus.claim_token": message.token or 0},
        start_time=at_ms * 1_000_000,
    )
    span.end()


def _context_of(message: Message) -> Context:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract(given_trace(message.headers))


def _attributes(message: Message, operation: str, group: str) -> dict[str, Any]:
    """Return the attributes of a span about a message, by OpenTelemetry's names."""
    return {
        "messaging.system": "ackbus",
        "messaging.operation.type": operation,
        "messaging.destination.name": message.type,
        "messaging.consumer.group.name": group,
        "messaging.message.id": message.id,
        "messaging.message.conversation_id": message.conversation,
        "ackbus.seq": message.seq,
        "ackbus.attempt": message.attempt,
    }


def mark_failed(why: str) -> None:
    """Mark the current span as failed."""
    if is_used():
        from opentelemetry.trace import Status, StatusCode, get_current_span

        get_current_span().set_status(Status(StatusCode.ERROR, why))


def _tracer() -> Tracer:
    from opentelemetry.trace import get_tracer

    return get_tracer("ackbus")
