"""The endpoint that Prometheus scrapes."""

from __future__ import annotations

from fastapi import Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from ..access.access import GuardedRouter
from ..access.table import SERVER
from ..problems import documented
from .counters import Metrics

router = GuardedRouter(SERVER, tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "Metrics, for Prometheus."},
        **documented(401, 403, 429, 503),
    },
)
def metrics(request: Request) -> Response:
    """Return the metrics of the bus and of this server, in Prometheus's text format."""
    found: Metrics = request.app.state.metrics
    return Response(
        found.text(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_PLAIN_0_0_4
    )
