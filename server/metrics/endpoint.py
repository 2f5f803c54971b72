"""Where Prometheus asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response

from ..access import needs
from ..principals import Principal, Scope
from ..problems import documented
from .counters import Metrics

#: The text format, of which every Prometheus knows this version.
_MEDIA_TYPE = "text/plain; version=1.0.0; charset=utf-8"

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
    """Tell how the bus is doing, and what this server did, as Prometheus reads it."""
    found: Metrics = request.app.state.metrics
    return Response(found.text(), headers={"Cache-Control": "no-store"}, media_type=_MEDIA_TYPE)
