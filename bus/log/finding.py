"""Messages as people name them: by seq or by id."""

from __future__ import annotations

from ...schema.message.seqs import seq_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message
    from ..bus import Bus


def find_message(bus: Bus, key: str) -> Message | None:
    """Return the message with this seq, or else with this id, or None."""
    seq = seq_in(key)
    return (None if seq is None else bus.get(seq)) or bus.get(key)
