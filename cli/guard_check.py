"""The check of the guard, as `bus guard check` and the hooks run it: a commit waits for it.

It loads only what it needs, and the hooks call it without the definition of the command line,
whose loading takes several times as long as the check.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing

from ..bus.reservations.live_rows import LiveReservations
from ..git.work_tree import WorkTree
from ..schema.directory.discovery import find_bus
from ..schema.errors import InvalidInput
from ..schema.message.times import format_ts
from . import arguments
from .hints import AGENT_VARIABLE
from .own_session import name_here
from .running.looking import looking
from .show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus.local_bus import LocalBus
    from ..bus.reservations.reservations import Conflict
    from ..schema.sqlite.database import Database

# Reservations and conflicts as the commands print them. Loads only what a hook needs.


def describe(conflict: Conflict, holder: str = "") -> str:
    """Return a conflict in one line.

    Args:
        conflict: the conflict.
        holder: the state of the holder, with a separator before it; "" for none.
    """
    reservation = conflict.held
    within = "" if reservation.path == conflict.path else f" as {reservation.path}"
    why = f", {reservation.reason!r}" if reservation.reason else ""
    until = format_ts(reservation.until_ms)
    return (
        f"{conflict.path} is reserved by {reservation.agent}{within} until {until}"
        f"{holder} ({reservation.mode}{why})"
    )


def state_of_holder(bus: LocalBus, conflict: Conflict) -> str:
    """Return whether the holder of a conflict lives, and since when it is silent."""
    from ..subscribers.overview.agents import holder_of

    return str(holder_of(bus, conflict.held))


def conflict_record(bus: LocalBus, conflict: Conflict) -> dict[str, object]:
    """Return a conflict as `--json` prints it."""
    from ..subscribers.overview.agents import holder_of

    path = conflict.path.encode(errors="backslashreplace").decode()  # git has names of any bytes
    reservation = conflict.held
    return {
        "path": path,
        "held": reservation.record(),
        "holder": holder_of(bus, reservation).record(),
    }


#: The environment variable that sets the guard's mode, and wins over the hooks.
GUARD_VARIABLE = "BUS_GUARD"

#: The modes of the guard; `off` skips the check.
BLOCK, WARN, OFF = "block", "warn", "off"

#: The exit code for a conflict. The hooks block for it, and for no other.
CONFLICT = 3


@looking()
def check(
    output: Output,
    mode: str,
    push: str | None = None,
    *,
    hand_on: bool = False,
    agent: str | None = None,
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Print the conflicts of the staged or pushed files; return 3 when these are to be blocked.

    Args:
        mode: `block` or `warn`; `BUS_GUARD` in the environment wins over it.
        push: the remote that is pushed to, with git's lines about that on stdin.
        hand_on: print these lines, for the next hook.
        agent: the editing agent; None takes that of `BUS_AGENT`, else of the session.
        directory, user: which bus.
    """
    check_mode(mode, BLOCK, WARN)
    mode = _chosen(output, mode)
    if mode == OFF:
        return 0
    agent = agent or os.environ.get(AGENT_VARIABLE) or None
    tree = WorkTree.around(os.getcwd())
    try:
        refs = b"" if push is None else _pushed_refs()
    except InvalidInput as error:  # a part of the lines must not pass for all
        output.note(f"{error}; nothing was checked")
        return CONFLICT if hand_on or mode == BLOCK else 0
    if hand_on:
        output.stream().write(refs)
    try:
        pushed = tree.pushed(refs)
        files = tree.staged() if push is None else list(pushed)
    except InvalidInput as error:  # what can't be read can't be let through
        output.note(str(error))
        return CONFLICT if mode == BLOCK else 0
    if not files:
        return 0
    with closing(arguments.open_file(output, _bus_around(tree, directory, user), user)) as database:
        if not LiveReservations(database).rows(database.now_ms()):
            return 0  # most often; all else would take as long to load again
        has_conflict = _print_conflicts(output, database, files, pushed, agent, mode)
    return CONFLICT if has_conflict and mode == BLOCK else 0


def _print_conflicts(
    output: Output,
    database: Database,
    files: list[str],
    pushed: dict[str, int],
    agent: str | None,
    mode: str,
) -> bool:
    """Print the conflicts of changed files; return whether there are some.

    Args:
        database: of the bus.
        files: the files.
        pushed: when those that are pushed were changed; what was reserved later is no conflict.
        agent: the editing agent, as it was named.
        mode: `block` or `warn`.
    """
    from ..bus.reservations.reservations import Reservations
    from ..subscribers.inboxes.session_names import SessionNames

    agent = name_here(SessionNames(database), agent)
    conflicts = [
        conflict
        for conflict in Reservations(database).against(files, agent)
        if not pushed or conflict.held.reserved_at_ms <= pushed[conflict.path]
    ]
    if not conflicts:
        return False
    from ..bus.local_bus import LocalBus

    with LocalBus(database) as bus:
        for conflict in conflicts:
            if output.is_json:
                output.json_line(conflict_record(bus, conflict))
            else:
                output.note(_line(bus, conflict, mode))
    if agent is None:
        output.note(
            f"{AGENT_VARIABLE} is not set, so every reservation counts as another's;"
            " set it to your name"
        )
    return True


def _pushed_refs() -> bytes:
    """Return git's lines about what is pushed."""
    from .fast.agent_hooks import all_input

    return all_input()


def _chosen(output: Output, mode: str) -> str:
    """Return the guard's mode from the environment; a mistyped one must not turn it off."""
    chosen = os.environ.get(GUARD_VARIABLE) or mode
    if chosen in (BLOCK, WARN, OFF):
        return chosen
    output.note(
        f"{GUARD_VARIABLE} must be block, warn or off, not {chosen!a}; the mode stays {mode}"
    )
    return mode


def check_mode(mode: str, *modes: str) -> None:
    """Refuse a mode that is not one of these."""
    if mode not in modes:
        raise InvalidInput(f"the mode must be {' or '.join(modes)}, not {mode!a}")


def open_bus(output: Output, tree: WorkTree, directory: str | None, user: bool) -> LocalBus:
    """Open the bus as other commands do, but look for it from the root of the work tree."""
    return arguments.open_bus(output, _bus_around(tree, directory, user), user)


def _bus_around(tree: WorkTree, directory: str | None, user: bool) -> str | None:
    return find_bus(tree.root) if directory is None and not user else directory


def _line(bus: LocalBus, conflict: Conflict, mode: str) -> str:
    """Return a conflict as a line, with what to do next."""
    reservation = conflict.held
    if reservation.mode == "shared":
        todo = "reserve it --shared too, or leave it out"
    else:
        todo = f"ask {reservation.agent}, wait, or leave it out"
    description = describe(conflict, f"; {state_of_holder(bus, conflict)}")
    return f"{'warning: ' if mode == WARN else ''}{description}: {todo}"


def _main(words: list[str]) -> int:
    """Run the check as the hooks call it, and return its exit code."""
    from .ending import guarded

    output = Output(words)
    return guarded(output, lambda: check(output, *words[:2], hand_on="--hand-on" in words[2:]))


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
