"""JSON as the bus writes it: UTF-8, no spaces, sorted keys: equal content is equal bytes."""

from __future__ import annotations

import math

import orjson

from .errors import InvalidInput


def encode(value: object, what: str = "payload") -> bytes:
    """Return `value` as canonical JSON.

    Raises:
        InvalidInput: something in `value` has no JSON form (a set, NaN, a lone surrogate, an
            integer beyond 64 bits, a dictionary key that is not a string).
    """
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise InvalidInput(f"{what} can't be written as JSON: {error}") from error
    # orjson writes NaN and infinities as null; a changed value must not pass in silence. Looking
    # for them is needed only where there is a null at all.
    if b"null" in data and _has_non_finite(value):
        raise InvalidInput(f"{what} can't be written as JSON: it holds NaN or an infinity")
    return data


def decode(data: str | bytes, what: str = "payload") -> object:
    """Return the value that JSON text stands for.

    Raises:
        InvalidInput: `data` is not JSON or not UTF-8; the message says where it breaks.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}") from error


def _has_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_non_finite, value))
    # orjson writes dataclasses as objects.
    names = getattr(value, "__dataclass_fields__", ())
    return any(_has_non_finite(getattr(value, name)) for name in names)
