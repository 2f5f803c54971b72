"""Files and other things for one agent at a time: reserve, reservations, lease, guard."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer

from ...bus.leases import Lease
from ...git.guard import GuardHook, GuardHooks, moved_hooks
from ...git.repository import GitFailed
from ...git.work_tree import WorkTree
from ...schema.directory.layout import BUS_DIRECTORY
from ...schema.errors import AckbusError, InvalidInput, Refused, TimedOut
from ...schema.message.times import format_ts
from .. import arguments, guard_check
from ..definition import Commands, optional, optional_word
from ..guard_check import (
    BLOCK,
    WARN,
    check_mode,
    conflict_record,
    describe,
    open_bus,
    state_of_holder,
)
from ..options.common import HERE, BusPlace, BusPlaceOnly, Json, Verbose
from ..own_session import process_here
from ..show.output import NOTHING, Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...bus.local_bus import LocalBus
    from ...bus.reservations.reservations import Conflict, Reservation

commands = Commands()

Editor = Annotated[str | None, optional("A", "The editing agent. Default: $BUS_AGENT.", "--agent")]
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
class ChosenReservations:
    """The reservations that a command acts on."""

    tokens: Tokens = None
    everything: All = False

    def of(self, bus: LocalBus, editor: str) -> list[int]:
        """Return their tokens."""
        if bool(self.tokens) == self.everything:
            raise InvalidInput("give either TOKENs or --all; see 'bus reservations'")
        return self.tokens or [
            reservation.token for reservation in bus.reservations.list(agent=editor)
        ]


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
    agent: Editor = None,
    place: BusPlace = HERE,
) -> int:
    """Reserve files for editing: all of PATHS, or none.

    Reserving a path again extends its reservation. One that an agent makes in a session ends with
    the session's process, too. Exit code 3 when a reservation of another agent shares a file with
    one of PATHS; --take-over ends that one, and tells its holder.
    """
    from ...bus.reservations.reservations import note_for, paths_from_root, project_root
    from ...subscribers.overview.agents import take_over

    if shared and exclusive:
        raise InvalidInput("give --shared or --exclusive, not both")
    if take and not reason:
        raise InvalidInput("--take-over needs --reason: its holder is told")
    editor, ttl_s = _agent(agent), arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        root = project_root(bus.layout.directory)
        patterns = [pattern for path in paths for pattern in paths_from_root(path, root)]
        own = process_here(bus, editor)
        if take:
            outcome = take_over(
                bus,
                patterns,
                editor,
                reason=str(reason),
                by_hand=True,
                shared=shared,
                lease_s=ttl_s,
                session=own,
            )
        else:
            outcome = bus.reservations.reserve(
                patterns, editor, shared=shared, lease_s=ttl_s, reason=reason, session=own
            )
        refused = _conflict_error(bus, outcome.conflicts)
        conflicts = [conflict_record(bus, conflict) for conflict in outcome.conflicts]
    for note in filter(None, (note_for(path, root) for path in paths)):
        place.output.note(note)
    record = {
        "granted": outcome.granted,
        "reservations": [reservation.record() for reservation in outcome.reservations],
        "conflicts": conflicts,
    }
    place.output.result(record, *map(_line, outcome.reservations))
    if refused is not None:
        raise refused
    return 0


def _conflict_error(bus: LocalBus, conflicts: Sequence[Conflict]) -> Refused | None:
    """Return the error about the conflicts of a refused reservation; None where there are none."""
    from ...bus.reservations.reservations import MAX_CONFLICTS

    if not conflicts:
        return None
    more = len(conflicts) - 1
    others = f" (and {counted(more, 'more conflict')})" if more else ""
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
    place: BusPlace = HERE,
) -> int:
    """List the reservations that hold now.

    'bus reservations' is the same. Exit code 4 when there are none.
    """
    from ...bus.reservations.reservations import paths_from_root, project_root

    with place.open() as bus:
        patterns: list[str | None] = [None]
        if path is not None:
            patterns = [*paths_from_root(path, project_root(bus.layout.directory))]
        reservations = [
            reservation
            for pattern in patterns
            for reservation in bus.reservations.list(agent=agent, path=pattern)
        ]
    records = [reservation.record() for reservation in dict.fromkeys(reservations)]
    return place.output.results(records)


@group.command("renew", example="bus reservations renew 7 8 --ttl 2h")
def renew(
    chosen: ChosenReservations, ttl: Ttl = "1h", agent: Editor = None, place: BusPlace = HERE
) -> int:
    """Extend reservations to --ttl from now: all named ones, or none.

    Exit code 3 when the agent no longer has one of them.
    """
    editor, ttl_s = _agent(agent), arguments.seconds(ttl, "--ttl")
    with place.open() as bus, bus.transaction():
        renewed = [
            bus.reservations.renew(token, editor, lease_s=ttl_s) for token in chosen.of(bus, editor)
        ]
    for reservation in renewed:
        place.output.result(reservation.record(), _line(reservation))
    return 0 if renewed else NOTHING


@group.command("release", example="bus reservations release 7")
def release(chosen: ChosenReservations, agent: Editor = None, place: BusPlaceOnly = HERE) -> int:
    """Release reservations: all that are named, or none.

    Exit code 3 when the agent no longer has one of them.
    """
    editor = _agent(agent)
    with place.open() as bus, bus.transaction():
        for token in chosen.of(bus, editor):
            bus.reservations.release(token, editor)
    return 0


def _agent(agent: str | None) -> str:
    """Return the agent of --agent, or of BUS_AGENT."""
    return arguments.sender(agent, "--agent")


def _line(reservation: Reservation) -> str:
    until = format_ts(reservation.until_ms)
    return (
        f"{reservation.path}  {reservation.agent}  {reservation.mode}  token {reservation.token}"
        f"  until {until}"
    )


# Leases: acquire, renew, release, list.

lease = commands.group("lease", help="Named exclusive rights that expire.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the lease.")]
Holder = Annotated[str | None, optional("A", "The holder. Default: $BUS_AGENT.", "--agent")]
Token = Annotated[
    int, typer.Option(metavar="N", min=1, help="The token that bus lease acquire printed.")
]
Wait = Annotated[
    str | None, optional("S", "How long to wait while it is held: seconds, or like 500ms, 10m, 2h.")
]


@lease.command("acquire", example="bus lease acquire deploy --agent worker-1 --ttl 2m --json")
def acquire(
    name: Name,
    holder: Holder = None,
    ttl: Ttl = "60",
    wait: Wait = None,
    place: BusPlace = HERE,
) -> int:
    """Acquire a lease, and print it with its fencing token.

    Exit code 3 when it is held, 5 when --wait ran out or others kept the bus locked.
    """
    holder = _agent(holder)
    wait_s = 0.0 if wait is None else arguments.seconds(wait, "--wait")
    ttl_s = arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        granted = bus.leases.acquire(name, holder, lease_s=ttl_s, wait_s=wait_s)
        current_lease, now_ms = None if granted else bus.leases.get(name), bus.now_ms()
    if granted:
        _print(place.output, granted)
        return 0
    place.output.result({"granted": False, "name": name} | _holder(current_lease))
    raise lease_error(name, current_lease, now_ms, waited=wait_s > 0)


def lease_error(name: str, lease: Lease | None, now_ms: int, *, waited: bool) -> AckbusError:
    """Return the error of a lease that was not granted, from a later look at it."""
    if lease is None or lease.until_ms <= now_ms:
        return TimedOut(f"lease {name!r} was held, and has become free only now; try again")
    state = f"is held by {lease.holder} until {format_ts(lease.until_ms)}"
    return (TimedOut if waited else Refused)(f"lease {name!r} {state}")


@lease.command("renew", example="bus lease renew deploy --agent worker-1 --token 7")
def renew_lease(
    name: Name,
    token: Token,
    holder: Holder = None,
    ttl: Ttl = "60",
    place: BusPlace = HERE,
) -> int:
    """Extend a lease to --ttl from now.

    Exit code 3 when it is no longer held with this token.
    """
    own_lease = Lease(name, _agent(holder), token, 0, 0)
    ttl_s = arguments.seconds(ttl, "--ttl")
    with place.open() as bus:
        _print(place.output, bus.leases.renew(own_lease, lease_s=ttl_s))
    return 0


@lease.command("release", example="bus lease release deploy --agent worker-1 --token 7")
def release_lease(
    name: Name, token: Token, holder: Holder = None, place: BusPlaceOnly = HERE
) -> int:
    """Release a lease.

    Exit code 3 when it is no longer held with this token.
    """
    own_lease = Lease(name, _agent(holder), token, 0, 0)
    with place.open() as bus:
        bus.leases.release(own_lease)
    return 0


@lease.command("list", example="bus lease list --json")
def list_leases(place: BusPlace = HERE) -> int:
    """List the leases that are held now.

    Exit code 4 when there are none.
    """
    with place.open() as bus:
        leases = bus.leases.list()
    return place.output.results([entry.record() for entry in leases])


def _print(output: Output, lease: Lease) -> None:
    until = format_ts(lease.until_ms)
    record = {"granted": True, "name": lease.name, "holder": lease.holder, "token": lease.token}
    output.result(
        record | {"until": until},
        f"{lease.name}  {lease.holder}  token {lease.token}  until {until}",
    )


def _holder(lease: Lease | None) -> dict[str, object]:
    """Return the holder of a refused lease; empty when it has become free meanwhile."""
    if lease is None:
        return {}
    return {"held_by": lease.holder, "token": lease.token, "until": format_ts(lease.until_ms)}


# The guard: git hooks that compare commits and pushes with the reservations of others.

guard = commands.group("guard", help="Git hooks that protect the files reserved by others.")

#: A variable that git sets for the hook before a commit.
_IN_A_HOOK = "GIT_INDEX_FILE"

#: The help of the options for what the guard does about a conflict.
_MODE_HELP = "block, or warn only. BUS_GUARD=warn or off wins over it."


@guard.command("install", example="bus guard install --mode warn")
def install(
    mode: Annotated[
        str | None, optional("M", f"{_MODE_HELP} Default: that of the installed hooks, else block.")
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Install a pre-commit and a pre-push hook in the git repository. Safe to repeat.

    They lie in a folder of git's, named by core.hooksPath, and run all hooks that were there.
    """
    if mode is not None:
        check_mode(mode, BLOCK, WARN)
    tree = WorkTree.around(os.getcwd())
    with open_bus(place.output, tree, place.directory, place.user) as bus:
        bus_dir = bus.layout.directory
    hooks_find_it = any(_is_found_from(root, bus_dir) for root in (tree.root, tree.main_root))
    hooks = GuardHooks(tree)
    mode = mode or hooks.mode() or BLOCK
    for hook in hooks.install(mode, None if hooks_find_it else bus_dir):
        _print_hook(place.output, hook, mode)
    return 0


