"""One POST and the head of its answer, within a time and a number of bytes, whatever comes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from time import monotonic
from typing import cast

from .targets import Unreachable, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from .targets import Target

#: The most that is read of an answer, in bytes: its status decides, so its body is not read.
MAX_ANSWER_BYTES = 65_536

#: How much is sent and received at a time, in bytes.
_PIECE_BYTES = 65_536

#: The longest pause that an answer may ask for, in seconds: an hour.
MAX_RETRY_AFTER_S = 3600.0

_END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a target.

    Attributes:
        status: of HTTP.
        retry_after: the pause that it asks for, as its header has it.
    """

    status: int
    retry_after: str = ""

    def pause_s(self, now_s: float) -> float:
        """Return that pause in seconds, up to an hour; 0 for none.

        Args:
            now_s: the time, in seconds of the epoch.
        """
        text = self.retry_after.strip()
        if text.isdecimal() and text.isascii():
            seconds = float(text[:9])
        else:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - now_s
            except (ValueError, OverflowError, OSError):
                return 0.0
        return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)


def post(target: Target, headers: Mapping[str, str], body: bytes, *, within_s: float) -> Answer:
    """Post a body, and return the answer. No redirect is followed.

    Args:
        target: where to.
        headers: beside those of every request.
        body: the bytes.
        within_s: how long all of it may take, in seconds.

    Raises:
        Unreachable: there was no connection, or no whole head of an answer in time.
    """
    deadline = monotonic() + within_s
    usual = {
        "Host": target.authority,
        "Content-Length": str(len(body)),
        "User-Agent": "ackbus",
        "Connection": "close",
    }
    lines = [f"POST {target.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in (usual | dict(headers)).items()]
    head = "\r\n".join([*lines, "", ""]).encode("ascii")
    refused: OSError | None = None
    with target.connect(deadline) as connection:
        try:
            refused = _send(connection, head + body, deadline)
            return _answer(_head(connection, deadline))
        except TimeoutError as error:
            raise Unreachable(f"{target} took longer than {within_s:g} s") from error
        except (OSError, ValueError, HTTPException) as error:
            why = refused or error
            raise Unreachable(f"{target} gave no answer: {words_of(why)}") from error


def _send(connection: socket.socket, data: bytes, deadline: float) -> OSError | None:
    """Send data; return the error of a target that takes no more, which may have answered."""
    left = memoryview(data)
    try:
        while left:
            connection.settimeout(_left_s(deadline))
            left = left[connection.send(left[:_PIECE_BYTES]) :]
    except TimeoutError:
        raise
    except OSError as error:
        return error
    return None


def _head(connection: socket.socket, deadline: float) -> bytes:
    """Return the head of an answer, with what came along with it."""
    data, room = b"", MAX_ANSWER_BYTES
    while _END_OF_HEAD not in data:
        if not room:
            raise ValueError(f"the head of the answer is longer than {MAX_ANSWER_BYTES} bytes")
        connection.settimeout(_left_s(deadline))
        piece = connection.recv(room)
        if not piece:
            raise ValueError("the connection ended before the head of the answer did")
        room -= len(piece)
        data = _without_interim(data + piece)
    return data


def _without_interim(data: bytes) -> bytes:
    """Leave out whole heads of interim answers (1xx), which say only that another follows."""
    while data.startswith((b"HTTP/1.1 1", b"HTTP/1.0 1")) and _END_OF_HEAD in data:
        data = data.partition(_END_OF_HEAD)[2]
    return data


def _answer(head: bytes) -> Answer:
    response = HTTPResponse(cast("socket.socket", _Received(head)), method="POST")
    response.begin()
    return Answer(response.status, response.getheader("Retry-After", ""))


class _Received:
    """The bytes that were received, in place of the connection that they came by."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _left_s(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left
