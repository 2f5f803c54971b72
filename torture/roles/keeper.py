"""The keeper: archives, checkpoints, gives pages back, collects blobs, searches, counts."""

from __future__ import annotations

from ...bus.maintenance import Maintenance
from ...export.archive_writer import Archiver
from ...subscribers.overview.retention import Retention

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .agent import Me

#: How long it rests between two acts at most, in seconds.
REST_S = 1.0

#: How many messages stay in the file, however many have been done with.
LEFT_MESSAGES = 100

#: How old a blob must be that no message names. A publisher that is suspended after it wrote its
#: blob, and before it named it, must not lose it.
COLLECT_AFTER_S = 60.0


def play(me: Me) -> None:
    """Look after the bus until it is over."""
    acts: dict[str, Callable[[Me], object]] = {
        "archive": _archive,
        "maintain": _maintain,
        "collect": lambda me: me.bus.collect_blobs(older_than_s=COLLECT_AFTER_S),
        "search": lambda me: len(me.bus.search(me.any_of("publisher"))),
        "count": lambda me: me.bus.stats().messages,
    }
    while not me.lifeline.ending:
        name = me.chance.choice(list(acts))
        with me.history.attempt(name) as attempt:
            attempt.told(did=acts[name](me))
        me.pause(REST_S)


def _archive(me: Me) -> int:
    with Archiver(me.bus) as archiver:
        plan = Retention(me.bus).plan(me.bus.log.newest_seq() - LEFT_MESSAGES)
        return len(archiver.archive(plan.upto_seq))


def _maintain(me: Me) -> int | None:
    upkeep = Maintenance(me.bus)
    upkeep.checkpoint()
    return upkeep.give_back()
