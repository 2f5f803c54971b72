"""Looking back: read, tail, replay, show, receipts, search, inspect, trace."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer

from ...bus.local_bus import LocalBus
from ...bus.log.log import find_message, near_ids
from ...schema.errors import BusUnusable, InvalidInput, NotFound
from ...schema.message.message import Message
from ...subscribers.jobs.json_records import claim_record, job_record
from ..arguments import note_other_form
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, MAX_SEQ, BusPlace, OfConversation, conversation_named
from ..options.filters import (
    ANY_MESSAGE,
    NEWEST,
    UNFILTERED,
    WHOLE_LOG,
    Limit,
    MessageFilter,
    Newest,
    RangeFilter,
    Span,
)
from ..show.jobs import act_line, branches
from ..show.message import print_in_full
from ..show.output import NOTHING, Output
from ..show.terminal import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...bus.options import ReadFilters
    from ...bus.search.search import Found
    from ...subscribers.overview.trace import Trace, Work

commands = Commands()

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on with every new message, until Ctrl-C.")
]


@commands.command("replay", example="bus replay --from 1 --json")
def replay(
    span: Span = WHOLE_LOG,
    which: RangeFilter = ANY_MESSAGE,
    limit: Limit = None,
    newest: Newest = False,
    follow: Follow = False,
    place: BusPlace = HERE,
) -> int:
    """Print a range of the log.

    Both ends are included; without --from it begins with the first message. With --json these are
    the lines of bus.jsonl, byte for byte.
    """
    if follow and (span.last is not None or limit is not None or newest):
        raise InvalidInput("--follow goes on for ever: give it without --to, --limit and --newest")
    with place.open() as bus:
        first, last = span.seqs(bus)
        filters = which.filters(bus)
        if follow:
            live = bus.follow(after_seq=first - 1, **filters)
            place.output.messages(live, bus.blobs, form=Message.to_line, live=True)  # until Ctrl-C
        end = bus.log.newest_seq()
        if first > end and (end or span.first is not None):
            raise NotFound(f"the log ends at {end}, before {span.first or first}")
        _note_discarded(place.output, bus, first, last)
        messages = _portion(bus, first, last, filters, limit, newest)
        count = place.output.messages(
            _with_resume_hint(messages, last), bus.blobs, form=Message.to_line
        )
        return 0 if count else which.note_nothing(place.output, bus)


def _portion(
    bus: LocalBus,
    first: int,
    last: int | None,
    filters: ReadFilters,
    limit: int | None,
    newest: bool,
) -> Iterator[Message]:
    """Return the oldest or the newest messages of a range that match."""
    from itertools import islice

    if not newest:
        return islice(bus.read(after_seq=first - 1, upto_seq=last, **filters), limit)
    before = None if last is None else last + 1
    count = NEWEST if limit is None else limit
    return iter(bus.log.newest(count, before_seq=before, after_seq=first - 1, **filters))


def _note_discarded(output: Output, bus: LocalBus, first: int, last: int | None) -> None:
    """Note on stderr which parts of a range were discarded."""
    for part in bus.archive.discarded():
        if first <= part.last_seq and (last is None or part.first_seq <= last):
            output.note(str(part))


def _with_resume_hint(messages: Iterator[Message], last: int | None) -> Iterator[Message]:
    """Yield messages; an error about a lost part of the archive tells where to go on."""
    from ...bus.errors import SegmentMissing

    try:
        yield from messages
    except SegmentMissing as lost:
        if last is not None and last <= lost.last_seq:
            raise
        raise BusUnusable(f"{lost}, or go on with --from {lost.last_seq + 1}") from lost


@commands.command("read", example="bus read --type 'task.>' --since 10m")
def read(
    filter: MessageFilter = UNFILTERED,
    limit: Limit = None,
    newest: Newest = False,
    place: BusPlace = HERE,
) -> int:
    """Print the messages that match every option, in order.

    Without options it prints the whole log.
    """
    with place.open() as bus:
        _note_discarded(place.output, bus, 1, None)
        messages = _portion(bus, 1, None, filter.filters(bus), limit, newest)
        count = place.output.messages(messages, bus.blobs)
        return 0 if count else filter.note_nothing(place.output, bus)


@commands.command("show", example="bus show 17")
def show(
    key: Annotated[str, typer.Argument(metavar="ID|SEQ", help="The id or the seq of a message.")],
    place: BusPlace = HERE,
) -> int:
    """Print one message in full.

    A number is taken as a seq, and if there is none, as an id.
    """
    with place.open() as bus:
        message = _find(bus, key)
        if place.output.is_json:
            place.output.json_line(message.to_json())
        else:
            print_in_full(place.output, message, bus)
    return 0


@commands.command("receipts", example="bus receipts 17")
def receipts(
    key: Annotated[str, typer.Argument(metavar="SEQ|ID", help="The seq or the id of a message.")],
    place: BusPlace = HERE,
) -> int:
    """Print who has acknowledged a message.

    Of its recipient, or of all readers that want the broadcast: unread, acknowledged, parked,
    received (as the answer to a request) or passed_over (archived unread). Of each queue that takes
    it in: the state of its job. Cursors say so: no message is sent for it. Exit code 4 when there
    is no such message, or nobody reads it.
    """
    from ...subscribers.overview.trace import read_receipts

    with place.open() as bus:
        return place.output.results([receipt.record() for receipt in read_receipts(bus, key)])


@commands.command("tail", example="bus tail -n 20 --follow")
def tail(
    lines: Annotated[
        int,
        typer.Option("-n", "--lines", "--limit", metavar="N", min=0, max=MAX_SEQ, help="How many."),
    ] = NEWEST,
    follow: Follow = False,
    filter: MessageFilter = UNFILTERED,
    place: BusPlace = HERE,
) -> int:
    """Print the newest messages, the oldest of them first.

    With --follow it goes on with all that come and match the options.
    """
    with place.open() as bus:
        end = bus.log.newest_seq()
        filters = filter.filters(bus)
        newest = bus.log.newest(lines, **filters)
        count = place.output.messages(newest, bus.blobs, live=follow)
        if follow:
            for type in filter.type or ():
                note_other_form(place.output, bus, type)
            after = max(end, newest[-1].seq) if newest else end
            place.output.messages(bus.follow(after_seq=after, **filters), bus.blobs, live=True)
        return 0 if count else filter.note_nothing(place.output, bus)


def _find(bus: LocalBus, key: str) -> Message:
    message = find_message(bus, key)
    if message is None:
        raise NotFound(f"no message {key!a} in the log{near_ids(bus, key)}; see 'bus read'")
    return message


# Finding messages by the words in them.

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="WORDS...",
        help="Words that must all occur. In quotes a phrase; with * at its end a beginning.",
    ),
]
MatchLimit = Annotated[int | None, optional("N", "At most so many. Default: 20.", min=1)]
NewestFirst = Annotated[bool, typer.Option("--newest", help="The newest first, not the best.")]


@commands.command("search", example="bus search 'disk full' timeout --since 2d")
def search(
    words: Words,
    filter: MessageFilter = UNFILTERED,
    limit: MatchLimit = None,
    newest: NewestFirst = False,
    place: BusPlace = HERE,
) -> int:
    """Print the messages with all these words, the best first.

    Payloads are searched, not types or names. Large payloads are
    searched too, up to 100,000 characters of each. The index is kept beside the bus, in search.db,
    and brought up to date first; publishers don't wait for it. Of more than 1,000 messages that
    have all the words, the newest 1,000 are rated first.
    """
    from ...bus.search.search import SEARCH_LIMIT, Search

    place.output.show_logs()
    with place.open() as bus:
        finder = Search(bus)
        behind = finder.behind()
        indexed = bus.log.newest_seq() - behind
        with progress("indexing", behind) as move:
            matches = finder.find(
                words,
                limit=SEARCH_LIMIT if limit is None else limit,
                by_age=newest,
                on_progress=lambda seq: move(seq - indexed),
                **filter.filters(bus),
            )
        for match in matches:
            if place.output.is_json:
                place.output.json_line(_record(match))
            else:
                place.output.search_match(match, bus.blobs)
        return 0 if matches else filter.note_nothing(place.output, bus)


def _record(match: Found) -> dict[str, object]:
    record: dict[str, object] = orjson.loads(match.message.to_line())
    return record | {"snippet": match.snippet, "marks": match.marks}


# Traces: the chain of a message, and every attempt at its jobs.

#: Fields that the line of a claim leaves out: its job's line has them, or they may be long.
_NOT_IN_LINE = ("queue", "seq", "stderr", "result", "logs")


@commands.command("trace", example="bus trace review.request:17")
def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The seq or id of a message, a conversation, claim:TOKEN, or QUEUE:SEQ for a job.",
        ),
    ],
    place: BusPlace = HERE,
) -> int:
    """Print all that led to a message or came of it, as a tree.

    These are the messages that it answers, up to the first, all messages of their conversations,
    the jobs of each message in the queues, and every attempt at them. --json prints one object.
    """
    from ...subscribers.overview.trace import Trace

    with place.open() as bus:
        tree = Trace.of(bus, key)
        now_ms = bus.now_ms()
        if place.output.is_json:
            place.output.json_line(_trace_record(tree, now_ms))
        else:
            for branch in branches(tree, bus.blobs, now_ms):
                place.output.branch(*branch)
    return 0


@commands.command("inspect", example="bus inspect 17")
def inspect(
    key: Annotated[str | None, optional_word("ID|SEQ", "The id or the seq of a message.")] = None,
    conversation: OfConversation = None,
    place: BusPlace = HERE,
) -> int:
    """Print a message with its jobs and claims in every queue.

    The state of a claim is terminal, live_active, or expired_active: its lease has run out, and
    no worker has noticed it yet. With --conversation it prints the messages of that, without
    arguments the whole log, both without claims.
    """
    from ...subscribers.overview.trace import WorkHistory

    if key is not None and conversation is not None:
        raise InvalidInput("give ID or --conversation, not both")
    with place.open() as bus:
        if key is None:
            named = conversation and conversation_named(bus, conversation)
            count = place.output.messages(bus.read(conversation=named), bus.blobs)
            return 0 if count else NOTHING
        message = _find(bus, key)
        work = WorkHistory(bus).of(message.seq)
        now_ms = bus.now_ms()
        if place.output.is_json:
            place.output.json_line(_message_record(message, work, now_ms))
        else:
            print_in_full(place.output, message, bus)
            _print_work(place.output, work, now_ms)
    return 0


def _print_work(output: Output, work: list[Work], now_ms: int) -> None:
    if work:
        output.line("")
    for entry in work:
        output.line(_line(job_record(entry.job), ()))
        for claim in entry.claims:
            output.line(f"  {_line(claim_record(claim, now_ms), _NOT_IN_LINE)}")
        for act in entry.acts:
            output.line(f"  {act_line(act)}")


def _line(record: dict[str, object], left_out: tuple[str, ...]) -> str:
    return " ".join(f"{name}={value}" for name, value in record.items() if name not in left_out)


def _trace_record(tree: Trace, now_ms: int) -> dict[str, object]:
    messages = [
        {"depth": step.depth} | _message_record(step.message, step.work, now_ms)
        for step in tree.steps
    ]
    return {"seq": tree.seq, "conversations": tree.conversations, "messages": messages}


def _message_record(message: Message, work: list[Work], now_ms: int) -> dict[str, object]:
    """Return a message as it is in bus.jsonl, large payloads by name, with its jobs."""
    record: dict[str, object] = orjson.loads(message.to_line())
    jobs = [
        job_record(entry.job)
        | {"claims": [claim_record(claim, now_ms) for claim in entry.claims]}
        | {"acts": [act.record() for act in entry.acts]}
        for entry in work
    ]
    return record | {"jobs": jobs}
