"""Errors as problem details (RFC 9457)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from anyio import to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match

from ..bus.errors import MessageDiscarded
from ..schema.errors import (
    AckbusError,
    BlobMissing,
    BusBusy,
    BusNotFound,
    BusUnusable,
    IdConflict,
    InvalidInput,
    LimitReached,
    MailArchived,
    NotFound,
    Refused,
    RowDamaged,
    StatementRefused,
    TimedOut,
    UnknownRecipient,
)
from ..schema.sqlite.rules.damaged_rows import damage_behind
from ..subscribers.jobs.errors import ClaimLost, QueueStuck
from .access.tokens import Forbidden, Held, Reserved, TooManyRequests, Unauthorized

MEDIA_TYPE = "application/problem+json"

#: The default `Retry-After`, in seconds: the bus is busy, or full.
_RETRY = {"Retry-After": "1"}
#: Further headers, by status.
_HEADERS: dict[int, dict[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"},
    HTTPStatus.TOO_MANY_REQUESTS: _RETRY,
    HTTPStatus.SERVICE_UNAVAILABLE: _RETRY,
}


_NO_PATH = "{document} has all paths; a slash in a name is written %2F"

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

#: How many mistakes of a request a problem lists, and how much of the path to each.
_ERRORS, _AT = 20, 200

#: The status that servers note for a client that went away; no client sees it.
_CLIENT_GONE = 499

#: The kind of problem that too long a body is.
TOO_LARGE = "content-too-large"
#: The kinds of problems of which the words of the status differ between Pythons.
_KINDS = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: TOO_LARGE,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "range-not-satisfiable",
}


class Amiss(BaseModel):
    """One thing that is wrong with a request."""

    at: str = Field(description="Where: like `body.type`; `request` where only `why` says it.")
    why: str = Field(description="Why it is refused.")


class Problem(BaseModel):
    """A problem: RFC 9457, with the facts of the error as further members."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Names the kind of problem.", examples=["urn:ackbus:id-conflict"])
    title: str = Field(description="The kind of problem, in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened, and what to do next.")
    errors: list[Amiss] | None = Field(
        None, description="With status 422, always: what is wrong with the request."
    )


#: The status of each kind of error; the first that fits.
_STATUSES: tuple[tuple[type[AckbusError], HTTPStatus], ...] = (
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (Unauthorized, HTTPStatus.UNAUTHORIZED),
    (Forbidden, HTTPStatus.FORBIDDEN),
    (TooManyRequests, HTTPStatus.TOO_MANY_REQUESTS),
    (LimitReached, HTTPStatus.TOO_MANY_REQUESTS),
    (Refused, HTTPStatus.CONFLICT),
    (BusNotFound, HTTPStatus.SERVICE_UNAVAILABLE),
    (QueueStuck, HTTPStatus.CONFLICT),
    (MessageDiscarded, HTTPStatus.NOT_FOUND),
    (RowDamaged, HTTPStatus.INTERNAL_SERVER_ERROR),  # a retry can't help
    (BusUnusable, HTTPStatus.SERVICE_UNAVAILABLE),
    (BlobMissing, HTTPStatus.NOT_FOUND),
    (NotFound, HTTPStatus.NOT_FOUND),
    (BusBusy, HTTPStatus.SERVICE_UNAVAILABLE),
    (TimedOut, HTTPStatus.GATEWAY_TIMEOUT),
    (AckbusError, HTTPStatus.INTERNAL_SERVER_ERROR),
)

