"""Pictures of the traffic: graph, timeline."""

from __future__ import annotations

from typing import Annotated

import typer

from ...bus.local_bus import LocalBus
from ...schema.errors import AckbusError, InvalidInput, NotFound
from ...subscribers.jobs.claims import Claims
from ..definition import Commands, optional, optional_word
from ..options.common import HERE, BusPlace, OfAgent, Since, since_time
from ..options.filters import WHOLE_LOG, Span
from ..options.payload import reason
from ..show.output import Output
from ..show.terminal import progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ...export import pictures
    from ...schema.message.message import Message

    Drawing = pictures.Links | pictures.Traffic

commands = Commands()

#: The defaults of --limit: messages of a graph and of a time line, and pairs of agents.
_MESSAGES, _TIMELINE_MESSAGES, _PAIRS = 200, 500, 60

#: How often the progress bar moves, in messages.
_MOVE_EVERY = 1000

Conversation = Annotated[
    str | None,
    optional_word(
        "CONVERSATION",
        "Its id, or the id or seq of any message of it. With --agents the whole log, if left out.",
    ),
]
ByAgent = Annotated[
    bool, typer.Option("--agents", help="A graph of agents with counts, not of each message.")
]
GraphLimit = Annotated[
    int | None,
    optional(
        "N",
        "At most so many messages, the newest. Default: 200. With --agents so many "
        "pairs of agents, the busiest. Default: 60.",
        min=1,
    ),
]
OutputFile = Annotated[str | None, optional("FILE", "Where to. Default: stdout.", "--output", "-o")]


@commands.command("graph", example="bus graph 17 -o review.mmd")
def graph(
    key: Conversation = None,
    agents: ByAgent = False,
    since: Since = None,
    limit: GraphLimit = None,
    to: OutputFile = None,
    place: BusPlace = HERE,
) -> int:
    """Draw a conversation, or the agents that talk to each other.

    A conversation is a sequence diagram. The text is for Mermaid, which GitHub draws in a block of
    the language mermaid. Replies are dashed, broadcasts go to all, and jobs to the worker that
    has them. Times are UTC.
    """
    from ...export import pictures

    if key is None and not agents:
        raise InvalidInput("give the id of a conversation or of a message in it, or --agents")
    with place.open() as bus:
        conversation = None if key is None else _conversation(bus, key)
        messages = _messages(bus, conversation=conversation, since=since)
        worker_of = Claims.of(bus).worker_of
        drawing: Drawing
        if agents:
            drawing = pictures.Links.of(messages, limit=limit or _PAIRS, worker_of=worker_of)
        else:
            drawing = pictures.Traffic.of(
                messages, bus.blobs, limit=limit or _MESSAGES, worker_of=worker_of
            )
    _check(place.output, drawing)
    _write(place.output, _graph(place.output, drawing, conversation), to)
    return 0


@commands.command("timeline", example="bus timeline --since 2h -o today.svg")
def timeline(
    since: Since = None,
    span: Span = WHOLE_LOG,
    agent: OfAgent = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="At most so many messages, the newest.")
    ] = _TIMELINE_MESSAGES,
    to: OutputFile = None,
    place: BusPlace = HERE,
) -> int:
    """Draw the messages between agents along a time line, as SVG.

    A lane has a bar from the agent's first message to its last, or to its last heartbeat where
    that came later and no --to is given. Pauses far longer than the others are left out, as a
    grey band that tells how long each was.
    """
    from ...export import pictures

    with place.open() as bus:
        first, last = span.seqs(bus)
        messages = _messages(bus, since=since, first=first, last=last, agent=agent)
        worker_of = Claims.of(bus).worker_of
        traffic = pictures.Traffic.of(messages, bus.blobs, limit=limit, worker_of=worker_of)
        beats = bus.heartbeats.list() if last is None else []
    _check(place.output, traffic)
    if agent is not None:
        beats = [beat for beat in beats if beat.agent in traffic.agents]
    drawn = pictures.Timeline.of(traffic, beats)
    title = "Time line" if agent is None else f"Time line of {pictures.plain(agent)}"
    _write(
        place.output,
        _json(drawn.record()) if place.output.is_json else pictures.timeline_svg(drawn, title),
        to,
    )
    return 0


def _conversation(bus: LocalBus, key: str) -> str:
    """Return the conversation that a message is in, or that an id names."""
    from ...bus.log.log import find_message, near_ids

    message = find_message(bus, key) or next(bus.read(conversation=key), None)
    if message is None:
        hint = near_ids(bus, key)
        raise NotFound(f"no message or conversation {key!a} in the log{hint}; see 'bus read'")
    return message.conversation


def _messages(
    bus: LocalBus,
    *,
    conversation: str | None = None,
    since: str | None,
    first: int = 1,
    last: int | None = None,
    agent: str | None = None,
) -> Iterator[Message]:
    """Yield the messages to draw, with a progress bar."""
    since_ms = None if since is None else since_time(since, bus.now_ms())
    messages = bus.read(
        conversation=conversation,
        agent=agent,
        since_ms=since_ms,
        after_seq=first - 1,
        upto_seq=last,
    )
    with progress("reading", bus.log.newest_seq()) as move:
        for count, message in enumerate(messages):
            if count % _MOVE_EVERY == 0:
                move(message.seq)
            yield message


def _check(output: Output, drawing: Drawing) -> None:
    """Refuse an empty picture, and note when not all messages are drawn."""
    if not drawing.total:
        raise NotFound("no messages fit, so there is nothing to draw; see 'bus read'")
    if drawing.is_cut:
        output.note(f"shows {drawing.extent}; --limit shows more or fewer")


def _graph(output: Output, drawing: Drawing, conversation: str | None) -> str:
    from ...export import pictures

    name = None if conversation is None else pictures.plain(conversation)
    if output.is_json:
        return _json({"conversation": name, **drawing.record()})
    if isinstance(drawing, pictures.Traffic):
        return pictures.sequence_diagram(drawing)
    return pictures.flowchart(drawing)


def _json(record: Mapping[str, object]) -> str:
    import orjson

    return orjson.dumps(record).decode() + "\n"


def _write(output: Output, picture: str, to: str | None) -> None:
    if to is None:
        output.body(picture)
        return
    try:
        with open(to, "w", encoding="utf-8", newline="\n") as file:
            file.write(picture)
    except (OSError, ValueError) as error:
        raise AckbusError(f"can't write {to}: {reason(error)}") from error
