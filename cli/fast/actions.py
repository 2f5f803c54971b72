"""The actions of publish, poll and ack. Loads only what these need, so that they start fast."""

from __future__ import annotations

import os

from ...bus.log.log import find_message
from ...schema.errors import InvalidInput, suggestion
from ...schema.message.draft import AVAILABLE_AT, DEDUPE_KEY, DEDUPE_WINDOW, Draft, parse_priority
from ...subscribers.inboxes.mail import POLL_LIMIT
from ..arguments import note_other_form, open_bus, reader, seconds, sender
from ..show.output import NOTHING, Output
from ..show.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...bus.local_bus import LocalBus
    from ...schema.errors import UnknownRecipient
    from ...schema.message.message import Message, Receipt

#: The variables that carry W3C trace context to commands.
_TRACE_VARIABLES = ("TRACEPARENT", "TRACESTATE")


def publish(
    output: Output,
    type: str,
    body: str | None = None,
    *,
    data: str | None = None,
    file: str | None = None,
    from_agent: str | None = None,
    to_agents: Sequence[str] = (),
    id: str | None = None,
    reply_to: str | None = None,
    conversation: str | None = None,
    priority: str = "normal",
    header: Sequence[str] = (),
    headers: Mapping[str, object] | None = None,
    delay_s: float | None = None,
    payload_ref: str | None = None,
    strict: bool = False,
    wait_s: float = 0.0,
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Publish one message, or one for each recipient, and print the ids."""
    from ..options.payload import payload_of

    from_agent = sender(from_agent)
    payload = payload_of(body, data, file, payload_ref)
    with open_bus(output, directory, user) as bus:
        bus.agents.refuse_several(from_agent)
        if output.has_watcher():  # a program, which nobody watches, does not wait for these looks
            note_other_form(output, bus, type)
            _note_agents(output, bus, from_agent, None if to_agents else type)
        if delay_s is not None:
            headers = {**(headers or {}), AVAILABLE_AT: bus.now_ms() + round(1000 * delay_s)}
        draft = Draft(
            type,
            payload,
            from_agent=from_agent,
            id=id,
            in_reply_to=reply_to and id_named(bus, reply_to),
            correlation_id=conversation,
            priority=parse_priority(priority),
            headers=_headers(header, headers),
            payload_ref=payload_ref,
        )
        drafts = draft.to_each(to_agents) if to_agents else [draft]
        receipts = bus.publish_many(drafts, strict=strict, wait_s=wait_s)
    for receipt in receipts:
        print_receipt(output, receipt)
    return 0


def _note_agents(output: Output, bus: LocalBus, sender: str, broadcast: str | None) -> None:
    """Note a sender that is nearly a known agent, and a broadcast whose type is an agent's name."""
    stranger = bus.agents.unseen(sender)
    if stranger is not None and stranger.nearest:
        note_new(output, stranger)
    if broadcast is not None and bus.agents.unseen(broadcast) is None:
        output.note(
            f"note: {broadcast!a} is an agent, and here the type of a message to everyone;"
            f" to that agent alone: bus publish TYPE BODY --to {broadcast}"
        )


def id_named(bus: LocalBus, key: str) -> str:
    """Return the id of a message that a word names by its seq or its id.

    A number that is no seq is taken as an id, and so is everything else.
    """
    message = find_message(bus, key)
    return key if message is None else message.id


def print_receipt(output: Output, receipt: Receipt) -> None:
    """Print the id of a message that was published, or its receipt."""
    record: dict[str, object] = {"seq": receipt.seq, "id": receipt.id}
    output.result(record | {"duplicate": True} if receipt.duplicate else record, receipt.id)


def poll(
    output: Output,
    agent: str | None = None,
    *,
    limit: int = POLL_LIMIT,
    type: str | None = None,
    with_work: bool = False,
    wait: str | None = None,
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Print the unread messages of an agent; 4 when there are none."""
    from ...subscribers.inboxes.session import inbox_of
    from ..show.message import print_page

    if limit < 1:
        raise InvalidInput("--limit must be 1 or more")
    name = reader(agent)
    wait_s = 0.0 if wait is None else seconds(wait, "--wait")
    with open_bus(output, directory, user) as bus:
        inbox = inbox_of(bus, name, with_work=with_work)
        messages = inbox.poll(limit, type=type)
        if not inbox.has_cursor:
            note_unseen(output, bus, name, messages)
        if wait_s > 0 and not messages:
            messages = inbox.poll(limit, type=type, wait_s=wait_s)
        if type is not None and not messages:
            note_other_form(output, bus, type)
        print_page(output, messages, bus, name)
    return 0 if messages else NOTHING


def note_unseen(
    output: Output, bus: LocalBus, agent: str, messages: Sequence[Message] = ()
) -> None:
    """Note that the bus has never seen an agent, with near names. Nothing is stored.

    Args:
        output: of the command line.
        bus: an open bus.
        agent: the name that was typed.
        messages: its mail: an agent that somebody writes to is expected.
    """
    # Of a backup the senders can't be known: they are counted first, which would write.
    if bus.backup_made_at_ms is None and not any(m.to_agent == agent for m in messages):
        stranger = bus.agents.unseen(agent)
        if stranger is not None:
            output.note(str(stranger))


def ack(
    output: Output,
    agent: str,
    seq: int,
    *,
    directory: str | None = None,
    user: bool = False,
) -> int:
    """Move an agent's cursor, and say how many messages that passed."""
    from ...subscribers.inboxes.session import inbox_of, passing

    with open_bus(output, directory, user) as bus:
        inbox = inbox_of(bus, agent)
        position, passed = passing(inbox, seq)
        # Only a first acknowledgement can be a mistyped name's, and every later one is in a hurry.
        stranger = None if position else _new_agent(bus, agent, passed)
        cursor = inbox.ack(seq)
    if stranger is not None:
        note_new(output, stranger)
    line = f"acknowledged {cursor}: {counted(passed, 'message')}"
    if cursor > seq and not passed:
        line = f"{seq} was acknowledged before: the cursor is at {cursor}"
    output.result({"agent": agent, "cursor": cursor, "passed": passed}, line)
    return 0


def _new_agent(bus: LocalBus, agent: str, passed: int) -> UnknownRecipient | None:
    """Return an agent that the bus has never seen; None where somebody writes to it."""
    stranger = bus.agents.stranger(agent, repeat=True)
    is_expected = passed and next(bus.read(to_agent=agent), None) is not None
    return None if is_expected else stranger


def note_new(output: Output, stranger: UnknownRecipient) -> None:
    """Note that an agent is new, with the names that it may be a slip for."""
    hint = suggestion(stranger.nearest)
    output.note(f"{stranger.agent!r} is a new agent: the bus had never seen it{hint}")


def _headers(pairs: Sequence[str], base: Mapping[str, object] | None) -> dict[str, object]:
    headers = {**_trace(), **(base or {})}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--header must be NAME=TEXT, not {pair!a}")
        headers[name] = value
    check_headers(headers)
    return headers


def _trace() -> dict[str, str]:
    """Return the trace context of this process's environment, as workers set it for commands."""
    if _TRACE_VARIABLES[0] not in os.environ:
        return {}
    from ...bus import tracing

    return tracing.given_trace(
        {name.lower(): os.environ.get(name, "") for name in _TRACE_VARIABLES}
    )


def check_headers(headers: Mapping[str, object]) -> None:
    """Refuse queue headers with values of a form that queues ignore."""
    if not headers.keys().isdisjoint((AVAILABLE_AT, DEDUPE_KEY, DEDUPE_WINDOW)):
        from ..options.payload import check_wishes

        check_wishes(headers)
