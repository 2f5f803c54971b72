"""A message in full, for people."""

from __future__ import annotations

from ...schema.errors import BlobMissing, InvalidInput
from ...schema.message.draft import PRIORITY_NAMES, Priority
from ...schema.message.times import format_ts
from .output import Output, blob_note, json_text, message_parts, preview, preview_of
from .text import counted, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...blobs.store import BlobStore
    from ...bus.local_bus import LocalBus
    from ...schema.message.message import Message

# The answer to a request: the command that gives it from a shell, or the one that was given.


def about_answer(output: Output, bus: LocalBus, message: Message, agent: str) -> str | None:
    """Return the line about the answer to a request; None for other messages.

    Args:
        bus: an open bus.
        message: the message.
        agent: the agent that reads it.
    """
    how = how_to_answer(output, message, agent)
    if how is None:
        return None
    from ...bus.own_answers import ANSWERED_AS

    answer = answer_of(bus, message, agent)
    return f"Answer it by {how}." if answer is None else f"Note: {ANSWERED_AS} [{answer.seq}]."


def answer_of(bus: LocalBus, message: Message, agent: str | None) -> Message | None:
    """Return an agent's answer to a request; None for other messages, and without an agent."""
    if agent is None or not message.type.endswith(".request"):
        return None
    from ...bus.own_answers import own_answer

    return own_answer(bus, message, agent)


def how_to_answer(output: Output, message: Message, agent: str | None = None) -> str | None:
    """Return how a request is answered, for people and agents; None for other messages.

    Args:
        message: the message.
        agent: the agent that answers; None: the recipient, or the one that BUS_AGENT names.
    """
    if not message.type.endswith(".request"):  # most messages are no requests, and the rest is slow
        return None
    from shlex import join

    from ...schema.message.reply_types import ReplyTypes

    types, sender = ReplyTypes.of(message.type), agent or message.to_agent
    words = ["bus", "publish", str(types.success), *(("--from", sender) if sender else ())]
    words += ["--to", message.from_agent, "--reply-to", str(message.seq), "--file", "-"]
    how = output.completed(f"'{visible(join(words))}'")
    return f"{how}; after a failure by {visible(str(types.failure))}"


# Whole bodies, as agents read them in a shell and from hooks: each line behind a bar, bounded.
#
# Nothing in a body can begin a line without a bar, so nothing in it passes for what the bus says.

#: The most characters that the bodies of a page have: some 3,000 tokens.
PAGE_CHARS = 12_000

#: The largest blob that is read to be shown, in bytes.
_READ_BYTES = 1_000_000


class BodyPage:
    """The bodies of a page of messages, as long as there is room.

    Args:
        blobs: where large payloads are.
        room: how many characters they may have.
    """

    def __init__(self, blobs: BlobStore, room: int = PAGE_CHARS) -> None:
        self._blobs = blobs
        self._room = self._left = room

    def lines(self, message: Message) -> tuple[list[str], bool] | None:
        """Return the lines of a body, and whether they are all of it; None when it doesn't fit.

        The first body of a page is cut where it is longer.
        """
        text = text_of(message, self._blobs)
        if text is None and _is_too_large(message, self._blobs):
            note = visible(preview(message, self._blobs))
            return [f"| {note}", f"({_all_of(message)})"], False
        if text is None:
            return [f"| [{message.payload_error}]"], False
        is_first = self._left == self._room
        if len(text) > self._left and not is_first:
            return None
        cut = text[: self._left]
        self._left -= len(cut)
        lines = [f"| {visible(line)}" for line in cut.splitlines()]
        if cut == text:
            return lines, True
        return [*lines, f"(cut here, {len(text):,} characters in all; {_all_of(message)})"], False


def text_of(message: Message, blobs: BlobStore) -> str | None:
    """Return a body as text, or as JSON; None when it can't be read, or is too large."""
    if _is_too_large(message, blobs) or message.payload_error is not None:
        return None
    if not message.has_payload:
        return ""
    payload = message.payload
    return payload if isinstance(payload, str) else json_text(payload)


def print_page(output: Output, messages: Sequence[Message], bus: LocalBus, agent: str) -> None:
    """Print an agent's mail with whole bodies, until a page is full: JSON objects with --json.

    A body of one short line stands at the end of its message's line, a longer one below it. Below
    the body of a request stands how to answer it.
    """
    blobs = bus.blobs
    if output.is_json:
        output.messages(messages, blobs)
        return
    bodies = BodyPage(blobs)
    for number, message in enumerate(messages):
        parts_before_body = message_parts(message, blobs)[:4]
        text = text_of(message, blobs)
        if text is not None and preview_of(text) == text.rstrip("\r\n"):
            output.message_line((*parts_before_body, preview_of(text)))
            _print_answer(output, bus, message, agent)
            continue
        shown = bodies.lines(message)
        if shown is None:
            rest = counted(len(messages) - number, "message")
            output.line(f"({rest} more: acknowledge these, then poll again)")
            return
        output.message_line((*parts_before_body, ""))
        for line in shown[0]:
            output.line(line)
        _print_answer(output, bus, message, agent)


def _print_answer(output: Output, bus: LocalBus, message: Message, agent: str) -> None:
    line = about_answer(output, bus, message, agent)
    if line is not None:
        output.line(line)


def _is_too_large(message: Message, blobs: BlobStore) -> bool:
    try:
        return message.payload_ref is not None and blobs.size(message.payload_ref) > _READ_BYTES
    except (BlobMissing, InvalidInput):  # the reference is not the name of a blob
        return False


def _all_of(message: Message) -> str:
    return f"'bus show {message.seq}' prints all"


def print_in_full(output: Output, message: Message, bus: LocalBus) -> None:
    """Print the present fields of a message, and its payload."""
    from json import dumps  # slow to load, and mail is printed without

    error, answer = message.payload_error, answer_of(bus, message, message.to_agent)
    fields = {
        "seq": message.seq,
        "id": message.id,
        "time": format_ts(message.ts_ms),
        "from": message.from_agent,
        "to": message.to_agent or "all",
        "type": message.type,
        "conversation": message.conversation,
        "reply to": message.in_reply_to,
        "priority": _unusual_priority(message),
        "headers": dumps(message.headers, ensure_ascii=False) if message.headers else None,
        "blob": message.payload_ref,
        "answered as": None if answer is None else answer.seq,
        "answer by": how_to_answer(output, message) if answer is None else None,
        "payload": None if error is None else _complaint(message, error, bus.blobs),
    }
    for name, value in fields.items():
        if value is not None:
            output.line(f"{name + ':':<14}{value}")
    text = _full_text(message)
    if text is not None:
        output.line("")
        for part in text.split("\n"):
            output.line(part)


def _unusual_priority(message: Message) -> str | None:
    return None if message.priority == Priority.NORMAL else PRIORITY_NAMES[message.priority]


def _full_text(message: Message) -> str | None:
    """Return the whole payload as text, or None when there is none to show."""
    if message.payload_error is not None:
        return message.raw_payload  # what is not JSON; None when it is in a blob
    if isinstance(message.payload, str) or not message.has_payload:
        text: str | None = message.payload
        return text
    from json import dumps

    return dumps(message.payload, indent=2, ensure_ascii=False)


def _complaint(message: Message, error: str, blobs: BlobStore) -> str:
    """Return the note about a payload that is not shown, and how to get it."""
    ref = message.payload_ref
    if ref is None or error in ("blob_missing", "blob_altered"):
        return f"[{error}]"
    return f"[{error}] [{blob_note(ref, blobs)}]; get it with bus blob get {ref}"
