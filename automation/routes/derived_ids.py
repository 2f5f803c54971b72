"""Ids that follow from what a job comes from and where it goes, so that to repeat is harmless."""

from __future__ import annotations

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message


def derived_id(source: Message, target: str) -> str:
    """Return the one id for a target of a message: a UUID of version 8, in the order of time."""
    rest = hashlib.sha256(f"{source.id}\n{target}".encode()).hexdigest()
    begin = id_of_time(source.ts_ms)
    return f"{begin}8{rest[:3]}-{'89ab'[int(rest[3], 16) % 4]}{rest[4:7]}-{rest[7:19]}"


def id_of_time(ts_ms: int) -> str:
    """Return the beginning of the ids of a millisecond."""
    digits = f"{ts_ms:012x}"
    return f"{digits[:8]}-{digits[8:]}-"


def id_of(text: str) -> str:
    """Return the one id for a text: a UUID of version 8, which says nothing of a time."""
    digits = hashlib.sha256(text.encode()).hexdigest()
    variant = "89ab"[int(digits[15], 16) % 4]
    begin = f"{digits[:8]}-{digits[8:12]}-8{digits[12:15]}"
    return f"{begin}-{variant}{digits[16:19]}-{digits[19:31]}"
