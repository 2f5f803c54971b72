"""Proof: every published message is in the log once, unaltered, and in order."""

from __future__ import annotations

from ..plan import PUBLISHER
from .order import Numbered, out_of_order
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..history import Act
    from .evidence import Entry, Evidence


def prove_publishing(evidence: Evidence) -> Verdict:
    """Compare every publish with the log, and the log with every publish."""
    verdict = Verdict(
        "publishing",
        "every acknowledged message is in the log once, as it was sent; of what was cut off, all"
        " of a batch or none",
    )
    unexplained = {
        entry.id for entry in evidence.log.entries if entry.from_agent.startswith(PUBLISHER)
    }
    for id in evidence.log.doubled:
        verdict.fail(f"message {id} is in the log more than once")
    for act in evidence.acts("publish"):
        _check(act, evidence, verdict)
        unexplained.difference_update(line[0] for line in act.what["messages"])
    for id in sorted(unexplained):
        verdict.fail(f"message {id} is in the log, but was never published")
    return verdict


def _check(act: Act, evidence: Evidence, verdict: Verdict) -> None:
    lines = act.what["messages"]
    entries = [evidence.log.by_id.get(line[0]) for line in lines]
    who = f"life {act.life} of {act.agent}"
    for number, (line, entry) in enumerate(zip(lines, entries, strict=True)):
        verdict.checked += 1
        if entry is not None and not _is_as_sent(entry, act.agent, line):
            verdict.fail(f"message {line[0]} is in the log as {entry}, and was sent as {line}")
        if act.told is None:
            continue
        seq = act.told["seqs"][number]
        if entry is None:
            verdict.fail(f"{who} was told that {line[0]} is message {seq}, and it is not there")
        elif entry.seq != seq:
            verdict.fail(f"{who} was told that {line[0]} is message {seq}, and it is {entry.seq}")
    stored = sum(entry is not None for entry in entries)
    if act.told is None and stored not in (0, len(lines)):
        verdict.fail(f"{who} was cut off in a batch, and {stored} of {len(lines)} were stored")


def _is_as_sent(entry: Entry, agent: str, line: list[Any]) -> bool:
    id, type, to, size, parent = line
    found = (entry.id, entry.type, entry.to_agent, entry.size, entry.in_reply_to)
    return found == (id, type, to, size, parent) and entry.from_agent == agent


def prove_order(evidence: Evidence) -> Verdict:
    """Check that numbers grow: in the log, and with the time of the publishers."""
    verdict = Verdict(
        "order",
        "the log is in order of seq; what was published after another publish had returned comes"
        " after it",
    )
    before = 0
    for entry in evidence.log.entries:
        verdict.expect(entry.seq > before, f"message {entry.seq} stands behind message {before}")
        before = entry.seq
    for earlier, later in out_of_order(numbered(evidence)):
        verdict.fail(
            f"{later.who} was given message {later.low} after {earlier.who} had been given"
            f" {earlier.high}"
        )
    return verdict


def numbered(evidence: Evidence) -> list[Numbered]:
    """Return the publishes that stored something: repeats of an earlier life's are left out."""
    seen: set[str] = set()
    found = []
    for act in evidence.acts("publish"):
        ids = [line[0] for line in act.what["messages"]]
        if act.told is not None and act.ended_ns is not None and ids[0] not in seen:
            seqs = act.told["seqs"]
            who = f"life {act.life} of {act.agent}"
            found.append(Numbered(act.began_ns, act.ended_ns, min(seqs), max(seqs), who))
        elif act.told is None:
            seen.update(ids)
    return found
