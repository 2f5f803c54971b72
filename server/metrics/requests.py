"""Counting and timing requests."""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .counters import Metrics

#: The label of requests to unknown paths: clients must not be able to create labels.
_OTHER = "other"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})


class Measured:
    """Counts every HTTP request by its method, route and status, and times it by its route.

    Args:
        app: the application behind it.
        metrics: the counters.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        is_answered = False

        async def watched(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                self._count(scope, message["status"], begin)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            if not is_answered:  # what answers for a defect stands outside of this
                self._count(scope, 500, begin)
            raise

    def _count(self, scope: Scope, status: int, begin: float) -> None:
        route = getattr(scope.get("route"), "path_format", _OTHER)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.request_seconds.labels(route).observe(time.perf_counter() - begin)
