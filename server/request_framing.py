"""The end of a request: one that two readers could see in two places is refused.

A proxy that takes another end for a request than this server does hands it the rest as a request
of its own, past whatever the proxy checks. So each request must say once, and in one way, how long
it is. h11 refuses chunks and lengths that are malformed; here is what it lets pass.

So are bodies in very many tiny chunks: each takes as long as a large one, and all clients wait
meanwhile. A body of 17 MiB in chunks of a byte would take minutes.
"""

from __future__ import annotations

import re
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: The end of the head of a request, as h11 finds it.
_END_OF_HEAD = re.compile(rb"\n\r?\n")

#: A line of the head that goes on with the one before; older readers take it for one of its own.
_FOLDED = re.compile(rb"\n[ \t]")

#: The end of a line without a carriage return, and one within a line.
_ODD_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")

#: A length, and a coding, by their names at the beginning of a line.
_LENGTHS = re.compile(rb"\n(?i:content-length)[ \t]*:([^\n]*)")
_CODINGS = re.compile(rb"\n(?i:transfer-encoding)[ \t]*:")


#: How many chunks a body may have, of any size, and how many bytes each of more has on average.
_CHUNKS, _CHUNK_BYTES = 4096, 64


class OneEnd(h11.Connection):
    """A connection that refuses requests whose end is told twice, or in a doubtful way."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._chunks = self._bytes = 0

    def next_event(self) -> Any:
        """Return the next event, as h11 does.

        Raises:
            h11.RemoteProtocolError: the request is refused.
        """
        waiting = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            end = _END_OF_HEAD.search(waiting)
            _check(waiting[: end.end()] if end else waiting, event)
            self._chunks = self._bytes = 0
        elif isinstance(event, h11.Data):
            self._count(event)
        return event

    def _count(self, data: h11.Data) -> None:
        self._chunks += data.chunk_start
        self._bytes += len(data.data)
        if self._chunks > _CHUNKS and self._bytes < self._chunks * _CHUNK_BYTES:
            raise h11.RemoteProtocolError("too many tiny chunks")


def _check(head: bytes, request: h11.Request) -> None:
    lengths, codings = _LENGTHS.findall(head), _CODINGS.findall(head)
    if lengths and codings:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise h11.RemoteProtocolError("more than one Content-Length")
    if codings and request.http_version < b"1.1":
        raise h11.RemoteProtocolError("Transfer-Encoding before HTTP/1.1")
    if _FOLDED.search(head) or _ODD_END.search(head):
        raise h11.RemoteProtocolError("a folded line, or one that ends oddly")


class FramedProtocol(H11Protocol):
    """A connection of a server, where a request that is refused is answered by 400, and the last.

    It is h11's, whatever else is installed: all servers read requests in the same way.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        most = self.config.h11_max_incomplete_event_size
        self.conn = OneEnd(h11.SERVER, *([] if most is None else [most]))

    def send_400_response(self, msg: str) -> None:
        """Refuse what came, and close; an answer that has begun already is cut off."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # it must not answer after this
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()
