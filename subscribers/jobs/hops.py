"""Hops: how many jobs stand one behind the other before a message, each begun by the last one.

What a worker publishes as it ends a job is one hop further than the job's message. So a worker
whose answers feed its own queue is told from people who ask again, and ends by itself.
"""

from __future__ import annotations

from copy import copy

from .errors import TooManyHops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...schema.message.draft import Draft
    from ...schema.message.message import Message

#: The header that counts them. What agents and people publish has none, which is 0.
HOPS = "hops"

#: From how many hops on people are told, and how many are refused: a chain of different workers
#: has a few, and a loop that people would miss has hundreds in a second.
WARN_HOPS, MAX_HOPS = 20, 100


def hops_of(message: Message) -> int:
    """Return how many hops a message has come; 0 where its header says nothing that makes sense."""
    hops = message.headers.get(HOPS) if message.raw_headers else None
    return hops if type(hops) is int and hops > 0 else 0


def one_hop_on(message: Message, drafts: Iterable[Draft]) -> list[Draft]:
    """Return the messages that are published as the job of a message ends, with their hops."""
    hops = hops_of(message) + 1
    counted = []
    for draft in drafts:
        draft = copy(draft)
        draft.headers = {**(draft.headers or {}), HOPS: hops}
        counted.append(draft)
    return counted


def refusal(message: Message, max_hops: int) -> TooManyHops | None:
    """Return why nothing more may follow from a message, or None if something may."""
    hops = hops_of(message) + 1
    return TooManyHops(message.seq, hops, max_hops) if hops >= max_hops else None
