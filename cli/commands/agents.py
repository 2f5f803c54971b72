"""Agents and their heartbeats: agents, heartbeat."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...bus.bus import Bus
from ...bus.presence.heartbeats import Heartbeat
from ...schema.errors import InvalidInput
from ...schema.message.times import format_ts
from ...subscribers.inboxes.cursors import Cursors
from ...subscribers.inboxes.inbox import Inbox
from .. import arguments
from ..definition import Commands
from ..options.common import HERE, Agent, Place, PlaceOnly
from ..show import output

commands = Commands()

#: The headings of the list of agents.
_HEADINGS = (
    *("agent", "liveness", "status", "task", "progress"),
    *("pid", "beat", "age", "cursor", "unread"),
)

#: Unread messages are counted up to this.
_MAX_COUNTED = 1000


@commands.command("agents", example="bus agents")
def agents(place: Place = HERE) -> int:
    """List the agents that the bus knows.

    These are agents that have sent, acknowledged, or beaten their heart. Unread messages are
    counted up to 1,000. Exit code 4 when there are none.
    """
    with place.open() as bus:
        beats = {beat.agent: beat for beat in bus.heartbeats.list()}
        cursors = Cursors.of(bus).positions()
        records = [
            _record(bus, name, beats.get(name), cursors.get(name, 0)) for name in bus.agents.names()
        ]
    known = [{key: each[key] for key in each if each[key] is not None} for each in records]
    return output.results(known, map(_row, records), _HEADINGS)


def _row(record: dict[str, object]) -> list[object]:
    age_s, unread = record["age_s"], record["unread"]
    age = output.age(age_s) if isinstance(age_s, (int, float)) else None
    shown = f"{unread}+" if unread == _MAX_COUNTED else unread  # there may be more
    return list((record | {"age_s": age, "unread": shown}).values())


def _record(bus: Bus, name: str, beat: Heartbeat | None, cursor: int) -> dict[str, object]:
    return {
        "agent": name,
        "liveness": beat and beat.liveness.value,
        "status": beat and beat.status,
        "task": beat and beat.task,
        "progress": beat and beat.progress,
        "pid": beat and beat.pid,
        "beat": beat and format_ts(beat.ts_ms),
        "age_s": beat and round(beat.age_s, 1),
        "cursor": cursor,
        "unread": _unread(bus, name),
    }


def _unread(bus: Bus, name: str) -> int | None:
    try:
        return Inbox(bus, name).unread(_MAX_COUNTED)
    except InvalidInput:
        return None  # a name that another program wrote, and that nothing can be sent to


@commands.command("heartbeat", example="bus heartbeat worker-1 --status working --every 10 &")
def heartbeat(
    agent: Agent,
    status: Annotated[
        str, typer.Option(metavar="S", help="idle, working, blocked, stopped, or a word of yours.")
    ] = "idle",
    task: Annotated[
        str | None, typer.Option(metavar="T", help="Its current task.", show_default=False)
    ] = None,
    progress: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Progress of the task, by its own measure; usually 0 to 1.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="S",
            help="Repeat the beat this often, until the process ends.",
            show_default=False,
        ),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(
            metavar="P",
            min=1,
            help="The agent's process. Default: the one that runs this command.",
            show_default=False,
        ),
    ] = None,
    place: PlaceOnly = HERE,
) -> int:
    """Record a heartbeat of an agent.

    Once, or with --every as long as its process lives; then it records `stopped`.
    """
    from ..running.heartbeat_sidecar import Sidecar

    pid = pid or os.getppid()
    with place.open() as bus:
        if every is None:
            bus.heartbeats.beat(agent, status, task=task, progress=progress, pid=pid)
        else:
            sidecar = Sidecar(bus, agent, pid, every_s=arguments.seconds(every, "--every"))
            sidecar.run(status, task=task, progress=progress)
    return 0