#: The attributes of errors that become members of their problems.
_FACTS: dict[type[AckbusError], tuple[str, ...]] = {
    IdConflict: ("id", "seq", "fields"),
    LimitReached: ("kind", "name", "max_waiting"),
    UnknownRecipient: ("agent", "nearest"),
    MailArchived: ("agent", "last_seq"),
    ClaimLost: ("ended_as",),
    QueueStuck: ("first_seq", "last_seq"),
    MessageDiscarded: ("first_seq", "last_seq"),
    RowDamaged: ("table", "row", "column"),
    Held: ("held",),
    Reserved: ("conflicts",),
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problem responses of an operation, for its documentation."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def problem(status: int, kind: str, detail: str, /, **facts: object) -> Response:
    """Return a problem as a response; `kind` is the last part of its type."""
    headers = {"Cache-Control": "no-store"} | _HEADERS.get(status, {})
    body = {
        "type": f"urn:ackbus:{kind}",
        "title": kind.replace("-", " ").capitalize(),
        "status": int(status),
        "detail": detail,
        **facts,
    }
    return Response(orjson.dumps(body), status, headers, MEDIA_TYPE)


@dataclass(frozen=True)
class ProblemStyle:
    """The form of an application's problems.

    Attributes:
        invalid: the status of input that breaks a rule.
        has_error: whether `error` repeats the detail, for clients that read that alone.
    """

    invalid: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
    has_error: bool = False


def handle_problems(app: FastAPI, style: ProblemStyle | None = None) -> None:
    """Make every error of an application a problem."""
    app.state.problem_style = style or ProblemStyle()
    app.add_exception_handler(AckbusError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(ClientDisconnect, _of_nobody)
    app.add_exception_handler(Exception, _of_defect)


def refusal(
    request: HTTPConnection, status: int, kind: str, detail: str, /, **facts: object
) -> Response:
    """Return a problem in the style of the application."""
    style: ProblemStyle = request.app.state.problem_style
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        status = style.invalid
        facts.setdefault("errors", [{"at": "request", "why": detail}])
    extra = {"error": detail} if style.has_error else {}
    return problem(status, kind, detail, **facts, **extra)


def status_of(error: AckbusError) -> HTTPStatus:
    """Return the status of an error."""
    return next(status for kind, status in _STATUSES if isinstance(error, kind))


async def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, AckbusError)
    if isinstance(error, StatementRefused):
        damaged = await to_thread.run_sync(damage_behind, error)
        if damaged is not None:
            return await _of_ours(request, damaged)
    status = status_of(error)
    facts = {name: getattr(error, name) for name in _FACTS.get(type(error), ())}
    kind = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__).lower()
    response = refusal(request, status, kind, str(error), **facts)
    if isinstance(error, TooManyRequests):
        response.headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return response


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = error.errors()
    wrong = [
        {"at": ".".join(map(str, mistake["loc"]))[:_AT], "why": mistake["msg"]}
        for mistake in errors[:_ERRORS]
    ]
    detail = "; ".join(f"{mistake['at']}: {mistake['why']}" for mistake in wrong)
    if len(errors) > _ERRORS:
        detail += f"; and {len(errors) - _ERRORS} more"
    status = HTTPStatus.UNPROCESSABLE_ENTITY
    return refusal(request, status, "invalid-input", detail, errors=wrong)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    kind = _KINDS.get(status) or status.phrase.lower().replace(" ", "-")
    cause = error.__cause__  # why a body was refused
    why = str(cause) if isinstance(cause, AckbusError) else status.phrase
    if status == HTTPStatus.NOT_FOUND:
        why = _NO_PATH.format(document=request.app.openapi_url)
    response = refusal(request, status, kind, f"{request.method} {request.url.path}: {why}")
    response.headers.update(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["Allow"] = ", ".join(_methods(request))
    return response


def _methods(request: Request) -> Iterator[str]:
    """Yield the methods of a path: Starlette gives only those of the first matching route."""
    for method in _METHODS:
        asked = {**request.scope, "method": method}
        if any(route.matches(asked)[0] is Match.FULL for route in request.app.routes):
            yield method


async def _of_nobody(request: Request, error: Exception) -> Response:
    """Answer a request whose client disconnected while sending it; only metrics see the answer."""
    return Response(status_code=_CLIENT_GONE)


async def _of_defect(request: Request, error: Exception) -> Response:
    """Return a problem that names the damaged row behind an error, if there is one.

    Otherwise it says only that there is a defect: the server's log has the details.
    """
    damaged = await to_thread.run_sync(damage_behind, error)
    if damaged is not None:
        return await _of_ours(request, damaged)
    detail = f"{request.method} {request.url.path}: a defect of the server; its output tells more"
    return refusal(request, HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", detail)
