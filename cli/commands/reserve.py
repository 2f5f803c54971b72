"""Reservations of files: reserve, reservations; reservations renew, release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ...schema.errors import InvalidInput, Refused
from ...schema.message.times import format_ts
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, Place, PlaceOnly
from ..own_session import process_here
from ..show import output
from ..show.reservations import conflict_record, describe, state_of_holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...bus.bus import Bus
    from ...bus.reservations.reservations import Conflict, Reservation

commands = Commands()

Who = Annotated[str | None, optional("A", "The editing agent. Default: $BUS_AGENT.", "--agent")]
Ttl = Annotated[
    str, typer.Option(metavar="S", help="How long it lasts: seconds, or like 500ms, 10m, 2h.")
]
Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATHS...",
        help="Files, folders with all below them, globs (*, ?, [a-z], **): from the root of "
        "the project wherever you are; ./ and ../ are from here.",
    ),
]
Shared = Annotated[bool, typer.Option("--shared", help="Others may reserve the files shared, too.")]
Exclusive = Annotated[
    bool,
    typer.Option("--exclusive", help="No other agent may edit the files; this is the default."),
]
Reason = Annotated[str | None, optional("TEXT", "The reason, for agents that want the files too.")]
TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="End conflicting reservations of others; needs --reason."),
]
Tokens = Annotated[
    list[int] | None, optional_word("[TOKEN]...", "The tokens that bus reserve printed.")
]
All = Annotated[bool, typer.Option("--all", help="All that the agent has.")]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The reservations that a command acts on."""

    tokens: Tokens = None
    everything: All = False

    def of(self, bus: Bus, editor: str) -> list[int]:
        """Return their tokens."""
        if bool(self.tokens) == self.everything:
            raise InvalidInput("give either TOKENs or --all; see 'bus reservations'")
        return self.tokens or [each.token for each in bus.reservations.list(agent=editor)]


@commands.command(
    "reserve", example="bus reserve src/api 'docs/*.md' --agent ann --reason 'new routes'"
)
def reserve(
    paths: Paths,
    shared: Shared = False,
    exclusive: Exclusive = False,
    ttl: Ttl = "1h",
    reason: Reason = None,
    take: TakeOver = False,
    agent: Who = None,
    place: Place = HERE,
) -> int:
    """Reserve files for editing: all of PATHS, or none.

    Reserving a path again extends its reservation. One that an agent makes in a session ends with
    the session's process, too. Exit code 3 when a reservation of another agent shares a file with
    one of PATHS; --take-over ends that one, and tells its holder.
    """
    from ...bus.reservations.project_paths import note_for, paths_from_root, project_root
    from ...subscribers.overview.reservation_holders import take_over

    if shared and exclusive:
        raise InvalidInput("give --shared or --exclusive, not both")
    if take and not reason:
        raise InvalidInput("--take-over needs --reason: its holder is told")
    editor, ttl_s = _editor(agent), arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        root = project_root(bus.layout.directory)
        wanted = [each for path in paths for each in paths_from_root(path, root)]
        own = process_here(bus, editor)
        if take:
            found = take_over(
                bus,
                wanted,
                editor,
                reason=str(reason),
                by_hand=True,
                shared=shared,
                lease_s=ttl_s,
                session=own,
            )
        else:
            found = bus.reservations.reserve(
                wanted, editor, shared=shared, lease_s=ttl_s, reason=reason, session=own
            )
        refused = _refusal(bus, found.conflicts)
        conflicts = [conflict_record(bus, each) for each in found.conflicts]
    for note in filter(None, (note_for(path, root) for path in paths)):
        output.note(note)
    record = {
        "granted": found.granted,
        "reservations": [each.record() for each in found.reservations],
        "conflicts": conflicts,
    }
    output.result(record, *map(_line, found.reservations))
    if refused is not None:
        raise refused
    return 0


def _refusal(bus: Bus, conflicts: Sequence[Conflict]) -> Refused | None:
    """Return the error about the conflicts of a refused reservation; None where there are none."""
    from ...bus.reservations.reservations import MAX_CONFLICTS

    if not conflicts:
        return None
    more = len(conflicts) - 1
    others = f" (and {output.counted(more, 'more conflict')})" if more else ""
    if len(conflicts) == MAX_CONFLICTS:
        others = f" (and {more} more conflicts, or still more)"
    state = state_of_holder(bus, conflicts[0])
    return Refused(f"{describe(conflicts[0])}; {state}{others}; nothing was reserved")


group = commands.group(
    "reservations",
    help="Reservations: the files that agents edit. Without a command: list.",
    default="list",
)


@group.command("list", example="bus reservations list --path src")
def show_list(
    agent: Annotated[str | None, optional("A", "Only those of this agent.")] = None,
    path: Annotated[
        str | None, optional("P", "Only those that share a file with this path or glob.")
    ] = None,
    place: Place = HERE,
) -> int:
    """List the reservations that hold now.

    'bus reservations' is the same. Exit code 4 when there are none.
    """
    from ...bus.reservations.project_paths import paths_from_root, project_root

    with place.open() as bus:
        wanted: list[str | None] = [None]
        if path is not None:
            wanted = [*paths_from_root(path, project_root(bus.layout.directory))]
        found = [each for one in wanted for each in bus.reservations.list(agent=agent, path=one)]
    records = [each.record() for each in dict.fromkeys(found)]
    return output.results(records)


@group.command("renew", example="bus reservations renew 7 8 --ttl 2h")
def renew(chosen: Chosen, ttl: Ttl = "1h", agent: Who = None, place: Place = HERE) -> int:
    """Extend reservations to --ttl from now: all named ones, or none.

    Exit code 3 when the agent no longer has one of them.
    """
    editor, ttl_s = _editor(agent), arguments.seconds(ttl, "--ttl")
    with place.open() as bus, bus.transaction():
        renewed = [
            bus.reservations.renew(token, editor, lease_s=ttl_s) for token in chosen.of(bus, editor)
        ]
    for each in renewed:
        output.result(each.record(), _line(each))
    return 0 if renewed else output.NOTHING


@group.command("release", example="bus reservations release 7")
def release(chosen: Chosen, agent: Who = None, place: PlaceOnly = HERE) -> int:
    """Release reservations: all that are named, or none.

    Exit code 3 when the agent no longer has one of them.
    """
    editor = _editor(agent)
    with place.open() as bus, bus.transaction():
        for token in chosen.of(bus, editor):
            bus.reservations.release(token, editor)
    return 0


def _editor(agent: str | None) -> str:
    return arguments.sender(agent, "--agent")


def _line(held: Reservation) -> str:
    until = format_ts(held.until_ms)
    return f"{held.path}  {held.agent}  {held.mode}  token {held.token}  until {until}"
