"""The headers and the payload of `bus publish`, from its arguments."""

from __future__ import annotations

import os
import stat
import sys

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.message.draft import ABSENT, AVAILABLE_AT, DEDUPE_KEY, DEDUPE_WINDOW
from ...schema.message.names import MAX_PAYLOAD_BYTES
from ...schema.message.times import parse_ts
from .. import arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO

#: How long to wait for the first byte of a pipe that no argument asks for, in seconds.
FIRST_BYTE_WITHIN_S = 10.0

#: The file name that stands for the standard input.
STDIN = "-"


def payload_of(
    body: str | None, data: str | None, file: str | None, payload_ref: str | None
) -> object:
    """Return the payload of the arguments of `bus publish`, or ABSENT.

    Args:
        body: text, or `-` for the text on the standard input.
        data: JSON, `-` for the JSON on the standard input, or `@FILE`.
        file: the name of a file with text, or `-`.
        payload_ref: the name of a blob, which only excludes the others.

    Without any of them, text that is piped in is the payload.

    Raises:
        InvalidInput: there is more than one, or it is too large, no UTF-8, no JSON, unreadable;
            the standard input is empty.
    """
    if sum(source is not None for source in (body, data, file, payload_ref)) > 1:
        raise InvalidInput("give one of BODY, --data, --file and --payload-ref")
    if file is not None:
        return _text(_read(file), "the standard input" if file == STDIN else file)
    if data is not None:
        return json_argument(data, "--data")
    if body == STDIN:
        return _text(_read(STDIN), "the standard input")
    if body is not None:
        return _text(_bytes_of(body), "BODY")
    if payload_ref is None and _is_piped():
        return _piped()
    return ABSENT


def _is_piped() -> bool:
    """Whether the standard input is a pipe, or a file from its beginning.

    A terminal and the null device are not; and of a file that has been read in part, as by the
    shell's `while read`, the rest is not for this command.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # it is closed
        return False
    if sys.stdin is None or sys.stdin.closed:  # another option has read it
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and os.lseek(0, 0, os.SEEK_CUR) == 0)


def _piped() -> object:
    """Return the text that is piped in, or ABSENT where there is none."""
    wait_for_input()
    content = _limited(sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1))
    return _text(content, "the standard input") if content else ABSENT


def wait_for_input() -> None:
    """Wait for the first byte of a standard input that no argument asks for, or for its end.

    Some programs leave a pipe open that they never write to.

    Raises:
        InvalidInput: nothing came within `FIRST_BYTE_WITHIN_S`.
    """
    import select

    readable, _, _ = select.select([0], [], [], FIRST_BYTE_WITHIN_S)
    if not readable:
        raise InvalidInput(
            f"nothing came on the standard input for {FIRST_BYTE_WITHIN_S:g} s; give BODY, - to"
            " wait for longer, or '' for no text"
        )


def open_input(name: str) -> BinaryIO:
    """Open a file, or the standard input for `-`.

    Raises:
        InvalidInput: it can't be read.
    """
    if name == STDIN:
        if sys.stdin is None:
            raise InvalidInput("the standard input is closed")
        return sys.stdin.buffer
    try:
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"can't read {name}: {reason(error)}") from error


def reason(error: OSError | ValueError) -> str:
    """Return the reason of a file's error, without its name and number."""
    return getattr(error, "strerror", None) or str(error)


def json_argument(data: str, option: str) -> object:
    """Return the value of an option that takes JSON, `-` for the standard input, or `@FILE`.

    Raises:
        InvalidInput: it is not JSON, or can't be read.
    """
    return decode(*_source(data, option))


def raw_argument(data: str) -> bytes:
    """Return the bytes of an option that takes TEXT, `-` for the standard input, or `@FILE`.

    Raises:
        InvalidInput: they can't be read.
    """
    return _source(data, "")[0]


def _source(data: str, option: str) -> tuple[bytes, str]:
    """Return the bytes that an option stands for, and the name of their source."""
    if data == STDIN:
        return _read(STDIN), "the standard input"
    if data.startswith("@"):
        return _read(data[1:]), data[1:]
    return _bytes_of(data), option


