"""Blobs: put, get, verify, gc."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from ...bus.local_bus import COLLECT_AFTER_S, LocalBus
from ...schema.errors import AckbusError, BlobAltered, BlobMissing, InvalidInput, NotFound
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, BusPlace, BusPlaceOnly
from ..options.payload import STDIN, open_input, reason
from ..show.output import Output
from ..show.terminal import progress
from ..show.text import counted

commands = Commands()
blob = commands.group("blob", help="Large payloads, stored under their hashes.")

Ref = Annotated[str, typer.Argument(metavar="REF", help="A name like sha256-….")]


@blob.command("put", example="bus blob put screenshot.png")
def put(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What to store; - reads stdin.")
    ] = STDIN,
    place: BusPlace = HERE,
) -> int:
    """Store bytes of any size, and print their name."""
    with place.open() as bus, closing(open_input(file)) as content:
        ref = bus.blobs.put(content)
        size = bus.blobs.size(ref)
    place.output.result({"ref": ref, "bytes": size}, ref)
    return 0


@blob.command("get", example='bus blob get "$REF" --output screenshot.png')
def get(
    ref: Ref,
    to: Annotated[
        str | None, optional("FILE", "Where to. Default: stdout.", "--output", "-o")
    ] = None,
    place: BusPlaceOnly = HERE,
) -> int:
    """Print a blob's bytes, checked against its name."""
    with place.open() as bus:
        if to is None and place.output.is_terminal():
            raise InvalidInput("a blob may hold anything; name a FILE with -o, or use a pipe")
        if to is None:
            bus.blobs.copy(ref, place.output.stream())
            return 0
        bus.blobs.verify(ref)  # before the file is emptied
        try:
            with open(to, "wb") as file:
                bus.blobs.copy(ref, file)
        except AckbusError:  # of the blob; one that is missing is an OSError too
            raise
        except OSError as error:
            raise AckbusError(f"can't write {to}: {reason(error)}") from error
    return 0


@blob.command("verify", example="bus blob verify")
def verify(
    refs: Annotated[list[str] | None, optional_word("[REF]...", "Default: all of them.")] = None,
    place: BusPlace = HERE,
) -> int:
    """Check blobs against their names.

    Exit code 1 when one is altered or can't be read, 4 when one is missing.
    """
    worst: AckbusError | None = None
    with place.open() as bus:
        chosen = refs or sorted(bus.blobs)
        with progress("verifying", len(chosen)) as move:
            for count, ref in enumerate(chosen, 1):
                problem = _verify(place.output, bus, ref)
                worst = worst if problem is None or isinstance(problem, NotFound) else problem
                worst = worst or problem
                move(count)
    if worst is not None:
        raise worst
    return 0


def _verify(output: Output, bus: LocalBus, ref: str) -> AckbusError | None:
    """Check one blob, print the result, and return its error, if any."""
    try:
        size = bus.blobs.verify(ref)
    except InvalidInput:
        raise
    except AckbusError as error:
        state = _state(error)
        output.result({"ref": ref, "ok": False, "error": f"blob_{state}"}, f"{ref}  {state}")
        return error
    output.result({"ref": ref, "ok": True, "bytes": size}, f"{ref}  ok")
    return None


def _state(error: AckbusError) -> str:
    if isinstance(error, BlobMissing):
        return "missing"
    return "altered" if isinstance(error, BlobAltered) else "unreadable"


@blob.command("gc", example="bus blob gc --older-than 7d --dry-run")
def gc(
    older_than: Annotated[
        str,
        typer.Option(metavar="D", help="Blobs unused for so long: seconds, or like 10m, 2h, 7d."),
    ] = f"{COLLECT_AFTER_S / 3600:g}h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print what would go.")
    ] = False,
    place: BusPlace = HERE,
) -> int:
    """Delete old blobs that no message names.

    One is old when no program has put or read it for as long as --older-than says.
    """
    age_s = arguments.seconds(older_than, "--older-than")
    with place.open() as bus:
        count, size = (
            _would_collect(bus, age_s) if dry_run else (bus.collect_blobs(older_than_s=age_s))
        )
    what = f"{counted(count, 'blob')}, {counted(size, 'byte')}"
    place.output.result(
        {"blobs": count, "bytes": size, "dry_run": dry_run},
        f"{'would collect' if dry_run else 'collected'} {what}",
    )
    return 0


def _would_collect(bus: LocalBus, age_s: float) -> tuple[int, int]:
    """Return how many blobs, and bytes, the collector would delete."""
    sizes = [
        bus.blobs.size(ref) for ref in bus.blobs.older_than(age_s) if not bus.log.names_blob(ref)
    ]
    return len(sizes), sum(sizes)
