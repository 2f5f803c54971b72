"""Sending a request to a listener of webhooks, as its sender would."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException

from ...schema.errors import AckbusError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: How long the listener may take for an answer, in seconds.
_WITHIN_S = 30.0


def post(listen: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """Send a request, and return the status and the text of the answer.

    Args:
        listen: the address, HOST:PORT; one of all interfaces is reached on this machine.
        path, headers, body: of the request.

    Raises:
        NotFound: nobody listens there.
        AckbusError: there was no whole answer.
    """
    host, _, port = listen.rpartition(":")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(
        bare := host.strip("[]"), bare
    )
    connection = HTTPConnection(host, int(port), timeout=_WITHIN_S)
    try:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except ConnectionRefusedError as error:
        raise NotFound(
            f"nobody listens on {listen}: start the service with 'bus automation start'"
        ) from error
    except (OSError, HTTPException) as error:
        raise AckbusError(f"no answer from {listen}: {error}") from error
    finally:
        connection.close()
