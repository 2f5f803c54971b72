"""Seqs as people write them."""

from __future__ import annotations

from .limits import MAX_SEQ

_MAX_DIGITS = len(str(MAX_SEQ))


def seq_in(text: str) -> int | None:
    """Return the seq that a text is, or None where it is none: 1 to `MAX_SEQ`, in digits alone."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    return int(text) if 0 < int(text) <= MAX_SEQ else None
