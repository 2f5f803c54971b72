"""The environment variables of a command about its message."""

from __future__ import annotations

import os
import re

import orjson

from ...bus import tracing
from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.message.draft import TRACE_PARENT, TRACE_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.message import Message

#: The header whose entries become environment variables, and the prefix of their names.
META, META_PREFIX = "meta", "BUS_META_"


def environment_of(message: Message, bus: Bus, agent: str) -> dict[str, str]:
    """Return the environment of a command that is run for a message.

    It is this process's own, without variables that would look as if they came from the message.

    Args:
        message: what the command is run for.
        bus: where it is from.
        agent: the name under which the command acts.
    """
    told = {
        BUS_DIR_VARIABLE: bus.layout.directory,
        "BUS_AGENT": agent,
        "BUS_MESSAGE_ID": message.id,
        "BUS_MESSAGE_SEQ": str(message.seq),
        "BUS_MESSAGE_TYPE": message.type,
        "BUS_FROM": message.from_agent,
        "BUS_CORRELATION_ID": message.conversation,
    }
    told |= trace_variables(message)
    return _inherited() | told | _meta_variables(message.headers.get(META))


def trace_variables(message: Message) -> dict[str, str]:
    """Return the trace context of a command that is run for a message; {} where it has none."""
    trace = tracing.child_trace(message.headers)
    if not trace:
        return {}
    return {
        TRACE_PARENT.upper(): trace[TRACE_PARENT],
        TRACE_STATE.upper(): trace.get(TRACE_STATE, ""),
    }


def _inherited() -> dict[str, str]:
    told = (TRACE_PARENT.upper(), TRACE_STATE.upper(), META_PREFIX)
    return {name: value for name, value in os.environ.items() if not name.startswith(told)}


def _meta_variables(meta: object) -> dict[str, str]:
    if not isinstance(meta, dict):
        return {}
    return {
        META_PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper()): value.replace("\0", "")
        for name, raw in meta.items()
        for value in (raw if isinstance(raw, str) else orjson.dumps(raw).decode(),)
    }
