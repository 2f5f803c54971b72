"""Reading with acknowledgement: poll, ack, inbox, parked, listen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...subscribers.inboxes.failed_deliveries import Cursors, Deliveries
from ...subscribers.inboxes.inbox import MAX_DELIVERIES, Inbox
from ...subscribers.inboxes.mail import POLL_LIMIT
from ...subscribers.starts import BEGINNING
from .. import arguments
from ..definition import Commands, optional, optional_word
from ..fast import actions
from ..options.common import (
    HERE,
    MAX_SEQ,
    TYPE_HELP,
    Agent,
    BusPlace,
    BusPlaceOnly,
    OwnAgent,
    Wait,
    seq_or_word,
)
from ..show.confirmation import Yes, confirm
from ..show.message import print_page
from ..show.output import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

commands = Commands()
parked = commands.group("parked", help="Messages set aside after too many failed deliveries.")

PolledType = Annotated[
    str | None,
    optional(
        "P", f"{TYPE_HELP} Only for looking: ack also covers the messages that it hid.", "--type"
    ),
]
Seqs = Annotated[
    list[int] | None, optional_word("[SEQ]...", "The messages' seqs.", min=1, max=MAX_SEQ)
]
All = Annotated[bool, typer.Option("--all", help="All that are parked for this agent.")]
Command = Annotated[
    list[str],
    typer.Argument(
        metavar="-- CMD...", help="The command to run; the message is JSON on its stdin."
    ),
]
Drain = Annotated[bool, typer.Option("--drain", help="End when nothing is left.")]
Own = Annotated[
    bool, typer.Option("--own/--no-own", help="Include the agent's own broadcasts, or not.")
]
WithWork = Annotated[
    bool,
    typer.Option("--with-work", help="Include broadcasts that queues hide from inboxes as work."),
]
Wanted = Annotated[
    list[str] | None,
    optional(
        "TYPE",
        "From now on, receive only broadcasts of these type patterns; may be repeated.",
        "--want",
    ),
]
WantAll = Annotated[
    bool, typer.Option("--want-all", help="From now on, receive all broadcasts again.")
]
NoSession = Annotated[
    bool,
    typer.Option("--no-session", help="Send no heartbeats, and do not publish its start and stop."),
]
MaxDeliveries = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Park a message after so many failed deliveries."),
]
RetryPause = Annotated[
    str,
    typer.Option(
        metavar="S",
        help="How long a message that failed waits for its next delivery: seconds, or like "
        "500ms, 10m; each further failure doubles it, up to a minute.",
    ),
]

#: How many messages are counted, and how many are shown, by `bus inbox`.
_MAX_COUNTED, _SHOWN = 1000, 10


@dataclass(frozen=True, kw_only=True)
class ChosenMessages:
    """The parked messages that a command acts on."""

    seqs: Seqs = None
    everything: All = False

    def check(self) -> None:
        """Refuse neither or both of SEQs and --all."""
        if bool(self.seqs) == self.everything:
            raise InvalidInput("give either the SEQs or --all; see 'bus parked list'")

    def act(self, box: Inbox, change: Callable[[int], None]) -> int:
        """Change them in one transaction; return 4 when there are none."""
        with box.bus.transaction():
            seqs = self.seqs or [item.seq for item in box.parked()]
            for seq in dict.fromkeys(seqs):
                change(seq)
        return 0 if seqs else NOTHING


@commands.command("poll", example="bus poll worker-1 --json --wait 30")
def poll(
    agent: OwnAgent = None,
    limit: Annotated[int, typer.Option(metavar="N", help="At most so many.")] = POLL_LIMIT,
    type: PolledType = None,
    with_work: WithWork = False,
    wait: Wait = None,
    place: BusPlace = HERE,
) -> int:
    """Print the unread messages of an agent.

    They are the messages to it, and to all, after the last that it has acknowledged, the oldest
    first. This changes nothing: the same ones come again until 'bus ack AGENT SEQ'. The lines of a
    long body stand behind a bar; where bodies have over 12,000 characters together, the messages
    that do not fit are counted at the end. Exit code 4 when there are none.
    """
    return actions.poll(
        place.output,
        agent,
        limit=limit,
        type=type,
        with_work=with_work,
        wait=wait,
        directory=place.directory,
        user=place.user,
    )


@commands.command("ack", example="bus ack worker-1 17")
def ack(
    agent: Agent,
    seq: Annotated[
        int | None,
        optional_word(
            "SEQ", "The last seq that is handled; with $BUS_AGENT set, 'bus ack SEQ' is enough."
        ),
    ] = None,
    place: BusPlace = HERE,
) -> int:
    """Acknowledge a message and all before it.

    That includes messages that poll --type left out. The number of messages is printed.
    """
    if seq is None:
        if not (agent.isascii() and agent.isdecimal()):
            raise InvalidInput("give the SEQ, the last that is handled; see 'bus ack --help'")
        agent, seq = arguments.reader(None), int(agent)
    return actions.ack(place.output, agent, seq, directory=place.directory, user=place.user)


@commands.command("inbox", example="bus inbox worker-1")
def inbox(
    agent: OwnAgent = None,
    want: Wanted = None,
    want_all: WantAll = False,
    place: BusPlace = HERE,
) -> int:
    """Print the state of an inbox, and choose its broadcasts.

    Its cursor, how many messages are unread (counted up to 1,000) and parked, which types of
    broadcasts it wants, if it does not want all, and the next messages.
    """
    if want and want_all:
        raise InvalidInput("give either --want or --want-all")
    agent = arguments.reader(agent)
    with place.open() as bus:
        box = Inbox(bus, agent)
        if want or want_all:
            box.want(*(want or ()))
        unread, cursor, failed = box.unread(_MAX_COUNTED + 1), box.position, len(box.parked())
        counts = {"unread": min(unread, _MAX_COUNTED), "parked": failed}
        shown = f"{_MAX_COUNTED}+" if unread > _MAX_COUNTED else unread
        wants = "" if box.wants is None else f", wants {' '.join(box.wants)}"
        place.output.result(
            {"agent": agent, "cursor": cursor} | counts | {"wants": box.wants},
            f"cursor {cursor}, {shown} unread, {failed} parked{wants}",
        )
        waiting = box.poll(_SHOWN)  # prints a note if mail was archived unread
        if not box.has_cursor:
            actions.note_unseen(place.output, bus, agent, waiting)
        if not place.output.is_json:
            print_page(place.output, waiting, bus, agent)
    return 0


@parked.command("list", example="bus parked list worker-1")
def list_parked(
    agent: Annotated[str | None, optional_word("AGENT", "The agent. Default: all agents.")] = None,
    place: BusPlace = HERE,
) -> int:
    """List parked messages and why they failed.

    Exit code 4 when there are none.
    """
    with place.open() as bus:
        deliveries = Deliveries.of(bus).parked(agent)
        if agent is not None and not deliveries:
            actions.note_unseen(place.output, bus, agent)
    headings = ("agent", "seq", "attempts", "parked at", "error")
    return place.output.results([item.record() for item in deliveries], headings=headings)


@parked.command("requeue", example="bus parked requeue worker-1 17 19")
def requeue(agent: Agent, chosen: ChosenMessages, place: BusPlaceOnly = HERE) -> int:
    """Deliver parked messages again: all that are named, or none.

    Exit code 4 when one is not parked.
    """
    chosen.check()
    with place.open() as bus:
        box = Inbox(bus, agent)
        return chosen.act(box, box.requeue)


@parked.command("drop", example="bus parked drop worker-1 17")
def drop(agent: Agent, chosen: ChosenMessages, yes: Yes = False, place: BusPlaceOnly = HERE) -> int:
    """Drop parked messages of this agent: all that are named, or none.

    They stay in the log. Exit code 4 when one is not parked.
    """
    chosen.check()
    with place.open() as bus:
        box = Inbox(bus, agent)
        confirm(f"drop parked messages of {agent}", yes)
        return chosen.act(box, box.drop)


@commands.command("listen", example="bus listen worker-1 -- ./handle-message")
def listen(
    agent: Agent,
    command: Command,
    start: Annotated[
        str,
        typer.Option(
            metavar="S",
            help="Where a new agent begins: beginning, now, or a seq; earlier mail is passed over.",
        ),
    ] = BEGINNING,
    drain: Drain = False,
    own: Own = False,
    with_work: WithWork = False,
    no_session: NoSession = False,
    max_deliveries: MaxDeliveries = MAX_DELIVERIES,
    retry_pause: RetryPause = "1s",
    place: BusPlaceOnly = HERE,
) -> int:
    """Run a command for each message.

    Exit code 0 of the command acknowledges the message; after any other it is redelivered.

    Run one listener for each agent: two under one name do not share the work, they both do it.
    Processes that CMD leaves running are ended with it (SIGTERM, 5 s, SIGKILL). On Linux these are
    all its descendants, and they end as well when the listener is killed: CMD may still be ending
    while the next listener starts it again.

    CMD also gets BUS_DIR, BUS_AGENT, BUS_MESSAGE_ID, BUS_MESSAGE_SEQ, BUS_MESSAGE_TYPE, BUS_FROM,
    BUS_CORRELATION_ID, BUS_META_... for each entry of the header meta, and TRACEPARENT; never the
    listener's own of these. SIGTERM and Ctrl-C end it after the current message, a second one at
    once.
    """
    from ..running.listener import CommandListener, ReportingInbox

    retry_pause_s = arguments.seconds(retry_pause, "--retry-pause")
    if not retry_pause_s:
        raise InvalidInput("--retry-pause must be more than 0")
    with place.open(lives_long=True) as bus:
        box = ReportingInbox(
            place.output,
            bus,
            agent,
            own_broadcasts=own,
            with_work=with_work,
            max_deliveries=max_deliveries,
            retry_pause_s=retry_pause_s,
        )
        if start != BEGINNING and agent in Cursors.of(bus).positions():
            place.output.note(f"{agent} goes on after message {box.position}: it is no new agent")
        stranger = bus.agents.unseen(agent)
        if stranger is not None and stranger.nearest:
            actions.note_new(place.output, stranger)
        box.join(start=seq_or_word(start))
        place.output.remark(f"listening as {agent!r}, with {command[0]}; Ctrl-C ends it")
        CommandListener(place.output, box, command, drain=drain, in_session=not no_session).run()
    return 0
