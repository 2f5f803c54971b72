"""Leases: acquire, renew, release, list."""

from __future__ import annotations

from typing import Annotated

import typer

from ...bus.leases import Lease
from ...schema.errors import AckbusError, Refused, TimedOut
from ...schema.message.times import format_ts
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, Place, PlaceOnly
from ..show import output

commands = Commands()
lease = commands.group("lease", help="Named exclusive rights that expire.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the lease.")]
Holder = Annotated[str | None, optional("A", "The holder. Default: $BUS_AGENT.", "--agent")]
Token = Annotated[
    int, typer.Option(metavar="N", min=1, help="The token that bus lease acquire printed.")
]
Wait = Annotated[
    str | None, optional("S", "How long to wait while it is held: seconds, or like 500ms, 10m, 2h.")
]
Ttl = Annotated[
    str, typer.Option(metavar="S", help="How long it lasts: seconds, or like 500ms, 10m, 2h.")
]


@lease.command("acquire", example="bus lease acquire deploy --agent worker-1 --ttl 2m --json")
def acquire(
    name: Name,
    holder: Holder = None,
    ttl: Ttl = "60",
    wait: Wait = None,
    place: Place = HERE,
) -> int:
    """Acquire a lease, and print it with its fencing token.

    Exit code 3 when it is held, 5 when --wait ran out or others kept the bus locked.
    """
    holder = _holding(holder)
    wait_s = 0.0 if wait is None else arguments.seconds(wait, "--wait")
    ttl_s = arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        granted = bus.leases.acquire(name, holder, lease_s=ttl_s, wait_s=wait_s)
        held, now_ms = None if granted else bus.leases.get(name), bus.now_ms()
    if granted:
        _print(granted)
        return 0
    output.result({"granted": False, "name": name} | _holder(held))
    raise refusal(name, held, now_ms, waited=wait_s > 0)


def refusal(name: str, held: Lease | None, now_ms: int, *, waited: bool) -> AckbusError:
    """Return the error of a lease that was not granted, from a later look at it."""
    if held is None or held.until_ms <= now_ms:
        return TimedOut(f"lease {name!r} was held, and has become free only now; try again")
    state = f"is held by {held.holder} until {format_ts(held.until_ms)}"
    return (TimedOut if waited else Refused)(f"lease {name!r} {state}")


@lease.command("renew", example="bus lease renew deploy --agent worker-1 --token 7")
def renew(
    name: Name,
    token: Token,
    holder: Holder = None,
    ttl: Ttl = "60",
    place: Place = HERE,
) -> int:
    """Extend a lease to --ttl from now.

    Exit code 3 when it is no longer held with this token.
    """
    held = Lease(name, _holding(holder), token, 0, 0)
    ttl_s = arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        _print(bus.leases.renew(held, lease_s=ttl_s))
    return 0


@lease.command("release", example="bus lease release deploy --agent worker-1 --token 7")
def release(name: Name, token: Token, holder: Holder = None, place: PlaceOnly = HERE) -> int:
    """Release a lease.

    Exit code 3 when it is no longer held with this token.
    """
    held = Lease(name, _holding(holder), token, 0, 0)
    with place.open() as bus:
        bus.leases.release(held)
    return 0


@lease.command("list", example="bus lease list --json")
def list_leases(place: Place = HERE) -> int:
    """List the leases that are held now.

    Exit code 4 when there are none.
    """
    with place.open() as bus:
        held = bus.leases.list()
    return output.results([each.record() for each in held])


def _holding(name: str | None) -> str:
    return arguments.sender(name, "--agent")


def _print(held: Lease) -> None:
    until = format_ts(held.until_ms)
    record = {"granted": True, "name": held.name, "holder": held.holder, "token": held.token}
    output.result(
        record | {"until": until},
        f"{held.name}  {held.holder}  token {held.token}  until {until}",
    )


def _holder(held: Lease | None) -> dict[str, object]:
    """Return the holder of a refused lease; empty when it has become free meanwhile."""
    if held is None:
        return {}
    return {"held_by": held.holder, "token": held.token, "until": format_ts(held.until_ms)}
