"""A live view of the bus: top."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ..definition import Commands
from ..options.common import HERE, Place
from ..show import output

commands = Commands()


@commands.command("top", example="bus top")
def top(
    once: Annotated[bool, typer.Option("--once", help="Print the present state, and end.")] = False,
    place: Place = HERE,
) -> int:
    """Show agents, queues and the newest messages, live. The key q ends it.

    In a pipe it prints the present state, and ends; with --json it prints an object now and at
    each change, at least each second. Agents that never beat nor acknowledged are left out.
    """
    from ..top.running import show_once, watch

    with place.open() as bus:
        is_seen = output.is_terminal() and os.environ.get("TERM") != "dumb"
        if once or not (output.is_json() or is_seen):
            show_once(bus)
        else:
            watch(bus)
    return 0
