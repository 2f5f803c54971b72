"""Agents: agents list and forget, heartbeat, wake, top."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...schema.message.times import age
from ...subscribers.overview.agents import MAX_COUNTED, agent_records
from ...wake.waking import Nudge, Waker
from .. import arguments
from ..definition import Commands, optional
from ..options.common import HERE, Agent, BusPlace, BusPlaceOnly, OwnAgent
from ..running.waking import OwnCommand, print_end
from ..show.confirmation import Yes, confirm
from ..show.output import NOTHING

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
        optional("D", "Only agents with a heartbeat within D that have not stopped."),
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """List the agents that the bus knows.

    These are agents that have sent or acknowledged a message, or recorded a heartbeat. Unread
    messages are counted up to 1,000. Exit code 4 when there are none.
    """
    within_s = None if online is None else arguments.seconds(online, "--online")
    with place.open() as bus:
        records = agent_records(bus, online_s=within_s)
    json_records = [
        {key: record[key] for key in record if record[key] is not None} for record in records
    ]
    return place.output.results(
        json_records, map(_row, records), [name.removesuffix("_s") for name in _COLUMNS]
    )


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
    place: BusPlace = HERE,
) -> int:
    """Forget an agent: its cursor, failed deliveries and heartbeat.

    It delays no archive any more. Its messages stay, and it stays known by those that it sent. When
    it comes back, its inbox begins with the oldest message again. Exit code 3 while it is alive.
    """
    from ...subscribers.overview.agents import forget_agent, require_absent

    with place.open() as bus:
        if dry_run:
            require_absent(bus, agent)
            place.output.result(
                {"agent": agent, "dry_run": True}, f"would forget {agent}; nothing was changed"
            )
            return 0
        confirm(f"forget agent {agent!r}", yes)
        forget_agent(bus, agent)
    place.output.result({"forgotten": agent}, f"forgot {agent}")
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
    place: BusPlaceOnly = HERE,
) -> int:
    """Record a heartbeat of an agent.

    Once, or with --every as long as its process lives; then it records `stopped`.
    """
    from ..running.worker_host import Sidecar

    pid = pid or os.getppid()
    agent = arguments.reader(agent)
    with place.open() as bus:
        if every is None:
            bus.heartbeats.beat(agent, status, task=task, progress=progress, pid=pid)
        else:
            sidecar = Sidecar(
                place.output, bus, agent, pid, every_s=arguments.seconds(every, "--every")
            )
            sidecar.run(status, task=task, progress=progress)
    return 0


# Waking an idle agent: wake.


@commands.command("wake", example="bus wake reviewer --watch")
def wake(
    agent: Agent,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- CMD...]", help="A command of yours that wakes it.", show_default=False
        ),
    ] = None,
    *,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Go on until Ctrl-C: wake it when mail comes that wakes."),
    ] = False,
    after: Annotated[
        str, typer.Option(metavar="S", help="With --watch: how long mail is left to it first.")
    ] = "15s",
    pace: Annotated[
        str, typer.Option(metavar="S", help="How long it is left alone after a wake.")
    ] = "10m",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do nothing; say how it would be woken.")
    ] = False,
    place: BusPlace = HERE,
) -> int:
    """Wake an idle agent that has unread mail.

    Where its program is in tmux or screen, one fixed line is typed there: that mail waits. Nothing
    is typed where another program, or somebody, uses that pane, and Enter is pressed only when the
    line stands in a prompt. CMD is run instead, without a shell, with BUS_DIR, BUS_AGENT and
    BUS_MESSAGE_SEQ; exit code 0 of it counts as woken.

    With --watch the agent is woken by itself, once for each message that it has not acknowledged in
    time and that wakes: of priority interactive, or a request to it that is not of priority
    background. It says why other mail wakes nobody. Exit code 3: it could not be woken, or was
    within --pace. Exit code 4: nothing waits for it.
    """
    check_agent(agent)
    if watch and dry_run:
        raise InvalidInput("give --watch or --dry-run, not both")
    pace_s, after_s = arguments.seconds(pace, "--pace"), arguments.seconds(after, "--after")
    with place.open() as bus:
        stranger = bus.agents.stranger(agent, repeat=False)
        if stranger is not None:
            place.output.note(f"warning: {stranger}")
        way = OwnCommand(bus, agent, command) if command else Nudge(bus, agent)
        waking = Waker(bus, agent, way, pace_s=pace_s)
        if watch:
            for end in waking.follow(patience_s=after_s):
                print_end(place.output, end)
                place.output.flush()
        woken = waking.once(dry_run=dry_run)
    if woken is None:
        place.output.note(f"nothing waits for {agent}")
        return NOTHING
    print_end(place.output, woken, dry_run=dry_run)
    return 0


# A live view of the bus: top.


@commands.command("top", example="bus top")
def top(
    once: Annotated[bool, typer.Option("--once", help="Print the present state, and end.")] = False,
    place: BusPlace = HERE,
) -> int:
    """Show agents, queues and the newest messages, live. The key q ends it.

    In a pipe it prints the present state, and ends; with --json it prints an object now and at
    each change, at least each second. Agents that never beat nor acknowledged are left out.
    """
    from ..top.running import show_once, watch

    with place.open() as bus:
        is_seen = place.output.is_terminal() and os.environ.get("TERM") != "dumb"
        if once or not (place.output.is_json or is_seen):
            show_once(place.output, bus)
        else:
            watch(place.output, bus)
    return 0
