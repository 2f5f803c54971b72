"""Errors in the form of PushPals: `ok` is false, and `message` says why."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ...schema.errors import AckbusError, InvalidInput
from ...schema.sqlite.rules.damaged_rows import damage_behind
from ...tasks.control.approvals import NotPending
from ...tasks.control.entries import NotClaimed
from ..access.errors import TooManyRequests, Unauthorized
from ..problems import status_of
from .common import answer


async def refused(request: Request, error: Exception) -> Response:
    """Return the response to a request that an error ended."""
    if request.method == "OPTIONS":  # a browser asks before it sends: the server has answered that
        return Response(status_code=HTTPStatus.NO_CONTENT)
    damaged = await to_thread.run_sync(damage_behind, error)
    return refusal(damaged or error)


def refusal(error: Exception) -> Response:
    """Return an error as a response."""
    headers: dict[str, str] = {}
    status, message = HTTPStatus.INTERNAL_SERVER_ERROR, "an error in the server; see its output"
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        message = "Not found" if status == HTTPStatus.NOT_FOUND else status.phrase
    elif isinstance(error, AckbusError):
        status = _status(error)
        message = str(error)
    elif isinstance(error, RequestValidationError):
        status, message = HTTPStatus.BAD_REQUEST, _first(error)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
        message = f"Unauthorized: {error}"
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        wait_s = error.retry_after_s if isinstance(error, TooManyRequests) else 1
        headers["Retry-After"] = str(math.ceil(wait_s))
    return answer({"ok": False, "message": message}, status, headers)


def _status(error: AckbusError) -> HTTPStatus:
    if isinstance(error, InvalidInput | NotClaimed | NotPending):
        return HTTPStatus.BAD_REQUEST
    return status_of(error)


def _first(error: RequestValidationError) -> str:
    found: dict[str, Any] = error.errors()[0]
    return f"{'.'.join(map(str, found['loc']))}: {found['msg']}"
