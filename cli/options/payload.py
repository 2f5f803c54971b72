"""The payload of `bus publish`, from its arguments. No more than a payload's limit is read."""

from __future__ import annotations

import os
import select
import stat
import sys

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.message.draft import ABSENT
from ...schema.message.names import MAX_PAYLOAD_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

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