def _read(name: str) -> bytes:
    try:
        with open_input(name) as file:
            content = file.read(MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"can't read {name}: {reason(error)}") from error
    if name == STDIN and not content:
        raise InvalidInput(
            "the standard input is empty: the command before it may have failed;"
            " to publish empty text, give '' as BODY"
        )
    return _limited(content)


def _limited(content: bytes) -> bytes:
    """Return a payload that is not too large."""
    if len(content) > MAX_PAYLOAD_BYTES:
        raise InvalidInput(
            f"the payload is larger than {MAX_PAYLOAD_BYTES} bytes;"
            " store it with 'bus blob put' and publish its name with --payload-ref"
        )
    return content


def _text(content: bytes, what: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{what} is not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}."
            " Store it with 'bus blob put' and publish its name with --payload-ref"
        ) from error


def _bytes_of(argument: str) -> bytes:
    """Return the original bytes of a command-line argument."""
    return argument.encode(errors="surrogateescape")


# The headers that the rarer options of `bus publish` give a message.
#
# `--headers` is the base; `--meta` adds to its `meta`, and the work headers stand beside it.
# (Plugboard's exit code for a bad `--meta` is 1; here it is 2, as for every broken rule.)

# Metadata that a sender adds on the command line: `--meta KEY=VALUE`.

#: The header that holds the metadata of a message, an object.
META = "meta"


def parse_meta(pairs: Sequence[str]) -> dict[str, object]:
    """Return the object of `KEY=VALUE` pairs: a value is JSON if it parses, else text.

    Raises:
        InvalidInput: a pair has no `=`, or nothing before it.
    """
    meta: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(f"--meta: expected KEY=VALUE, not {pair!a}")
        meta[key] = _value(value)
    return meta


def _value(text: str) -> object:
    try:
        return decode(text)
    except InvalidInput:
        return text


def message_headers(
    headers: str | None,
    meta: Sequence[str] | None,
    at: str | None,
    dedupe_key: str | None,
    dedupe_window: str | None,
) -> dict[str, object] | None:
    """Return the headers that these options make, or None without any.

    Raises:
        InvalidInput: one is malformed, or two contradict each other.
    """
    composed: dict[str, object] = {} if headers is None else _object(headers)
    if meta:
        composed[META] = _base(composed) | parse_meta(meta)
    if (at, dedupe_key, dedupe_window) != (None, None, None):
        window_s = (
            None if dedupe_window is None else arguments.seconds(dedupe_window, "--dedupe-window")
        )
        from ...subscribers.jobs.policy import work_headers  # slow to load, and rarely needed

        composed |= work_headers(
            available_at_ms=None if at is None else _time(at),
            dedupe_key=dedupe_key,
            dedupe_window_s=window_s,
        )
    return composed or None


def check_wishes(headers: Mapping[str, object]) -> None:
    """Refuse work headers with values of a form that queues ignore.

    Raises:
        InvalidInput: a work header has a value of another form.
    """
    from ...subscribers.jobs.policy import work_headers

    for name in (AVAILABLE_AT, DEDUPE_WINDOW):
        if name in headers and type(headers[name]) is not int:
            raise InvalidInput(
                f"header {name} must be a whole number, in milliseconds, not {headers[name]!r}"
            )
    if not isinstance(headers.get(DEDUPE_KEY, ""), str):
        raise InvalidInput(f"header {DEDUPE_KEY} must be text, not {headers[DEDUPE_KEY]!r}")
    at_ms: Any = headers.get(AVAILABLE_AT)
    key: Any = headers.get(DEDUPE_KEY)
    window_ms: Any = headers.get(DEDUPE_WINDOW)
    work_headers(
        available_at_ms=at_ms,
        dedupe_key=key,
        dedupe_window_s=None if window_ms is None else window_ms / 1000,
    )


def _object(text: str) -> dict[str, object]:
    value = json_argument(text, "--headers")
    if not isinstance(value, dict):
        raise InvalidInput("--headers must be a JSON object")
    return value


def _base(headers: dict[str, object]) -> dict[str, object]:
    base = headers.get(META, {})
    if not isinstance(base, dict):
        raise InvalidInput(f"--meta can't be added: {META!r} of --headers is not a JSON object")
    return base


def _time(at: str) -> int:
    try:
        return parse_ts(at)
    except InvalidInput as error:
        raise InvalidInput(f"--at: {error}") from error
