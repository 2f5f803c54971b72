"""The endpoint that Prometheus scrapes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from ..access.access import needs
from ..access.principals import Principal, Scope
from ..problems import documented
from .counters import Metrics

router = APIRouter(tags=["health"])

Reader = Annotated[Principal, needs(Scope.WORK_RO)]


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "Metrics, for Prometheus."},
        **documented(401, 403, 429, 503),
    },
)
def metrics(request: Request, _: Reader) -> Response:
    """Return the metrics of the bus and of this server, in Prometheus's text format."""
    found: Metrics = request.app.state.metrics
    return Response(
        found.text(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_PLAIN_0_0_4
    )
