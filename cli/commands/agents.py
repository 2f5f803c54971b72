"""Agents and their heartbeats: agents list and forget, heartbeat."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ...schema.message.times import age
from ...subscribers.overview.agents import MAX_COUNTED, agent_records
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, Agent, OwnAgent, Place, PlaceOnly
from ..show import output
from ..show.confirmation import Yes, confirm

commands = Commands()

#: The columns of the list of agents.
_COLUMNS = (
    *("agent", "liveness", "status", "task", "progress"),
    *("pid", "beat", "age_s", "cursor", "unread", "session_of"),
)


group = commands.group(
    "agents", help="Agents that the bus knows: list them, forget one.", default="list"
)


@group.command("list", example="bus agents list --online 30s")
def agents(
    online: Annotated[
        str | None,
        optional("D", "Only agents that have beaten their heart within D, and not stopped."),
    ] = None,
    place: Place = HERE,
) -> int:
    """List the agents that the bus knows.

    These are agents that have sent, acknowledged, or beaten their heart. Unread messages are
    counted up to 1,000. Exit code 4 when there are none.
    """
    within_s = None if online is None else arguments.seconds(online, "--online")
    with place.open() as bus:
        records = agent_records(bus, online_s=within_s)
    known = [{key: each[key] for key in each if each[key] is not None} for each in records]
    return output.results(known, map(_row, records), [name.removesuffix("_s") for name in _COLUMNS])


def _row(record: dict[str, Any]) -> list[object]:
    unread = record["unread"]
    shown = {
        "age_s": age(record["age_s"]) if "age_s" in record else None,
        "unread": f"{unread}+" if unread == MAX_COUNTED else unread,  # there may be more
    }
    return [(record | shown).get(name) for name in _COLUMNS]


@group.command("forget", example="bus agents forget worker-7")
def forget(
    agent: Agent,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; say whether it can be forgotten.")
    ] = False,
    yes: Yes = False,
    place: Place = HERE,
) -> int:
    """Forget an agent: its cursor, failed deliveries and heartbeat.

    It delays no archive any more. Its messages stay, and it stays known by those that it sent. When
    it comes back, its inbox begins with the oldest message again. Exit code 3 while it is alive.
    """
    from ...subscribers.overview.forgetting import check_gone, forget_agent

    with place.open() as bus:
        if dry_run:
            check_gone(bus, agent)
            output.result(
                {"agent": agent, "dry_run": True}, f"would forget {agent}; nothing was changed"
            )
            return 0
        confirm(f"forget agent {agent!r}", yes)
        forget_agent(bus, agent)
    output.result({"forgotten": agent}, f"forgot {agent}")
    return 0


@commands.command("heartbeat", example="bus heartbeat worker-1 --status working --every 10 &")
def heartbeat(
    agent: OwnAgent = None,
    *,
    status: Annotated[
        str,
        typer.Option(
            metavar="S", help="idle, working, blocked, stopped, offline, or a word of yours."
        ),
    ] = "idle",
    task: Annotated[str | None, optional("T", "Its current task.")] = None,
    progress: Annotated[
        float | None, optional("X", "Progress of the task, by its own measure; usually 0 to 1.")
    ] = None,
    every: Annotated[
        str | None, optional("S", "Repeat the beat this often, until the process ends.")
    ] = None,
    pid: Annotated[
        int | None,
        optional("P", "The agent's process. Default: the one that runs this command.", min=1),
    ] = None,
    place: PlaceOnly = HERE,
) -> int:
    """Record a heartbeat of an agent.

    Once, or with --every as long as its process lives; then it records `stopped`.
    """
    from ..running.heartbeat_sidecar import Sidecar

    pid = pid or os.getppid()
    agent = arguments.reader(agent)
    with place.open() as bus:
        if every is None:
            bus.heartbeats.beat(agent, status, task=task, progress=progress, pid=pid)
        else:
            sidecar = Sidecar(bus, agent, pid, every_s=arguments.seconds(every, "--every"))
            sidecar.run(status, task=task, progress=progress)
    return 0
