"""Parameters, dependencies and responses that the operations of PushPals' forms share."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from anyio import to_thread
from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ...bus import tracing
from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.sqlite.rules.damaged_rows import damage_behind
from ...tasks.control.entries import Entries, NotClaimed, is_of_client, whole_number
from ...tasks.control.ingress import NotPending
from ...tasks.control.jobs import JobQueue, Sweep
from ...tasks.control.requests import Requests, Tell
from ...tasks.control.sessions import Sessions
from ..access.tokens import LOCAL, Principal, Scope, TooManyRequests, Unauthorized
from ..problems import status_of

#: The name of an agent that does not say who it is.
UNKNOWN = "unknown"

#: The largest number of milliseconds that a client may ask for: ten years.
_MAX_MS = 315_360_000_000


async def the_bus(request: Request) -> LocalBus:
    """Return the bus that is served."""
    bus: LocalBus = request.app.state.bus
    return bus


async def the_body(request: Request) -> dict[str, Any]:
    """Return the object that a request carries; {} for anything else, as PushPals reads it."""
    try:
        body = decode(await request.body(), "the body")
    except InvalidInput:
        return {}
    return body if isinstance(body, dict) else {}


async def the_trace(request: Request) -> dict[str, str]:
    """Return the trace context of a request, for the messages that it publishes."""
    return {} if tracing.current_trace() else tracing.given_trace(request.headers)


async def the_sweep(request: Request) -> Sweep:
    """Return the sweep of stale jobs."""
    sweep: Sweep = request.app.state.sweep
    return sweep


async def the_teller(request: Request) -> Tell:
    """Return the publisher of session events."""
    tell: Tell = request.app.state.tell
    return tell


async def the_sessions(request: Request) -> Sessions:
    """Return the sessions."""
    sessions: Sessions = request.app.state.sessions
    return sessions


TheBus = Annotated[LocalBus, Depends(the_bus)]
TheTeller = Annotated[Tell, Depends(the_teller)]


async def the_requests(bus: TheBus, tell: TheTeller) -> Requests:
    """Return the queue of requests."""
    return Requests(bus, tell)


async def the_jobs(bus: TheBus, tell: TheTeller) -> JobQueue:
    """Return the queue of jobs."""
    return JobQueue(bus, tell)


TheBody = Annotated[dict[str, Any], Depends(the_body)]
TheTrace = Annotated[dict[str, str], Depends(the_trace)]
TheSessions = Annotated[Sessions, Depends(the_sessions)]
TheSweep = Annotated[Sweep, Depends(the_sweep)]
TheRequests = Annotated[Requests, Depends(the_requests)]
TheJobs = Annotated[JobQueue, Depends(the_jobs)]


def answer(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a JSON object."""
    all_headers = {"Cache-Control": "no-store", **(headers or {})}
    return Response(orjson.dumps(body), status, all_headers, media_type="application/json")


def ok(status: int = 200, /, **fields: Any) -> Response:
    """Return the response that something went well."""
    return answer({"ok": True, **fields}, status)


def none_left(what: str) -> Response:
    """Return the response that nothing waits for this client."""
    return answer({"ok": False, "message": f"No pending {what}"}, 404)


def name_in(body: Mapping[str, Any], field: str) -> str | None:
    """Return the agent that a field of a body names, or None."""
    name = body.get(field)
    return name.strip() or None if isinstance(name, str) else None


def worker_in(body: Mapping[str, Any], field: str, principal: Principal) -> str:
    """Return the agent that claims: the one that a field names, or that of the token.

    Raises:
        Forbidden: the token is bound to another.
    """
    return principal.work_as(name_in(body, field) or principal.agent or UNKNOWN)


def sender_in(body: Mapping[str, Any], principal: Principal) -> str | None:
    """Return the agent that publishes: the one that `from` names, or that of the token, or None.

    Raises:
        Forbidden: the token is bound to another.
    """
    return principal.own(name_in(body, "from"))


def client_of(principal: Principal) -> str | None:
    """Return the name of the token by which a client asks; None where none is needed."""
    return None if principal is LOCAL else principal.name


def check_own_claim(
    entries: Entries, id: str | None, principal: Principal, statuses: Container[str]
) -> None:
    """Refuse what may come only under a claim of the client's own, unless its token may do all.

    Args:
        entries: of the queue of which the claim is.
        id: of the entry that is claimed; None: none is named.
        principal: the client: of its agent, or of its token, has the claim to be.
        statuses: how the newest claim of the entry may stand.

    Raises:
        Forbidden: there is no such claim.
    """
    if principal.may(Scope.TASKS_RW):
        return
    entry = None if id is None else entries.get(id)
    claim = None if entry is None else entry.claim
    if claim is not None and claim.status in statuses:
        is_own = claim.group == principal.agent or is_of_client(claim.instance, principal.name)
        if is_own:
            return
    why = f"this client has claimed none of {entries.name!r} that it names: "
    principal.require(Scope.TASKS_RW, why=why)


def ender_in(body: Mapping[str, Any], field: str, principal: Principal) -> str | None:
    """Return the agent that claims to hold an entry; None where the request names none.

    Raises:
        Forbidden: the token is bound to another.
    """
    named = name_in(body, field) or principal.agent
    return None if named is None else principal.work_as(named)


def status_asked(text: str | None) -> str | None:
    """Return the status that a client asks for; None for all."""
    status = (text or "all").strip().lower()
    return None if status == "all" else status


def ms_of(text: str | None, default: int) -> int:
    """Return the milliseconds that a client asks for; the default unless that is positive."""
    asked = whole_number(text) or 0
    return min(asked, _MAX_MS) if asked > 0 else default


# Errors in the form of PushPals: `ok` is false, and `message` says why.


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
    first: dict[str, Any] = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
