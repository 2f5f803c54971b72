"""Values of PushPals' clients, read as leniently as its own server reads them."""

from __future__ import annotations

import re

from .entries import LIMIT, MAX_LIMIT, json_text

_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")

#: More digits than any number here has; those after them are cut.
_MAX_DIGITS = 19


def whole_number(text: str | None) -> int | None:
    """Return the whole number that a text begins with: 12 of `12abc`; None without one."""
    found = _NUMBER.match(text or "")
    return None if found is None else int(found[1][:_MAX_DIGITS])


def limit_of(text: str | None, default: int = LIMIT) -> int:
    """Return how many a client asks for, within 1 and 500; what is no number is the default."""
    asked = whole_number(text)
    return default if asked is None else min(max(1, asked), MAX_LIMIT)


def text_of(value: object) -> str:
    """Return a field as text without blanks at its ends, "" for one that is missing.

    A number or a truth value is its JSON text, so that an id may come as a number; so is a list
    or an object.
    """
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return value.strip() if isinstance(value, str) else json_text(value)


def json_or_none(value: object) -> str | None:
    """Return a value as JSON text; None for what counts as none: null, false, 0 and ""."""
    is_none = value is None or (isinstance(value, bool | int | float | str) and not value)
    return None if is_none else json_text(value)
