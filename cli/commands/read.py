"""Looking back: replay, read, show, tail."""

from __future__ import annotations

from typing import Annotated

import typer

from ...bus.bus import Bus
from ...bus.log.finding import find_message
from ...schema.errors import BusUnusable, InvalidInput, NotFound
from ...schema.message.message import Message
from ..definition import Commands
from ..options.common import HERE, MAX_SEQ, Place
from ..options.filters import (
    NEWEST,
    UNFILTERED,
    WHICHEVER,
    WHOLE_LOG,
    Filter,
    Limit,
    Newest,
    Span,
    Which,
)
from ..show import output
from ..show.message import print_in_full

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.options import ReadFilters

commands = Commands()

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with every new message, until Ctrl-C.")
]


@commands.command("replay", example="bus replay --from 1 --json")
def replay(
    span: Span = WHOLE_LOG,
    which: Which = WHICHEVER,
    limit: Limit = None,
    newest: Newest = False,
    follow: Follow = False,
    place: Place = HERE,
) -> int:
    """Print a range of the log.

    Both ends are included; without --from it begins with the first message. With --json these are
    the lines of bus.jsonl, byte for byte. 'bus read' filters by sender and recipient too.
    """
    if follow and (span.last is not None or limit is not None or newest):
        raise InvalidInput("--follow goes on for ever: give it without --to, --limit and --newest")
    with place.open() as bus:
        first, last = span.seqs(bus)
        filters = which.filters(bus)
        if follow:
            live = bus.follow(after_seq=first - 1, **filters)
            output.messages(live, bus.blobs, form=Message.to_line, live=True)
        end = bus.log.newest_seq()
        if first > end:
            raise NotFound(f"the log ends at {end}, before {span.first or first}")
        _tell_of_discarded(bus, first, last)
        found = _portion(bus, first, last, filters, limit, newest)
        count = output.messages(_or_from_where(found, last), bus.blobs, form=Message.to_line)
        return 0 if count else which.nothing(bus)


def _portion(
    bus: Bus, first: int, last: int | None, filters: ReadFilters, limit: int | None, newest: bool
) -> Iterator[Message]:
    """Return the oldest or the newest messages of a range that match."""
    from itertools import islice

    if not newest:
        return islice(bus.read(after_seq=first - 1, upto_seq=last, **filters), limit)
    before = None if last is None else last + 1
    count = NEWEST if limit is None else limit
    return iter(bus.log.newest(count, before_seq=before, after_seq=first - 1, **filters))


def _tell_of_discarded(bus: Bus, first: int, last: int | None) -> None:
    """Note on stderr which parts of a range were discarded."""
    for each in bus.archive.discarded():
        if first <= each.last_seq and (last is None or each.first_seq <= last):
            output.note(str(each))


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
    filter: Filter = UNFILTERED,
    limit: Limit = None,
    newest: Newest = False,
    place: Place = HERE,
) -> int:
    """Print the messages that match every option, in order.

    'bus tail' prints the newest and goes on, 'bus search' finds words in payloads, 'bus replay'
    prints a range as lines of bus.jsonl. Of one message, 'bus show' prints all, 'bus inspect' adds
    its jobs, 'bus trace' its conversation; 'bus check' says whether a request is answered.
    """
    with place.open() as bus:
        _tell_of_discarded(bus, 1, None)
        found = _portion(bus, 1, None, filter.filters(bus), limit, newest)
        return 0 if output.messages(found, bus.blobs) else filter.nothing(bus)


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
            print_in_full(message, bus)
    return 0


@commands.command("receipts", example="bus receipts 17")
def receipts(
    key: Annotated[str, typer.Argument(metavar="SEQ|ID", help="The seq or the id of a message.")],
    place: Place = HERE,
) -> int:
    """Print who has acknowledged a message.

    Of its recipient, or of all readers that want the broadcast: unread, acknowledged, parked,
    received (as the answer to a request) or passed_over (archived unread). Of each queue that takes
    it in: the state of its job. Cursors say so: no message is sent for it. Exit code 4 when there
    is no such message, or nobody reads it.
    """
    from ...subscribers.overview.read_receipts import read_receipts

    with place.open() as bus:
        return output.results([each.record() for each in read_receipts(bus, key)])


@commands.command("tail", example="bus tail -n 20 --follow")
def tail(
    lines: Annotated[
        int,
        typer.Option("-n", "--lines", "--limit", metavar="N", min=0, max=MAX_SEQ, help="How many."),
    ] = NEWEST,
    follow: Follow = False,
    filter: Filter = UNFILTERED,
    place: Place = HERE,
) -> int:
    """Print the newest messages, the oldest of them first.

    With --follow it goes on with all that come and match the options.
    """
    with place.open() as bus:
        seen = bus.log.newest_seq()
        filters = filter.filters(bus)
        newest = bus.log.newest(lines, **filters)
        count = output.messages(newest, bus.blobs, live=follow)
        if follow:
            after = max(seen, newest[-1].seq) if newest else seen
            output.messages(bus.follow(after_seq=after, **filters), bus.blobs, live=True)
        return 0 if count else filter.nothing(bus)


def _find(bus: Bus, key: str) -> Message:
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"no message {key!a} in the log; see 'bus read'")
    return message
