"""Whole bodies, as agents read them in a shell and from hooks: each line behind a bar, bounded.

Nothing in a body can begin a line without a bar, so nothing in it passes for what the bus says.
"""

from __future__ import annotations

from ...schema.errors import BlobMissing, InvalidInput
from . import output
from .answering import about_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...blobs.store import BlobStore
    from ...bus.bus import Bus
    from ...schema.message.message import Message

#: The most characters that the bodies of a page have: some 3,000 tokens.
PAGE_CHARS = 12_000

#: The largest blob that is read to be shown, in bytes.
_READ_BYTES = 1_000_000


class Bodies:
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
            note = output.visible(output.preview(message, self._blobs))
            return [f"| {note}", f"({_all_of(message)})"], False
        if text is None:
            return [f"| [{message.payload_error}]"], False
        if len(text) > self._left < self._room:
            return None
        cut = text[: self._left]
        self._left -= len(cut)
        lines = [f"| {output.visible(line)}" for line in cut.splitlines()]
        if cut == text:
            return lines, True
        return [*lines, f"(cut here, {len(text):,} characters in all; {_all_of(message)})"], False


def text_of(message: Message, blobs: BlobStore) -> str | None:
    """Return a body as text, JSON unless it is text; None when it can't be had, or is too large."""
    if _is_too_large(message, blobs) or message.payload_error is not None:
        return None
    if not message.has_payload:
        return ""
    payload = message.payload
    return payload if isinstance(payload, str) else output.json_text(payload)


def print_page(found: Sequence[Message], bus: Bus, agent: str) -> None:
    """Print an agent's mail with whole bodies, until a page is full: JSON objects with --json.

    A body of one short line stands at the end of its message's line, others below it; and below
    these how a request is answered.
    """
    blobs = bus.blobs
    if output.is_json():
        output.messages(found, blobs)
        return
    bodies = Bodies(blobs)
    for number, message in enumerate(found):
        parts = output.message_parts(message, blobs)
        text = text_of(message, blobs)
        if text is not None and output.preview_of(text) == text.rstrip("\r\n"):
            output.message_line((*parts[:4], output.preview_of(text)))
            _print_answer(bus, message, agent)
            continue
        shown = bodies.lines(message)
        if shown is None:
            left = output.counted(len(found) - number, "message")
            output.line(f"({left} more: acknowledge these, then poll again)")
            return
        output.message_line((*parts[:4], ""))
        for line in shown[0]:
            output.line(line)
        _print_answer(bus, message, agent)


def _print_answer(bus: Bus, message: Message, agent: str) -> None:
    line = about_answer(bus, message, agent)
    if line is not None:
        output.line(line)


def _is_too_large(message: Message, blobs: BlobStore) -> bool:
    try:
        return message.payload_ref is not None and blobs.size(message.payload_ref) > _READ_BYTES
    except (BlobMissing, InvalidInput):  # what is no blob's name names no blob
        return False


def _all_of(message: Message) -> str:
    return f"'bus show {message.seq}' prints all"
