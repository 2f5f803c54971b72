"""The promises of a bus by the results that it returned, and whether it keeps them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ackbus import Bus, Exporter, Inbox
from ackbus.schema.queries import file_of

#: What was told: its kind, and what it is about.
Fact = tuple[object, ...]

_STATE = """
SELECT state FROM jobs JOIN queues ON queues.id = jobs.queue_id WHERE queues.name = ? AND seq = ?
"""


def kept(bus: Bus, saved: str, fact: Fact) -> bool:
    """Whether what was told is still so."""
    kind, *about = fact
    return bool(_KEPT[str(kind)](bus, saved, *about))


def _message(bus: Bus, saved: str, seq: int, id: str) -> bool:
    found = bus.get(id)
    return found is not None and found.seq == seq


def _cursor(bus: Bus, saved: str, agent: str, seq: int) -> bool:
    return Inbox(bus, agent).position >= seq


def _completed(bus: Bus, saved: str, agent: str, seq: int, reply: str) -> bool:
    return _cursor(bus, saved, agent, seq) and bus.get(reply) is not None


def _succeeded(bus: Bus, saved: str, queue: str, seq: int, reply: str) -> bool:
    return _has_succeeded(bus, queue, seq) and bus.get(reply) is not None


def _has_succeeded(bus: Bus, queue: str, seq: int) -> bool:
    return bool(file_of(bus).value(_STATE, (queue, seq)) == "succeeded")


def _saved(bus: Bus, saved: str, newest_seq: int) -> bool:
    """Whether there is a whole backup; a later one may be about to take its place."""
    place = saved if os.path.exists(saved) else saved + ".replaced"
    with Bus.open(place) as backup:
        return (
            os.path.exists(os.path.join(place, "backup.json"))
            and backup.log.newest_seq() >= newest_seq
        )


_KEPT = {
    "bus": lambda bus, saved: True,
    "version": lambda bus, saved: True,
    "message": _message,
    "cursor": _cursor,
    "completed": _completed,
    "claimed": lambda bus, saved, token: last_claim(bus) >= token,
    "granted": lambda bus, saved, token: last_token(bus) >= token,
    "succeeded": _succeeded,
    "exported": lambda bus, saved, seq: Exporter(bus).position >= seq,
    "archived": lambda bus, saved, seq: bus.archive.upto() >= seq,
    "discarded": lambda bus, saved, seq: any(
        each.last_seq >= seq for each in bus.archive.discarded()
    ),
    "saved": _saved,
}


def last_token(bus: Bus) -> int:
    """Return the newest fencing token of a lease or a reservation."""
    return int(file_of(bus).value("SELECT last_token FROM fencing"))


def last_claim(bus: Bus) -> int:
    """Return the newest token of a claim."""
    return int(file_of(bus).value("SELECT max(token) FROM claims") or 0)


def broken(
    bus: Bus, saved: str, told: Iterable[tuple[Fact, bool]], durability: str
) -> Iterator[str]:
    """Yield what was told and is not so.

    Args:
        bus: after a power loss.
        saved: where its backup is.
        told: what was told before it, each with whether it was said to be on the disk for sure.
        durability: `full` (all is kept) or `normal` (all up to some point is).
    """
    lost: Fact | None = None
    for fact, is_firm in told:
        is_kept = kept(bus, saved, fact)
        if not is_kept and (is_firm or durability == "full"):
            yield f"lost, though it was told: {fact}"
        elif is_kept and not is_firm and lost is not None:
            yield f"kept: {fact}, though something older was lost: {lost}"
        if not is_kept:
            lost = lost or fact


def halves(bus: Bus, facts: Iterable[Fact]) -> Iterator[str]:
    """Yield what was stored in one transaction, and of which only a part is there (promise 7)."""
    for kind, *about in facts:
        if kind == "completed":
            agent, seq, reply = about
            done = Inbox(bus, str(agent)).position >= int(str(seq))
        elif kind == "succeeded":
            queue, seq, reply = about
            done = _has_succeeded(bus, str(queue), int(str(seq)))
        else:
            continue
        if done != (bus.get(str(reply)) is not None):
            yield f"only one half of {(kind, *about)}"
