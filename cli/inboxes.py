"""Reading with acknowledgement: poll, ack, inbox, parked, listen."""

from __future__ import annotations

from typing import Annotated

import typer

from ..schema import format_ts
from ..subscribers import MAX_DELIVERIES, POLL_LIMIT, Deliveries, Inbox, Parked
from . import actions, output
from .commands import Commands
from .options import Agent, Directory, Json, Seq, TypePattern, User, Verbose, Wait

commands = Commands()
parked = commands.group("parked", help="What was delivered too often in vain, and waits for you.")

#: How many messages are counted, and how many are shown, by `bus inbox`.
_MAX_COUNTED, _SHOWN = 1000, 10


@commands.command("poll", example="bus poll worker-1 --json --wait 30")
def poll(
    agent: Agent,
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many.")] = POLL_LIMIT,
    type: TypePattern = None,
    wait: Wait = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Print what waits for an agent.

    This moves nothing: acknowledge with bus ack. Exit code 4 when nothing waits.
    """
    return actions.poll(
        agent, limit=limit, type=type, wait=wait, json=json, directory=directory, user=user
    )


@commands.command("ack", example="bus ack worker-1 17")
def ack(
    agent: Agent,
    seq: Annotated[int, typer.Argument(metavar="SEQ", help="The last seq that is done.")],
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Acknowledge a message and all before it."""
    return actions.ack(agent, seq, json=json, directory=directory, user=user)


@commands.command("inbox", example="bus inbox worker-1")
def inbox(
    agent: Agent,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Print where an agent stands.

    Its cursor, how many messages are unread and parked, and the next ones.
    """
    with actions.open_bus(directory, user) as bus:
        box = Inbox(bus, agent)
        unread, cursor, failed = box.unread(_MAX_COUNTED + 1), box.position, len(box.parked())
        if json:
            record = {"agent": agent, "cursor": cursor, "unread": unread, "parked": failed}
            output.json_line(record)
            return 0
        shown = f"{_MAX_COUNTED}+" if unread > _MAX_COUNTED else unread
        output.line(f"cursor {cursor}, {shown} unread, {failed} parked")
        output.messages(box.poll(_SHOWN), json=False)
    return 0


@parked.command("list", example="bus parked list worker-1")
def list_parked(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="Whose. Default: everybody's.", show_default=False),
    ] = None,
    json: Json = False,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """List parked messages and why they failed.

    Exit code 4 when there are none.
    """
    with actions.open_bus(directory, user) as bus:
        found = Deliveries(bus.database).parked(agent)
    if json:
        for item in found:
            output.json_line(_record(item))
    elif found:
        headings = ("agent", "seq", "attempts", "parked at", "error")
        output.table(headings, [tuple(_record(item).values()) for item in found])
    return 0 if found else actions.NOTHING


def _record(item: Parked) -> dict[str, object]:
    return {
        "agent": item.agent,
        "seq": item.seq,
        "attempts": item.attempts,
        "parked_at": format_ts(item.parked_at_ms),
        "error": item.error,
    }


@parked.command("requeue", example="bus parked requeue worker-1 17")
def requeue(
    agent: Agent,
    seq: Seq,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Deliver a parked message again."""
    with actions.open_bus(directory, user) as bus:
        Inbox(bus, agent).requeue(seq)
    return 0


@parked.command("drop", example="bus parked drop worker-1 17")
def drop(
    agent: Agent,
    seq: Seq,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Give a parked message up for this agent; it stays in the log."""
    with actions.open_bus(directory, user) as bus:
        Inbox(bus, agent).drop(seq)
    return 0


@commands.command("listen", example="bus listen worker-1 -- ./handle-message")
def listen(
    agent: Agent,
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- CMD...", help="What to run; the message is JSON on its stdin."),
    ],
    drain: Annotated[bool, typer.Option("--drain", help="End when nothing is left.")] = False,
    no_own: Annotated[
        bool, typer.Option("--no-own", help="Leave out the agent's own broadcasts.")
    ] = False,
    no_session: Annotated[
        bool,
        typer.Option(
            "--no-session", help="Do not beat the agent's heart, nor say when it starts and stops."
        ),
    ] = False,
    max_deliveries: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Park a message after so many failed deliveries."),
    ] = MAX_DELIVERIES,
    directory: Directory = None,
    user: User = False,
    verbose: Verbose = False,
) -> int:
    """Run a command for each message.

    Its exit code 0 acknowledges the message; after any other the message comes again.
    The agent's own agent_started and agent_stopped are acknowledged without it.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_MESSAGE_ID, BUS_MESSAGE_SEQ, BUS_MESSAGE_TYPE and
    BUS_CORRELATION_ID. SIGTERM and Ctrl-C end this after the message at hand, a second one at once.
    """
    from .listening import Listening

    with actions.open_bus(directory, user) as bus:
        box = Inbox(bus, agent, own_broadcasts=not no_own, max_deliveries=max_deliveries)
        Listening(box, command, drain=drain, in_session=not no_session).run()
    return 0
