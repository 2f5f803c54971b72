"""Routes: list, and history through them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..definition import Commands
from ..options.service import SERVICE, ServicePlace
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.routes.history import Replayed

commands = Commands()
route = commands.group("route", help="Routes: which events of plugins make which jobs.")


@route.command("list", example="bus route list")
def show_list(place: ServicePlace = SERVICE) -> int:
    """List the routes of the configuration, in their order. Exit code 4 when there are none."""
    records: list[dict[str, object]] = [
        {
            "from": each.source,
            "event_type": each.event_type,
            "to": each.to,
            "command": each.command,
            "broadcast": each.broadcast,
        }
        for each in place.look().config.routes
    ]
    return output.results(records)


@route.command("test", example="bus route test --from 1 --config ./changed --json")
def replay(
    first: Annotated[
        int,
        typer.Option("--from", metavar="SEQ", min=1, help="The first message that is looked at."),
    ],
    changed: Annotated[
        bool, typer.Option("--changed", help="Print only events whose jobs would differ.")
    ] = False,
    place: ServicePlace = SERVICE,
) -> int:
    """List the jobs that this configuration would make of past events.

    Each event of the log is looked at by itself, beside the jobs that followed it then: `+` is one
    more, `-` one less. So is each step of a pipeline that succeeded without an event. Nothing runs
    and nothing is stored. Exit code 4 when there is none.
    """
    from ...automation.routes.history import replayed
    from ...automation.routes.router import Router

    snapshot = place.look()
    count = 0
    with place.open() as bus:
        router = Router(bus, snapshot.config, snapshot.plugins)
        for each in replayed(bus, router, first):
            if not changed or each.added or each.dropped:
                count += 1
                output.result(each.record(), *_lines(each))
    return 0 if count else output.NOTHING


def _lines(each: Replayed) -> list[str]:
    kept = [target for target in each.would if target not in each.added]
    marked = [(" ", kept), ("+", each.added), ("-", each.dropped)]
    lines = [f"{each.message.seq} {each.source} {each.event_type}"]
    for mark, targets in marked:
        for plugin, command, name, step in targets:
            of_step = f" ({name}: {step})" if name else ""
            lines.append(f"  {mark} {plugin}.{command}{of_step}")
    return lines + [f"  ! {fault}" for fault in each.faults]
