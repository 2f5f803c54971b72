"""Byte ranges of a response (RFC 9110, section 14)."""

from __future__ import annotations

import re

from starlette.exceptions import HTTPException

from ...schema.errors import InvalidInput

_ONE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?", re.ASCII)


def part_of(wanted: str | None, size: int) -> range | None:
    """Return which bytes a `Range` header asks for; None: all of them.

    A header with several ranges, or of another form, returns None, as the RFC allows.

    Raises:
        HTTPException: none of them is there.
    """
    match = _ONE.fullmatch(wanted or "")
    if match is None or not any(match.groups()):
        return None
    if match[1] is None:
        found = range(max(0, size - int(match[2])), size)
    else:
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            return None
        found = range(first, min(last + 1, size) if match[2] else size)
    if not found:
        headers = {"Content-Range": f"bytes */{size}"}
        raise HTTPException(416, headers=headers) from InvalidInput(f"it has {size} bytes")
    return found
