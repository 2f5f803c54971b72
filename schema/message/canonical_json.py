"""JSON as the bus writes it: UTF-8, no spaces, sorted keys: equal content is equal bytes."""

from __future__ import annotations

import math

from ..errors import InvalidInput
from . import lazy_orjson as orjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: So many digits may be an integer too large for SQLite, or part of a string or a fraction. They
#: are sought in a text whose digits are all made 0, since not every command loads `re`.
_LONG_NUMBER, _DIGITS_TO_0 = b"0" * 19, bytes.maketrans(b"123456789", b"000000000")

#: How many levels a payload leaves for what stands around it in a line, or in an answer.
_ROOM = 4

#: Text of fewer characters is never nested too deep for orjson to write, which writes 254 levels:
#: each takes two.
_NEVER_TOO_DEEP_CHARS = 500

#: More digits, and a sign, than any integer of 64 bits has.
_MAX_DIGITS = 20


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
    if len(data) >= _NEVER_TOO_DEEP_CHARS and _is_too_deep(value, room=_ROOM):
        raise InvalidInput(f"{what} is nested too deep")
    # orjson writes NaN and infinities as null; a changed value must not pass in silence. Looking
    # for them is needed only where there is a null at all.
    if b"null" in data and _has_non_finite(value):
        raise InvalidInput(f"{what} can't be written as JSON: it holds NaN or an infinity")
    return data


def decode(data: str | bytes, what: str = "payload") -> object:
    """Return the value that JSON text stands for.

    Raises:
        InvalidInput: `data` is not JSON or not UTF-8 (the message says where it breaks), or
            holds an integer beyond 64 bits, or is nested deeper than it could be written again.
    """
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}") from error
    if len(data) >= _NEVER_TOO_DEEP_CHARS and _is_too_deep(value):
        raise InvalidInput(f"{what} is nested too deep")
    encoded = data.encode() if isinstance(data, str) else data
    if _LONG_NUMBER in encoded.translate(_DIGITS_TO_0):
        _refuse_long_integers(data, what)
    return value


def decode_stored(text: str | bytes, *, room: int = _ROOM) -> Any:
    """Return the value of JSON text that any program may have stored.

    Args:
        text: the JSON.
        room: how many levels are written around the value when it is shown.

    Raises:
        orjson.JSONDecodeError: it is not JSON, or nested too deep to be written again.
    """
    value = orjson.loads(text)
    if len(text) >= _NEVER_TOO_DEEP_CHARS and _is_too_deep(value, room=room):
        raise orjson.JSONDecodeError("nested too deep to be written", "", 0)
    return value


def _is_too_deep(value: object, *, room: int = 0) -> bool:
    """Whether orjson, which reads what is nested deeper than it writes, can't write a value.

    Writing it is the one sure way to know, and costs less than counting brackets in its text.

    Args:
        value: the value.
        room: how many levels there must be left around it.
    """
    for _ in range(room):
        value = [value]
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def _refuse_long_integers(data: str | bytes, what: str) -> None:
    """Raise for an integer beyond 64 bits, which orjson reads as a rounded float."""
    import json

    def check(digits: str) -> int:
        if len(digits) > _MAX_DIGITS or not -(2**63) <= int(digits) < 2**64:
            raise InvalidInput(f"{what} holds an integer beyond 64 bits; send it as a string")
        return int(digits)

    json.loads(data, parse_int=check)


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
