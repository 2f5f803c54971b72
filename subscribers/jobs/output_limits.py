"""The limits of stored texts from workers: errors, and the output of commands."""

from __future__ import annotations

#: How much of an error's text is kept, in characters.
MAX_ERROR_CHARS = 2000

#: How much of a result and of captured stderr a claim keeps, in characters. What is longer is
#: in the reply, or gone.
MAX_KEPT_CHARS = 65_536


def kept_error(text: str | None) -> str | None:
    """Return an error, cut to the length that is stored."""
    return _kept(text, MAX_ERROR_CHARS)


def kept_text(text: str | None) -> str | None:
    """Return a result or stderr, cut to the length that is stored."""
    return _kept(text, MAX_KEPT_CHARS)


def _kept(text: str | None, max_chars: int) -> str | None:
    # It may quote what is no Unicode text, and must be stored all the same.
    return text and text[:max_chars].encode(errors="backslashreplace").decode()
