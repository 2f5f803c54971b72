"""orjson, as modules name it that hot commands load: it is loaded when something needs it.

Loading it takes longer than all else that a command does which publishes or shows a few messages.
So until this process has orjson, short and plain values are read and written here, to the same
bytes; all other values, and all other names of orjson, load it. From then on its functions stand
here themselves, so that a process that lives long pays nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: orjson's option that sorts the keys of objects.
OPT_SORT_KEYS = 1 << 5

#: The longest text that is read here, in characters or bytes: the longest that stands in a row.
_READ_MAX = 4096

#: How many levels of arrays and objects are written here.
_LEVELS = 50

#: Whole numbers and fractions of these sizes are plain: all writers of JSON write them alike.
_WHOLE_BELOW, _FRACTION_FROM, _FRACTION_BELOW = 10**18, 1e-3, 1e15

#: The errors of a text that is no plain JSON. The scanner raises SystemError for one that is no
#: JSON at all, as it does not find the error that it means: that is in `json`, which is not loaded.
_NOT_PLAIN = (ValueError, StopIteration, RecursionError, SystemError)

#: JSON's forms of what can't stand in its strings, by code point.
_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)


def load() -> Any:
    """Load orjson, put its names here, and return it."""
    import orjson

    names = {name: value for name, value in vars(orjson).items() if not name.startswith("_")}
    globals().update(names)
    globals().pop("__getattr__", None)  # Python finds the names of a module without one faster
    return orjson


def __getattr__(name: str) -> Any:
    return getattr(load(), name)


def dumps(
    value: object, default: Callable[[Any], object] | None = None, option: int | None = None
) -> bytes:
    """Write a value as JSON, as `orjson.dumps` does."""
    if "orjson" not in sys.modules and default is None and option in (None, OPT_SORT_KEYS):
        try:
            return _text_of(value, option is not None, _LEVELS).encode()
        except ValueError:  # also for half a surrogate pair, which UTF-8 can't hold
            pass
    data: bytes = load().dumps(value, default, option)
    return data


def loads(data: bytes | str) -> Any:
    """Read a value from JSON, as `orjson.loads` does."""
    if "orjson" not in sys.modules and len(data) <= _READ_MAX:
        try:
            return _value_of(data if isinstance(data, str) else bytes(data).decode())
        except _NOT_PLAIN:
            pass
    return load().loads(data)


def _text_of(value: Any, is_sorted: bool, levels: int) -> str:
    """Return the JSON of a value; ValueError where it is not plain."""
    kind = type(value)
    if kind is str:
        return f'"{value.translate(_ESCAPES)}"'
    if value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    if kind is int and abs(value) < _WHOLE_BELOW:
        return str(value)
    if kind is float and _FRACTION_FROM <= abs(value) < _FRACTION_BELOW:
        return repr(value)
    if levels and kind is dict and all(type(key) is str for key in value):
        items = sorted(value.items()) if is_sorted else value.items()
        texts = (f"{_text_of(k, False, 0)}:{_text_of(v, is_sorted, levels - 1)}" for k, v in items)
        return f"{{{','.join(texts)}}}"
    if levels and kind in (list, tuple):
        return f"[{','.join(_text_of(item, is_sorted, levels - 1) for item in value)}]"
    raise ValueError("not plain")


def _value_of(text: str) -> Any:
    """Return the value of JSON; ValueError or StopIteration where it is not plain, or no JSON."""
    from _json import make_scanner  # by which Python's `json` reads, whose loading takes long

    text.encode()  # an error where it holds half a surrogate pair
    if "\\u" in text:
        raise ValueError("it may hold half a surrogate pair")
    text = text.strip(" \t\n\r")
    settings: Any = _PlainJson
    value, end = make_scanner(settings)(text, 0)
    if end != len(text):
        raise ValueError("more than one value")
    return value


def _plain_number(digits: str) -> int | float:
    """Return a number; ValueError for one that orjson may read or write in another form."""
    number = int(digits) if digits.lstrip("-").isdigit() else float(digits)
    _text_of(number, False, 0)
    return number


class _PlainJson:
    """The settings of Python's scanner."""

    strict = True  # no control characters in strings
    object_hook = object_pairs_hook = None
    parse_int = parse_float = parse_constant = staticmethod(_plain_number)
