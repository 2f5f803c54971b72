"""Proof: every inbox was delivered in order, with nothing skipped."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice

from ....subscribers import Inbox
from ..contents import ANSWER, ASK
from ..plan import READER
from .order import Known
from .publishing import numbered
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..history import Act
    from .evidence import Evidence


@dataclass(frozen=True, slots=True)
class Mail:
    """What is for one agent.

    Attributes:
        seqs: all of it, in order.
        optional: what need not come: the agent's own broadcasts, once they are archived. They
            keep nothing in the log, since the agent knows what it has said (ADR 31).
    """

    seqs: list[int]
    optional: set[int]

    def next_after(self, cursor: int, count: int) -> list[int]:
        """Return what is to be delivered next, but for what need not come."""
        places = range(bisect_right(self.seqs, cursor), len(self.seqs))
        left = (self.seqs[place] for place in places if self.seqs[place] not in self.optional)
        return list(islice(left, count))

    def may_follow(self, cursor: int, seqs: list[int]) -> bool:
        """Whether a poll may bring just this."""
        came = set(seqs)
        span = slice(bisect_right(self.seqs, cursor), bisect_right(self.seqs, _last(seqs)))
        wanted = [seq for seq in self.seqs[span] if seq in came or seq not in self.optional]
        return wanted == seqs


def prove_inboxes(evidence: Evidence) -> Verdict:
    """Follow each agent's cursor through its histories."""
    verdict = Verdict(
        "inboxes",
        "each poll brought what follows the acknowledged, in order, with nothing left out that had"
        " been published; no cursor moved by itself, and every reader had all of its mail",
    )
    known = Known(numbered(evidence))
    optional = _archived_broadcasts(evidence)
    for agent in evidence.agents:
        acts = list(evidence.acts_of(agent, "poll", "ack"))
        if acts:
            mail = Mail(evidence.log.mail_of(agent), optional.get(agent, set()))
            _follow(agent, acts, mail, known, evidence, verdict)
    return verdict


def _archived_broadcasts(evidence: Evidence) -> dict[str, set[int]]:
    """Return the broadcasts of each agent that have left the file."""
    upto = evidence.bus.archive.upto()
    found: dict[str, set[int]] = {}
    for entry in evidence.log.entries:
        if entry.to_agent is None and entry.seq <= upto:
            found.setdefault(entry.from_agent, set()).add(entry.seq)
    return found


def _follow(
    agent: str, acts: list[Act], mail: Mail, known: Known, evidence: Evidence, verdict: Verdict
) -> None:
    cursors = {0}  # where the cursor may be: after an acknowledgement that was cut off, in two
    for act in acts:
        if act.kind == "poll" and act.told is not None:
            cursors = _after_poll(act, mail, cursors, known, verdict)
        elif act.kind == "ack":
            seq = act.what["seq"]
            if act.told is None:
                cursors = cursors | {seq}
                continue
            cursors = {seq}
            cursor = act.told["cursor"]
            verdict.expect(cursor == seq, f"{_who(act)} acknowledged {seq}, and is at {cursor}")
    position = Inbox(evidence.bus, agent).position
    verdict.expect(
        position in cursors, f"{agent} is at {position}, and acknowledged {_either(cursors)}"
    )
    if agent.startswith(READER) and position < _last(mail.seqs):
        verdict.fail(f"{agent} ended at {position}, and has mail up to {_last(mail.seqs)}")


def _after_poll(
    act: Act, mail: Mail, cursors: set[int], known: Known, verdict: Verdict
) -> set[int]:
    """Check what a poll brought, and return where the cursor may have been for it."""
    seqs = act.told["seqs"] if act.told is not None else []
    possible = {cursor for cursor in cursors if mail.may_follow(cursor, seqs)}
    verdict.checked += 1
    if not possible:
        verdict.fail(
            f"{_who(act)} had acknowledged {_either(cursors)}, and was given {_few(seqs)} instead"
            f" of {_few(mail.next_after(min(cursors), len(seqs)))}"
        )
    if possible and len(seqs) < act.what["limit"]:
        missed = _last(mail.next_after(_last(seqs) or max(possible), 1))
        if 0 < missed <= known.at(act.began_ns):
            verdict.fail(
                f"{_who(act)} polled after message {missed} had been published, and did not get it"
            )
    return possible or cursors


def _last(seqs: list[int]) -> int:
    return seqs[-1] if seqs else 0


def _who(act: Act) -> str:
    return f"life {act.life} of {act.agent}"


def _either(cursors: set[int]) -> str:
    return " or ".join(map(str, sorted(cursors)))


def _few(seqs: list[int]) -> str:
    return ", ".join(map(str, seqs[:5])) + (" …" if len(seqs) > 5 else "") if seqs else "nothing"


def prove_answers(evidence: Evidence) -> Verdict:
    """Check that an acknowledgement and its answer are one."""
    verdict = Verdict("answers", "every question has one answer, of the one who was asked")
    answers: dict[str, list[str]] = {}
    for entry in evidence.log.of_types(ANSWER):
        answers.setdefault(entry.in_reply_to or "", []).append(entry.from_agent)
    for entry in evidence.log.of_types(ASK):
        found = answers.pop(entry.id, [])
        verdict.expect(
            found == [entry.to_agent],
            f"question {entry.id} to {entry.to_agent} has {len(found)} answers, not one",
        )
    for id in answers:
        verdict.fail(f"there is an answer to {id}, which is no question")
    return verdict
