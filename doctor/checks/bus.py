"""Checks of a bus that can be opened: its blobs, its archive, its chain, the index, its agents."""

from __future__ import annotations

import os
from itertools import islice

from ...bus.presence.heartbeats import Liveness
from ...bus.search.search import Search
from ...bus.trust.keys import Keyring
from ...schema.errors import BlobAltered, BlobMissing, InvalidInput
from ...schema.findings import bad, ok, warn
from ...schema.message.limits import MAX_SEQ
from ...schema.queries import file_of
from ...schema.sqlite.settings import age_of_backup
from ..recovery.damage import in_words, ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...schema.findings import Finding

#: How many blobs are looked for, unless all of them are to be read.
_QUICK_BLOBS = 20_000

#: How many of the newest messages are looked at, unless all are.
_QUICK_MESSAGES = 10_000

#: With fewer numbers left than this, a bus is soon to be replaced.
_MANY_NUMBERS = 1_000_000_000

#: A heart that stopped longer ago than this is history, in seconds: a day.
_RECENT_S = 86_400.0

#: How many names a line has.
_NAMED = 5


def checks_of_bus(bus: Bus, *, full: bool = False) -> dict[str, Callable[[], Finding]]:
    """Return the checks of the log and of what belongs to it.

    Args:
        bus: an open bus.
        full: read everything, however long it takes.
    """
    return {
        "settings": lambda: _settings(bus),
        "messages": lambda: _messages(bus, full),
        "blobs": lambda: _blobs(bus, full),
        "archive": lambda: _archive(bus, full),
        "chain": lambda: _chain(bus),
        "keys": _keys,
        "search": lambda: _search(bus, full),
        "hearts": lambda: _hearts(bus),
    }


def _settings(bus: Bus) -> Finding:
    file_of(bus).look_at_settings()  # an examination opens any file, and asks it nothing
    durability = f"durability is {bus.settings.durability()}"
    made_at_ms = bus.backup_made_at_ms
    if made_at_ms is None:
        return ok(durability)
    made = age_of_backup(made_at_ms, bus.now_ms())
    return warn(f"{durability}; this is a backup, {made}", "'bus restore' takes it into use")


def _messages(bus: Bus, full: bool) -> Finding:
    """Look at the numbers and the times of messages, which are never changed."""
    newest = bus.log.newest_seq()
    if newest > MAX_SEQ - _MANY_NUMBERS:
        text = f"the newest is {newest}, and numbers end at {MAX_SEQ}"
        return bad(text, "make a new bus, and import bus.jsonl there, while there are numbers left")
    after = 0 if full else newest - _QUICK_MESSAGES
    if wrong := bus.log.wrong_times(after):
        text = f"their times are none, or to come: {ranges(wrong)}; they are archived by place"
        return warn(text, "look for their sender: ts_ms is in milliseconds since 1970")
    if not full:
        return ok(f"the newest is {newest:,}; --full looks for numbers without a message")
    if gaps := bus.log.gaps():
        count = sum(last - first + 1 for first, last in gaps)
        text = f"{count:,} numbers have no message, which is possibly lost: {in_words(gaps)}"
        return warn(text, "look for them in a backup, unless another program has left them out")
    return ok(f"the newest is {newest:,}; none is missing")


def _blobs(bus: Bus, full: bool) -> Finding:
    named = bus.log.named_blobs()
    looked_at = 0
    lacking = []
    for ref in named if full else islice(named, _QUICK_BLOBS):
        looked_at += 1
        if not _is_there(bus, ref, full):
            lacking.append(ref)
    if lacking:
        what = "missing or altered" if full else "missing"
        text = f"{len(lacking)} of {looked_at} are {what}: {_names(lacking)}"
        return bad(text, "copy them from another clone; 'bus doctor --repair' does from a backup")
    if full:
        return ok(f"{looked_at} are named, and whole")
    more = ", the first of them" if looked_at == _QUICK_BLOBS else ""
    return ok(f"{looked_at} are named, and there{more}; --full reads them")


def _is_there(bus: Bus, ref: str, full: bool) -> bool:
    if not full:
        return ref in bus.blobs
    try:
        bus.blobs.verify(ref)
    except (BlobMissing, BlobAltered, InvalidInput):
        return False
    return True


def _archive(bus: Bus, full: bool) -> Finding:
    segments = bus.archive.segments()
    harmed = []
    for segment in segments:
        path = bus.archive.path(segment)
        if full:
            state = bus.archive.state_of(segment)
            if state == "ok" and bus.archive.lacks_entries(segment):
                state = "whole, but not all that is in it is known"
        elif not os.path.exists(path):
            state = "missing"
        else:
            state = "ok" if os.stat(path).st_size == segment.bytes else "altered"
        if state != "ok":
            harmed.append(f"{os.path.basename(path)} is {state}")
    if harmed:
        return bad(_names(harmed), "copy it from a backup, or 'bus doctor --repair'")
    gone = "".join(f"; {each}" for each in bus.archive.discarded())
    if left := bus.archive.discarded_files():
        text = f"files of discarded messages are still there: {_names(left)}{gone}"
        return warn(text, "'bus archive --discard --before 1' deletes them")
    if not segments:
        return ok(f"nothing is archived{gone}")
    how = "whole" if full else "there; --full reads them"
    return ok(f"segments up to {segments[-1].last_seq}: {len(segments)}, all {how}{gone}")


def _chain(bus: Bus) -> Finding:
    head = bus.chain.head()
    if not bus.chain.is_on():
        return ok("off" if head is None else f"off since {head.seq}; 'bus verify' checks it")
    behind = bus.chain.behind()
    return ok(f"on, {behind:,} behind; 'bus verify' checks it")


def _keys() -> Finding:
    keyring = Keyring()
    agents = keyring.agents()
    for agent in agents:
        keyring.of(agent)  # raises where it can't be used
    if not agents:
        return ok("none; no agent here signs")
    return ok(f"agents with keys in {keyring.directory}: {len(agents)}")


def _search(bus: Bus, full: bool) -> Finding:
    if not os.path.exists(bus.layout.search):
        return ok("no index yet; the first search makes it")
    search = Search(bus)
    if harm := search.damage(full=full):
        return bad(
            f"search.db is damaged ({harm}); no message is", "'bus doctor --repair' makes it again"
        )
    behind = search.behind()
    return ok(f"messages to index at the next search: {behind:,}")


def _hearts(bus: Bus) -> Finding:
    beats = bus.heartbeats.list()
    silent = [
        beat
        for beat in beats
        if beat.liveness in (Liveness.STALE, Liveness.DEAD) and beat.age_s < _RECENT_S
    ]
    if silent:
        who = _names([f"{beat.agent} ({beat.age_s:,.0f} s ago)" for beat in silent])
        return warn(f"stopped without a word: {who}", "see what became of them")
    alive = sum(beat.liveness in (Liveness.ALIVE, Liveness.WARN) for beat in beats)
    return ok(f"{alive} beat")


def _names(found: list[str]) -> str:
    return ", ".join(found[:_NAMED]) + (" …" if len(found) > _NAMED else "")
