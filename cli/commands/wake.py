"""Waking an idle agent: wake."""

from __future__ import annotations

from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ...wake.nudge import Nudge
from ...wake.waking import Waking
from .. import arguments
from ..definition import Commands
from ..options.common import HERE, Agent, Place
from ..running.waking import OwnCommand, tell
from ..show import output

commands = Commands()


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
    place: Place = HERE,
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
            output.note(f"warning: {stranger}")
        way = OwnCommand(bus, agent, command) if command else Nudge(bus, agent)
        waking = Waking(bus, agent, way, pace_s=pace_s)
        if watch:
            for end in waking.follow(patience_s=after_s):
                tell(end)
                output.flush()
        woken = waking.once(dry_run=dry_run)
    if woken is None:
        output.note(f"nothing waits for {agent}")
        return output.NOTHING
    tell(woken, dry_run=dry_run)
    return 0
