"""The guard: git hooks that compare what is committed with the reservations of others."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ..schema import BUS_DIRECTORY, BusNotFound, InvalidInput, find_bus
from . import actions, output
from .commands import Commands
from .options import Directory, Json, User, Verbose
from .reservations import conflict_record, describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..bus import Bus, Conflict
    from ..export import GitRepository, GuardHook

commands = Commands()
guard = commands.group("guard", help="Git hooks that look after the reservations of others.")

#: The environment variable that says what the guard does, whatever the hooks say.
GUARD_VARIABLE = "BUS_GUARD"

#: What the guard does about a conflict; `off` it does not even look.
BLOCK, WARN, OFF = "block", "warn", "off"

#: The exit code for a conflict. The hooks block for it, and for no other.
CONFLICT = 3

Mode = Annotated[
    str,
    typer.Option(
        metavar="M", help="block, or warn and let it through. BUS_GUARD=warn or off wins over it."
    ),
]


@guard.command("install", example="bus guard install --mode warn")
def install(
    mode: Mode = BLOCK,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Put a pre-commit and a pre-push hook into the git repository. Safe to repeat.

    They go where git looks (core.hooksPath too), and run the hooks that are there first.
    """
    from ..export import GitRepository, GuardHooks

    _check_mode(mode, BLOCK, WARN)
    repository = GitRepository.find()
    with _open_bus(repository, directory, user) as bus:
        found = bus.layout.directory
    beside = [os.path.join(r, BUS_DIRECTORY) for r in (repository.root, repository.main_root)]
    hooks = GuardHooks(repository)
    for hook in hooks.install(mode, None if found in beside else found):
        _print_hook(hook, json, mode)
    if hooks.are_shared:
        output.note("core.hooksPath is outside of this repository: the hooks run in others too")
    return 0


@guard.command("remove", example="bus guard remove")
def remove(json: Json = False, verbose: Verbose = False) -> int:
    """Take the hooks out again, and put back those that were there before.

    Exit code 4 when there are none of the guard's.
    """
    from ..export import GitRepository, GuardHooks

    removed = GuardHooks(GitRepository.find()).remove()
    for hook in removed:
        _print_hook(hook, json, "removed")
    return 0 if removed else actions.NOTHING


@guard.command("check", example="bus guard check")
def check(
    push: Annotated[
        str | None,
        typer.Option(
            metavar="REMOTE",
            help="Look at what is pushed there, as git tells a pre-push hook on stdin, and not at "
            "what is staged.",
            show_default=False,
        ),
    ] = None,
    mode: Mode = BLOCK,
    agent: Annotated[
        str | None,
        typer.Option(metavar="A", help="Who edits. Default: $BUS_AGENT.", show_default=False),
    ] = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Compare the staged files with the reservations of others, as the hooks do.

    Both names of a rename count, and what is deleted. Exit code 3 for a conflict, 0 where it only
    warns.
    """
    from ..export import GitRepository

    _check_mode(mode, BLOCK, WARN)
    mode = os.environ.get(GUARD_VARIABLE) or mode
    _check_mode(mode, BLOCK, WARN, OFF)
    if mode == OFF:
        return 0
    agent = agent or os.environ.get(actions.AGENT_VARIABLE) or None
    repository = GitRepository.find()
    if push is None:
        files = repository.staged()
    else:
        files = repository.pushed(push, sys.stdin.buffer.read())
    if not files:
        return 0
    with _open_bus(repository, directory, user) as bus:
        conflicts = bus.reservations.against(files, agent)
    for conflict in conflicts:
        if json:
            output.json_line(conflict_record(conflict))
        else:
            output.note(_line(conflict, mode))
    if conflicts and agent is None:
        output.note(
            f"{actions.AGENT_VARIABLE} is not set, so every reservation counts as another's;"
            " set it to your name"
        )
    return CONFLICT if conflicts and mode == BLOCK else 0


def _line(conflict: Conflict, mode: str) -> str:
    """Return what stands against a file, and what to do next."""
    held = conflict.held
    if held.mode == "shared":
        todo = "reserve it --shared too, or leave it out"
    else:
        todo = f"ask {held.agent}, wait, or leave it out"
    return f"{'warning: ' if mode == WARN else ''}{describe(conflict)}: {todo}"


def _check_mode(mode: str, *modes: str) -> None:
    if mode not in modes:
        raise InvalidInput(f"the mode of the guard is {' or '.join(modes)}, not {mode!a}")


def _open_bus(repository: GitRepository, directory: str | None, user: bool) -> Bus:
    """Open the bus as other commands do; from a linked work tree also that of the main one."""
    if directory is None and not user:
        try:
            directory = find_bus(repository.root)
        except BusNotFound:
            directory = find_bus(repository.main_root)
    return actions.open_bus(directory, user)


def _print_hook(hook: GuardHook, json: bool, state: str) -> None:
    if json:
        record = {"hook": hook.name, "path": hook.path, "state": state, "former": hook.former}
        output.json_line(record)
    else:
        former = f"  (with {hook.former})" if hook.former else ""
        output.line(f"{hook.name}  {state}  {hook.path}{former}")