@guard.command("remove", example="bus guard remove")
def remove(output: Output, json: Json = False, verbose: Verbose = False) -> int:
    """Remove the hooks, and restore core.hooksPath.

    Exit code 4 when the guard is not installed.
    """
    removed = GuardHooks(WorkTree.around(os.getcwd())).remove()
    for hook in removed:
        _print_hook(output, hook, "removed")
    return 0 if removed else NOTHING


@guard.command("check", example="bus guard check")
def check(
    push: Annotated[
        str | None,
        optional(
            "REMOTE",
            "Check the commits to be pushed there, which git gives a pre-push hook on stdin, "
            "instead of the staged files.",
        ),
    ] = None,
    mode: Annotated[str, typer.Option(metavar="M", help=_MODE_HELP)] = BLOCK,
    hand_on: Annotated[
        bool,
        typer.Option("--hand-on", help="With --push: print git's lines, for the next hook."),
    ] = False,
    agent: Annotated[str | None, optional("A", "The editing agent. Default: $BUS_AGENT.")] = None,
    place: BusPlace = HERE,
) -> int:
    """Compare the staged files with others' reservations, as hooks do.

    Both names of a rename count, and deleted files. Exit code 3 for a conflict, 0 when it only
    warns.
    """
    if push is None and _IN_A_HOOK not in os.environ:
        _note_if_moved(place.output)
    return guard_check.check(
        place.output,
        mode,
        push,
        hand_on=hand_on,
        agent=agent,
        directory=place.directory,
        user=place.user,
    )


def _note_if_moved(output: Output) -> None:
    """Tell a person, who runs the check by hand, that git does not run it."""
    with suppress(GitFailed):  # which the check itself finds
        if (moved := moved_hooks(os.getcwd())) is not None:
            output.note(f"warning: {moved}; run 'bus guard install'")


def _is_found_from(folder: str, bus_dir: str) -> bool:
    """Whether the search for a bus from a folder upwards finds this one."""
    holder, name = os.path.split(bus_dir)
    return name == BUS_DIRECTORY and os.path.commonpath([holder, folder]) == holder


def _print_hook(output: Output, hook: GuardHook, state: str) -> None:
    record = {"hook": hook.name, "path": hook.path, "state": state, "earlier": hook.earlier}
    earlier = f"  (with {hook.earlier})" if hook.earlier else ""
    output.result(record, f"{hook.name}  {state}  {hook.path}{earlier}")
