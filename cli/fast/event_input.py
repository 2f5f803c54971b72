"""Input of another program, which may leave its pipe open: read no further than is needed."""

from __future__ import annotations

import os
import select
import sys
import time

from ...schema.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long a program may take for its input, in seconds: less than it gives a hook.
INPUT_S = 5.0

#: How much is read, in bytes.
_MAX_BYTES = 64_000_000

#: The pause that is taken for the end of a value that could go on, such as a number, in seconds.
_PAUSE_S = 0.1

#: Bytes that can end an object or a list; after these no pause is waited for.
_ENDS = (b"}", b"]")


def first_value() -> object:
    """Return the first JSON value of the standard input; an empty object where there is none.

    Raises:
        InvalidInput: it is no JSON, or not whole within 5 s.
    """
    from json import JSONDecoder, detect_encoding

    if sys.stdin is None or sys.stdin.isatty():
        return {}
    data = b""
    error: ValueError | None = None
    for data, is_open in _inputs():
        try:
            text = data.decode(detect_encoding(data), "surrogatepass").strip()
            return JSONDecoder().raw_decode(text or "{}" * (not is_open))[0]
        except ValueError as cause:  # it goes on, perhaps
            error = cause
        if not is_open:
            break
    else:
        raise InvalidInput(f"no whole description of the event came within {INPUT_S:g} s")
    raise InvalidInput(f"the program's description of the event is not JSON: {error}") from error


def all_input() -> bytes:
    """Return the whole standard input.

    Raises:
        InvalidInput: its end has not come within 5 s.
    """
    if sys.stdin is None:
        return b""
    for data, is_open in _inputs():
        if not is_open:
            return data
    raise InvalidInput(f"the end of the standard input has not come within {INPUT_S:g} s")


def _inputs() -> Iterator[tuple[bytes, bool]]:
    """Yield what was read so far whenever it may be whole, and whether there may be more.

    The time, or the room, is over when nothing follows what has not ended.
    """
    data, tried = bytearray(), 0
    until = time.monotonic() + INPUT_S
    while (left_s := until - time.monotonic()) > 0 and len(data) < _MAX_BYTES:
        if not select.select([0], [], [], min(left_s, _PAUSE_S))[0]:
            if len(data) > tried:
                tried = len(data)
                yield bytes(data), True
            continue
        try:
            chunk = os.read(0, 65536)
        except BlockingIOError:  # another process was faster
            continue
        data += chunk
        if not chunk:
            yield bytes(data), False
        elif len(data) > 1.1 * tried and chunk.rstrip().endswith(_ENDS):
            tried = len(data)  # a long one is not looked through for each part of it
            yield bytes(data), True
