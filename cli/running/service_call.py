"""Requests to the HTTP listeners of a service, as its clients would send them."""

from __future__ import annotations

from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

from ...schema.errors import AckbusError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPResponse

#: How long the listener may take for an answer, in seconds.
_WITHIN_S = 30.0


class Answer:
    """The answer of a listener, to be read while its call is open.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, listen: str, response: HTTPResponse) -> None:
        self.status = response.status
        self._listen = listen
        self._response = response

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the body, each as it comes.

        Raises:
            AckbusError: the body is not whole.
        """
        with _explained(self._listen):
            yield from self._response

    def text(self) -> str:
        """Return the body.

        Raises:
            AckbusError: it is not whole.
        """
        with _explained(self._listen):
            return self._response.read().decode(errors="replace")


@contextmanager
def call(
    listen: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    within_s: float = _WITHIN_S,
) -> Iterator[Answer]:
    """Send a request, and give the answer, which can be read inside the block.

    Args:
        listen: the address, HOST:PORT; one of all interfaces is reached on this machine.
        method, path, headers, body: of the request.
        within_s: how long each part of the answer may take, in seconds.

    Raises:
        NotFound: nobody listens there.
        AckbusError: there was no whole answer.
    """
    host, _, port = listen.rpartition(":")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(
        bare := host.strip("[]"), bare
    )
    connection = HTTPConnection(host, int(port), timeout=within_s)
    try:
        with _explained(listen):
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
        yield Answer(listen, response)  # errors of the block are its own
    finally:
        connection.close()


@contextmanager
def _explained(listen: str) -> Iterator[None]:
    """Turn the errors of a connection into ours."""
    try:
        yield
    except ConnectionRefusedError as error:
        raise NotFound(
            f"nobody listens on {listen}: start the service with 'bus automation start'"
        ) from error
    except (OSError, HTTPException) as error:
        raise AckbusError(f"no answer from {listen}: {error}") from error


def post(listen: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Post a body, and return the status and the text of the answer.

    Raises:
        NotFound, AckbusError: as for `call`.
    """
    with call(listen, "POST", path, headers, body) as answer:
        return answer.status, answer.text()
