"""Webhooks in over HTTP: bodies of a bounded size, and the receiver that answers."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Any

import anyio
import anyio.to_thread
import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from ..automation.active_config import ConfigSnapshot
from ..automation.config.models import WebhookEndpoint
from ..automation.config.settings import HEALTH_PATH
from ..automation.status import health_of
from ..automation.webhooks import BadSignature, WebhookDeliveries, verify
from ..bus.local_bus import LocalBus
from ..schema.errors import AckbusError, InvalidInput, LimitReached, NotFound
from .access.access import Bucket
from .monitoring import CHECK_S

#: How many bytes of bodies are held at a time: nothing is known of their senders until they are
#: whole. One alone may be longer, if its endpoint takes it.
MAX_HELD_BYTES = 32 * 1024 * 1024


class BodyRefused(Exception):
    """A body is not read to its end; the text is for its sender.

    Attributes:
        status: of the answer.
    """

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class HeldBodies:
    """The bodies that are held, from their first byte until they are stored.

    Used from the event loop alone.

    Args:
        within_s: how long a client may take for a whole body, in seconds.
    """

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """Read the body of a request, and count it as held inside the block.

        Args:
            request: nothing of its body is read yet.
            limit: the longest body, in bytes.

        Raises:
            BodyRefused: it is too long or takes too long, or others hold all the memory.
        """
        length = request.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > limit:
            raise BodyRefused(413, "payload too large")
        pieces: list[bytes] = []
        size = 0
        try:
            with anyio.move_on_after(self._within_s) as reading:
                async for piece in request.stream():
                    size += len(piece)
                    self._held += len(piece)
                    if size > limit:
                        raise BodyRefused(413, "payload too large")
                    if self._held > max(MAX_HELD_BYTES, size):
                        raise BodyRefused(503, "too many bodies are under way")
                    pieces.append(piece)
            if reading.cancelled_caught:
                raise BodyRefused(408, "the body took too long")
            yield b"".join(pieces)
        finally:
            self._held -= size


# The application that takes webhooks: it reads a request, has it stored, and then answers.

#: How many requests are checked and stored at a time: each takes a thread with a connection. The
#: health has one of its own.
_THREADS = 4

#: How long a client may take for a whole body, in seconds.
BODY_S = 30.0

#: When to try again, in seconds: the bus is busy or a queue full; an operator has to act.
_SOON_S, _LATER_S = 1, 60

#: The status of a refusal for lack of room or time.
_BUSY = 503

#: The header of an answer to a request whose body is not read: it might never end.
_CLOSED = {"Connection": "close"}

_log = logging.getLogger("ackbus.automation.webhooks")


def webhook_app(
    bus: LocalBus, snapshot: Callable[[], ConfigSnapshot], *, body_s: float = BODY_S
) -> Starlette:
    """Return the application that takes webhooks.

    Args:
        bus: where they are stored.
        snapshot: returns the configuration in force, which counts from the next request on.
        body_s: how long a client may take for a whole body, in seconds.
    """
    return Starlette(routes=[Mount("", app=Receiver(bus, snapshot, body_s))])


class Receiver:
    """Answers requests by the endpoints of a configuration, in one event loop."""

    def __init__(
        self, bus: LocalBus, snapshot: Callable[[], ConfigSnapshot], body_s: float
    ) -> None:
        self._bus = bus
        self._snapshot = snapshot
        self._bodies = HeldBodies(body_s)
        self._began = time.monotonic()
        self._threads: anyio.CapacityLimiter | None = None
        self._health_threads: anyio.CapacityLimiter | None = None
        self._hooks: _WebhookEndpoints | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; there are no other connections."""
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        try:
            response = await self._answer(Request(scope, receive))
        except ClientDisconnect:  # before its whole body came
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        if path == HEALTH_PATH:
            return await self._health(request)
        hooks = self._in_force()
        endpoint = hooks.endpoints.get(path)
        if endpoint is None:
            return _refused(404, "not found", **_CLOSED)
        if request.method != "POST":
            return _refused(405, "use POST", Allow="POST", **_CLOSED)
        try:
            async with self._bodies.read(request, endpoint.max_body_bytes) as body:
                # From here on it is stored, whether or not the client waits for the answer.
                take = partial(hooks.take, endpoint, request, body)
                self._threads = self._threads or anyio.CapacityLimiter(_THREADS)
                return await anyio.to_thread.run_sync(take, limiter=self._threads)
        except BodyRefused as error:
            again = {"Retry_After": _SOON_S} if error.status == _BUSY else {}
            return _refused(error.status, str(error), **again, **_CLOSED)

    def _in_force(self) -> _WebhookEndpoints:
        """Return the endpoints of the configuration in force."""
        snapshot, before = self._snapshot(), self._hooks
        if before is None or before.snapshot is not snapshot:
            self._hooks = _WebhookEndpoints(self._bus, snapshot)
            return self._hooks
        return before

    async def _health(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _refused(405, "use GET", Allow="GET, HEAD")
        if not _is_local(request):
            return _refused(404, "not found")
        plugins, uptime_s = len(self._snapshot().plugins), time.monotonic() - self._began
        ask = partial(health_of, self._bus, plugins, uptime_s)
        self._health_threads = self._health_threads or anyio.CapacityLimiter(1)
        try:
            with anyio.move_on_after(CHECK_S):
                health = await anyio.to_thread.run_sync(
                    ask, abandon_on_cancel=True, limiter=self._health_threads
                )
                return _json(200, health)
            _log.error("the health can't be told: the bus has not answered for %g s", CHECK_S)
        except AckbusError as error:
            _log.error("the health can't be told: %s", error)
        return _json(_BUSY, {"status": "unavailable"})


class _WebhookEndpoints:
    """The endpoints of one configuration. Any thread may use it."""

    def __init__(self, bus: LocalBus, snapshot: ConfigSnapshot) -> None:
        self.snapshot = snapshot
        self._bus = bus
        webhooks = snapshot.config.webhooks
        self.endpoints = (
            {endpoint.path: endpoint for endpoint in webhooks.endpoints} if webhooks else {}
        )
        self._deliveries = WebhookDeliveries(bus, snapshot.config, snapshot.plugins)
        self._buckets = {
            path: Bucket(endpoint.rate.count / endpoint.rate.per_s, endpoint.rate.count)
            for path, endpoint in self.endpoints.items()
            if endpoint.rate is not None
        }

    def take(self, endpoint: WebhookEndpoint, request: Request, body: bytes) -> Response:
        """Check a request, store it, and return the answer."""
        path = endpoint.path
        try:
            signed = verify(endpoint, request.headers, body, self._bus.now_ms() / 1000)
        except BadSignature as error:
            _log.warning("a request to %s is refused: %s", path, error)
            return Response(status_code=403)
        bucket = self._buckets.get(path)
        if bucket is not None and (wait_s := bucket.take()):
            _log.warning("a request to %s is refused: there are too many", path)
            return _refused(429, "too many requests", Retry_After=math.ceil(wait_s))
        try:
            taken = self._deliveries.take(endpoint, request.headers, body, signed)
        except AckbusError as error:
            _log.error("a request to %s can't be taken: %s", path, error)
            return _of_error(error)
        again = ", again" if taken.is_repeated else ""
        about = {"plugin": endpoint.plugin, "job_id": taken.job_id}
        _log.info("a request to %s is taken%s", path, again, extra=about)
        return _json(202, {"job_id": taken.job_id})


def _of_error(error: AckbusError) -> Response:
    if isinstance(error, InvalidInput):
        return _refused(400, str(error))
    if isinstance(error, LimitReached):
        return _refused(429, "the queue is full", Retry_After=_SOON_S)
    after_s = _LATER_S if isinstance(error, NotFound) else _SOON_S
    return _refused(_BUSY, "it can't be taken now", Retry_After=after_s)


def _refused(status: int, error: str, **headers: object) -> Response:
    return _json(status, {"error": error}, **headers)


def _json(status: int, body: dict[str, Any], **headers: object) -> Response:
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return Response(orjson.dumps(body), status, named, "application/json")


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine."""
    return request.client is not None and ip_address(request.client.host).is_loopback
