"""Requests to the HTTP listeners of a service, as its clients would send them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote, urlencode

import orjson

from ...schema.errors import AckbusError, InvalidInput, NotFound
from ...schema.message.canonical_json import decode
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from http.client import HTTPResponse

    from ...automation.config.models import ApiConfig, Config

#: How long the listener may take for an answer, in seconds.
_WITHIN_S = 30.0


class HttpAnswer:
    """The answer of a listener, to be read while its call is open.

    Attributes:
        status: the HTTP status.
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
) -> Iterator[HttpAnswer]:
    """Send a request, and give the answer, which can be read inside the block.

    Args:
        listen: the address, HOST:PORT; for all interfaces, the one of this machine is used.
        method, path, headers, body: the parts of the request.
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
        yield HttpAnswer(listen, response)  # errors of the block are its own
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


# Calls of the API of a service: with its address and a token, both of the configuration.

#: How much longer than the longest wait for a pipeline an answer may take, in seconds.
_BEYOND_S = 30.0

#: The characters that a path and its query may have as they are.
_AS_THEY_ARE = "/?&=%:+,;~@!$'()*-._"

#: The scope that has all others in it.
_ALL = "*"

#: The first status that says that a request was refused.
_REFUSED = 400


@dataclass(frozen=True)
class ApiCall:
    """A call of the API.

    Attributes:
        method: GET, POST, …
        path: the path with its query.
        body: JSON, or None.
    """

    method: str
    path: str
    body: bytes | None = None


def parse_call(path: str, method: str | None, fields: Sequence[str]) -> ApiCall:
    """Return the call of a command's arguments.

    Args:
        path: the path of the request, from its slash on.
        method: None is GET, and POST where there are fields.
        fields: KEY=VALUE, or KEY:=JSON: the payload of a POST, or the query of what has no body.

    Raises:
        InvalidInput: an argument has another form.
    """
    if not path.startswith("/") or path.startswith("//"):
        raise InvalidInput(f"a path begins with one slash, like /jobs, not {path[:80]!a}")
    method = (method or ("POST" if fields else "GET")).upper()
    if not method.isascii() or not method.isalpha():
        raise InvalidInput(f"{method[:80]!a} is no method; write GET or POST")
    path, payload = quote(path, safe=_AS_THEY_ARE), dict(map(_field, fields))
    if not payload:
        return ApiCall(method, path)
    if method in ("GET", "HEAD"):
        query = urlencode({key: _text(value) for key, value in payload.items()})
        return ApiCall(method, f"{path}{'&' if '?' in path else '?'}{query}")
    return ApiCall(method, path, orjson.dumps({"payload": payload}))


def _field(text: str) -> tuple[str, object]:
    key, is_there, value = text.partition("=")
    is_json = key.endswith(":")
    name = key.removesuffix(":")
    if not is_there or not name:
        raise InvalidInput(f"write a field as KEY=VALUE, or KEY:=JSON, not {text[:80]!a}")
    return name, decode(value.encode(errors="surrogateescape"), key) if is_json else value


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def print_answer(output: Output, config: Config, request: ApiCall) -> int:
    """Make a call, print the body of the answer as it comes, and return the exit code.

    Raises:
        NotFound: the configuration has no API, or nobody listens.
        AckbusError: there was no whole answer.
    """
    api = _api(config)
    within_s = api.max_sync_timeout_s + _BEYOND_S
    with call(
        api.listen, request.method, request.path, _headers(config), request.body, within_s=within_s
    ) as answer:
        for line in answer.lines():  # a stream never ends
            output.body(line.decode(errors="replace"))
            output.flush()
        return 1 if answer.status >= _REFUSED else 0


def _api(config: Config) -> ApiConfig:
    api = config.api
    if api is None or not api.enabled:
        raise NotFound("this configuration has no API; write api: {enabled: true}")
    if api.listen.endswith(":0"):
        raise NotFound("api.listen takes a free port, which only the service knows; write one")
    return api


def _headers(config: Config) -> Mapping[str, str]:
    """Return the headers of a request, with the token that may do most, if there is any."""
    tokens = [token for token in config.tokens if token.scopes and token.key.reveal()]
    tokens.sort(key=lambda token: (_ALL not in token.scopes, -len(token.scopes)))
    headers = {"Content-Type": "application/json", "Accept": "*/*"}
    if tokens:
        headers["Authorization"] = f"Bearer {tokens[0].key.reveal()}"
    return headers
