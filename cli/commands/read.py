"""Looking back: replay, read, show, tail."""

from __future__ import annotations

from typing import Annotated

import typer

from ...bus.bus import Bus
from ...schema.errors import BusUnusable, InvalidInput, NotFound
from ...schema.message.message import Message
from ..definition import Commands, optional
from ..options.common import (
    HERE,
    MAX_SEQ,
    OfAgent,
    OfConversation,
    Place,
    Since,
    TypePattern,
    conversation_named,
    since_time,
)
from ..show import output
from ..show.message import print_in_full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

commands = Commands()

#: The --conversation of commands that read the bus itself.
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with every new message, until Ctrl-C.")
]


@commands.command("replay", example="bus replay --from 1 --json")
def replay(
    first: Annotated[
        int, typer.Option("--from", metavar="SEQ", min=1, max=MAX_SEQ, help="The first seq.")
    ],
    last: Annotated[
        int | None, optional("SEQ", "The last seq.", "--to", min=1, max=MAX_SEQ)
    ] = None,
    type: TypePattern = None,
    follow: Follow = False,
    place: Place = HERE,
) -> int:
    """Print the log from a seq on.

    Both ends are included. With --json these are the lines of bus.jsonl, byte for byte.
    """
    if last is not None and follow:
        raise InvalidInput("give --to or --follow, not both")
    if last is not None and last < first:
        raise InvalidInput(f"--to {last} lies before --from {first}")
    with place.open() as bus:
        if follow:
            found = bus.follow(from_seq=first, type=type)
            output.messages(found, bus.blobs, form=Message.to_line, live=True)
        newest = bus.log.newest_seq()
        if first > newest:
            raise NotFound(f"the log ends at {newest}, before {first}")
        found = _or_from_where(bus.read(from_seq=first, to_seq=last, type=type), last)
        return _some(output.messages(found, bus.blobs, form=Message.to_line))


def _or_from_where(found: Iterator[Message], last: int | None) -> Iterator[Message]:
    """Yield messages; an error about a lost part of the archive tells where to go on."""
    from ...bus.errors import SegmentMissing

    try:
        yield from found
    except SegmentMissing as lost:
        if last is not None and last <= lost.last_seq:
            raise
        raise BusUnusable(f"{lost}, or go on with --from {lost.last_seq + 1}") from lost


@commands.command("read", example="bus read --type 'task.>' --since 10m")
def read(
    type: TypePattern = None,
    conversation: OfConversation = None,
    agent: OfAgent = None,
    since: Since = None,
    limit: Annotated[int | None, optional("N", "At most so many, the oldest.", min=1)] = None,
    place: Place = HERE,
) -> int:
    """Print the messages that match every option, in order.

    'bus tail' prints the newest, 'bus search' finds words in payloads, 'bus replay' prints the
    lines of bus.jsonl.
    """
    from itertools import islice

    with place.open() as bus:
        found = bus.read(
            type=type,
            conversation=conversation and conversation_named(bus, conversation),
            agent=agent,
            since_ms=None if since is None else since_time(since, bus.now_ms()),
        )
        return _some(output.messages(islice(found, limit), bus.blobs))


@commands.command("show", example="bus show 17")
def show(
    key: Annotated[str, typer.Argument(metavar="ID|SEQ", help="The id or the seq of a message.")],
    place: Place = HERE,
) -> int:
    """Print one message in full.

    A number is taken as a seq, and if there is none, as an id. 'bus inspect' adds its jobs,
    'bus trace' its conversation.
    """
    with place.open() as bus:
        message = _find(bus, key)
        if output.is_json():
            output.json_line(message.to_json())
        else:
            print_in_full(message, bus.blobs)
    return 0


@commands.command("tail", example="bus tail -n 20 --follow")
def tail(
    lines: Annotated[
        int, typer.Option("-n", "--lines", metavar="N", min=0, max=MAX_SEQ, help="How many.")
    ] = 10,
    follow: Follow = False,
    type: TypePattern = None,
    place: Place = HERE,
) -> int:
    """Print the newest messages, the oldest of them first."""
    with place.open() as bus:
        seen = bus.log.newest_seq()
        newest = bus.log.newest(lines, type=type)
        count = output.messages(newest, bus.blobs, live=follow)
        if follow:
            after = max(seen, newest[-1].seq) if newest else seen
            output.messages(bus.follow(from_seq=after + 1, type=type), bus.blobs, live=True)
        return _some(count)


def _some(count: int) -> int:
    """Return the exit code of a search that found so many."""
    if not count:
        output.detail("nothing found")
    return 0 if count else output.NOTHING


def _find(bus: Bus, key: str) -> Message:
    number = int(key) if key.isascii() and key.isdigit() and len(key) < 20 else 0
    message = bus.get(number) if 0 < number <= MAX_SEQ else None
    message = message or bus.get(key)
    if message is None:
        raise NotFound(f"no message {key!a} in the log; see 'bus read'")
    return message
