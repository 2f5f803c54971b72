"""The guard: git hooks that compare commits and pushes with the reservations of others."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Annotated

import typer

from ...git.guard.guard_hooks import GuardHook, GuardHooks
from ...git.guard.moved_hooks import moved_hooks
from ...git.repository import GitFailed
from ...git.work_tree import WorkTree
from ...schema.directory.layout import BUS_DIRECTORY
from .. import guard_check
from ..definition import Commands, optional
from ..guard_check import BLOCK, WARN, check_mode, open_bus
from ..options.common import HERE, Json, Place, Verbose
from ..show import output

commands = Commands()
guard = commands.group("guard", help="Git hooks that protect the files reserved by others.")

#: A variable that git sets for the hook before a commit.
_IN_A_HOOK = "GIT_INDEX_FILE"

#: The action of the guard on a conflict.
_MODE_HELP = "block, or warn only. BUS_GUARD=warn or off wins over it."


@guard.command("install", example="bus guard install --mode warn")
def install(
    mode: Annotated[
        str | None, optional("M", f"{_MODE_HELP} Default: that of the installed hooks, else block.")
    ] = None,
    place: Place = HERE,
) -> int:
    """Install a pre-commit and a pre-push hook in the git repository. Safe to repeat.

    They lie in a folder of git's, named by core.hooksPath, and run all hooks that were there.
    """
    if mode is not None:
        check_mode(mode, BLOCK, WARN)
    tree = WorkTree.around(os.getcwd())
    with open_bus(tree, place.directory, place.user) as bus:
        bus_dir = bus.layout.directory
    is_found = any(_leads_to(root, bus_dir) for root in (tree.root, tree.main_root))
    hooks = GuardHooks(tree)
    mode = mode or hooks.mode() or BLOCK
    for hook in hooks.install(mode, None if is_found else bus_dir):
        _print_hook(hook, mode)
    return 0


@guard.command("remove", example="bus guard remove")
def remove(json: Json = False, verbose: Verbose = False) -> int:
    """Remove the hooks, and restore core.hooksPath.

    Exit code 4 when the guard is not installed.
    """
    removed = GuardHooks(WorkTree.around(os.getcwd())).remove()
    for hook in removed:
        _print_hook(hook, "removed")
    return 0 if removed else output.NOTHING


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
    place: Place = HERE,
) -> int:
    """Compare the staged files with others' reservations, as hooks do.

    Both names of a rename count, and deleted files. Exit code 3 for a conflict, 0 when it only
    warns.
    """
    if push is None and _IN_A_HOOK not in os.environ:
        _tell_if_moved()
    return guard_check.check(
        mode, push, hand_on=hand_on, agent=agent, directory=place.directory, user=place.user
    )


def _tell_if_moved() -> None:
    """Tell a person, who runs the check by hand, that git does not run it."""
    with suppress(GitFailed):  # which the check itself finds
        if (moved := moved_hooks(os.getcwd())) is not None:
            output.note(f"warning: {moved}; run 'bus guard install'")


def _leads_to(folder: str, bus_dir: str) -> bool:
    """Whether the search for a bus from a folder upwards finds this one."""
    holder, name = os.path.split(bus_dir)
    return name == BUS_DIRECTORY and os.path.commonpath([holder, folder]) == holder


def _print_hook(hook: GuardHook, state: str) -> None:
    record = {"hook": hook.name, "path": hook.path, "state": state, "earlier": hook.earlier}
    earlier = f"  (with {hook.earlier})" if hook.earlier else ""
    output.result(record, f"{hook.name}  {state}  {hook.path}{earlier}")
