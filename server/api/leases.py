"""Leases and reservations: exclusive rights that expire."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field

from ...bus.leases import Lease
from ...bus.local_bus import LocalBus
from ...bus.reservations.reservations import DEFAULT_RESERVATION_S, Reservation
from ...schema.errors import BusBusy, LeaseLost
from ...schema.message.names import MAX_SEQ
from ...subscribers.overview.agents import holder_of
from ..access.access import TheClient
from ..access.tokens import Held, Principal, Reserved
from ..records import DEFAULT_AGENT_TEXT, MAX_ENTRIES, Name, RequestBody
from .common import TheBus, new_router, problems

router = new_router("leases")

LeaseName = Annotated[str, Field(min_length=1, max_length=512)]
LeaseS = Annotated[float, Field(gt=0, le=86_400, description="How long it lasts, in seconds.")]
FilePath = Annotated[str, Field(min_length=1, max_length=1024)]
Holder = Annotated[Name | None, Field(description=f"The holder; {DEFAULT_AGENT_TEXT}.")]
Editor = Annotated[Name | None, Field(description=f"The editing agent; {DEFAULT_AGENT_TEXT}.")]
LeaseToken = Annotated[
    int, Path(ge=1, le=MAX_SEQ, description="The token that its grant returned.")
]


class LeaseBody(RequestBody):
    """A lease to acquire."""

    name: LeaseName = Field(description="The name of the lease.")
    holder: Holder = None
    lease_s: LeaseS = 60.0


class LeaseRenewalBody(RequestBody):
    """The new end of a lease."""

    lease_s: LeaseS = 60.0


class LeaseRecord(BaseModel):
    """A granted lease."""

    name: str
    holder: str
    token: int = Field(description="The fencing token: a later grant has a larger one.")
    until: str = Field(description="When it ends unless it is renewed.")


class LeaseList(BaseModel):
    """The leases that are held now, by name."""

    leases: list[LeaseRecord]


@router.get("/leases", responses=problems())
def list_leases(bus: TheBus) -> LeaseList:
    """List the leases that are held now."""
    return LeaseList(leases=[LeaseRecord(**lease.record()) for lease in bus.leases.list()])


@router.post("/leases", status_code=201, responses=problems(409))
def acquire_lease(options: LeaseBody, bus: TheBus, holder: TheClient) -> LeaseRecord:
    """Acquire a lease. A held lease is a conflict; the problem names its holder."""
    holder.check_may_lease(options.name)
    name = holder.act_as(options.holder, "holder")
    lease = bus.leases.acquire(options.name, name, lease_s=options.lease_s)
    if lease is not None:
        return LeaseRecord(**lease.record())
    present = bus.leases.get(options.name)
    if present is None or present.until_ms <= bus.now_ms():
        raise BusBusy(f"lease {options.name!r} was held, and has become free only now; try again")
    record = LeaseRecord(**present.record())
    text = f"lease {present.name!r} is held by {present.holder} until {record.until}"
    raise Held(text, record.model_dump())


@router.post("/leases/{token}/renew", responses=problems(409))
def renew_lease(
    token: LeaseToken, renewal: LeaseRenewalBody, bus: TheBus, holder: TheClient
) -> LeaseRecord:
    """Extend a lease to `lease_s` from now. Safe to repeat. A lost lease is a conflict."""
    renewed = bus.leases.renew(_held(bus, token, holder), lease_s=renewal.lease_s)
    return LeaseRecord(**renewed.record())


@router.post("/leases/{token}/release", status_code=204, responses=problems(409))
def release_lease(token: LeaseToken, bus: TheBus, holder: TheClient) -> None:
    """Release a lease. A lost lease is a conflict."""
    bus.leases.release(_held(bus, token, holder))


def _held(bus: LocalBus, token: int, holder: Principal) -> Lease:
    """Return the lease of a token, which is of an agent that the principal may act as."""
    lease = next((candidate for candidate in bus.leases.list() if candidate.token == token), None)
    if lease is None:
        raise LeaseLost(f"no lease has the token {token} now; acquire it again")
    holder.check_may_lease(lease.name)
    holder.act_as(lease.holder, "holder")
    return lease


# Reservations of files -------------------------------------------------------------------------


class ReservationsBody(RequestBody):
    """Files to reserve."""

    paths: list[FilePath] = Field(
        min_length=1,
        max_length=MAX_ENTRIES,
        description="Paths and globs from the root of the project.",
    )
    agent: Editor = None
    shared: bool = Field(False, description="Others may reserve them shared, too.")
    lease_s: LeaseS = DEFAULT_RESERVATION_S
    reason: str | None = Field(None, min_length=1, max_length=255, description="For people.")


class ReservationRenewalBody(RequestBody):
    """The new end of a reservation."""

    lease_s: LeaseS = DEFAULT_RESERVATION_S


class ReservationRecord(BaseModel):
    """A granted reservation."""

    path: str
    agent: str
    mode: str
    token: int
    reserved: str
    until: str
    reason: str | None


class ReservationList(BaseModel):
    """Reservations."""

    reservations: list[ReservationRecord]


@router.get("/reservations", responses=problems())
def list_reservations(
    bus: TheBus,
    agent: Annotated[str | None, Query(description="Only those of this agent.")] = None,
    path: Annotated[
        str | None,
        Query(min_length=1, max_length=1024, description="Only those that share a file with it."),
    ] = None,
) -> ReservationList:
    """List the reservations that hold now, by path."""
    return _list(bus.reservations.list(agent=agent, path=path))


@router.post("/reservations", status_code=201, responses=problems(409))
def reserve_files(options: ReservationsBody, bus: TheBus, editor: TheClient) -> ReservationList:
    """Reserve files for editing: all of the paths, or none.

    Reservations of others that share a file with them are a conflict; the problem lists them all.
    """
    outcome = bus.reservations.reserve(
        options.paths,
        editor.act_as(options.agent),
        shared=options.shared,
        lease_s=options.lease_s,
        reason=options.reason,
    )
    if outcome.granted:
        return _list(outcome.reservations)
    conflicts = [
        {
            "path": conflict.path,
            "held": conflict.held.record(),
            "holder": holder_of(bus, conflict.held).record(),
        }
        for conflict in outcome.conflicts
    ]
    first = outcome.conflicts[0]
    about = holder_of(bus, first.held)
    text = f"{first.path} is reserved by {first.held.agent} as {first.held.path} ({about})"
    raise Reserved(f"{text}; nothing was reserved", conflicts)


@router.post("/reservations/{token}/renew", responses=problems(409))
def renew_reservation(
    token: LeaseToken, renewal: ReservationRenewalBody, bus: TheBus, editor: TheClient
) -> ReservationRecord:
    """Extend a reservation to `lease_s` from now. Safe to repeat. A lost one is a conflict."""
    agent = _editor_of(bus, token, editor)
    renewed = bus.reservations.renew(token, agent, lease_s=renewal.lease_s)
    return ReservationRecord(**renewed.record())


@router.post("/reservations/{token}/release", status_code=204, responses=problems(409))
def release_reservation(token: LeaseToken, bus: TheBus, editor: TheClient) -> None:
    """Release a reservation. A lost one is a conflict."""
    bus.reservations.release(token, _editor_of(bus, token, editor))


def _editor_of(bus: LocalBus, token: int, editor: Principal) -> str:
    """Return the agent that has a reservation, and that the principal may act as."""
    reservation = next(
        (candidate for candidate in bus.reservations.list() if candidate.token == token), None
    )
    if reservation is None:
        raise LeaseLost(f"no reservation has the token {token} now; reserve again what you need")
    return editor.act_as(reservation.agent)


def _list(reservations: list[Reservation]) -> ReservationList:
    return ReservationList(
        reservations=[ReservationRecord(**reservation.record()) for reservation in reservations]
    )
