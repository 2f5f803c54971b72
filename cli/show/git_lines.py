"""Lines of `bus.jsonl` for people: who → whom, type, first words."""

from __future__ import annotations

from .output import REF_CHARS, preview_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def readable(record: Mapping[str, Any]) -> str:
    """Return the line of a message; `output.line` makes it safe to print."""
    route = f"{record.get('from')} → {record.get('to') or 'all'}"
    return "  ".join((str(record["ts"]), route, str(record.get("type")), _words(record))).rstrip()


def _words(record: Mapping[str, Any]) -> str:
    if "payload_ref" in record:
        return f"[blob {str(record['payload_ref'])[:REF_CHARS]}…]"
    return preview_of(record["payload"]) if "payload" in record else ""
