"""Proof: every inbox was delivered in order, with nothing skipped."""

from __future__ import annotations

from bisect import bisect_right

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


def prove_inboxes(evidence: Evidence) -> Verdict:
    """Follow each agent's cursor through its histories."""
    verdict = Verdict(
        "inboxes",
        "each poll brought what follows the acknowledged, in order, with nothing left out that had"
        " been published; no cursor moved by itself, and every reader had all of its mail",
    )
    known = Known(numbered(evidence))
    for agent in evidence.agents:
        acts = list(evidence.acts_of(agent, "poll", "ack"))
        if acts:
            _follow(agent, acts, evidence, known, verdict)
    return verdict


def _follow(
    agent: str, acts: list[Act], evidence: Evidence, known: Known, verdict: Verdict
) -> None:
    mail = evidence.log.mail_of(agent)
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
    if agent.startswith(READER) and mail and position < mail[-1]:
        verdict.fail(f"{agent} ended at {position}, and has mail up to {mail[-1]}")


def _after_poll(
    act: Act, mail: list[int], cursors: set[int], known: Known, verdict: Verdict
) -> set[int]:
    """Check what a poll brought, and return where the cursor may have been for it."""
    seqs = act.told["seqs"] if act.told is not None else []
    possible = {cursor for cursor in cursors if _next(mail, cursor, len(seqs)) == seqs}
    verdict.expect(
        bool(possible),
        f"{_who(act)} had acknowledged {_either(cursors)}, and was given {_few(seqs)} instead of"
        f" {_few(_next(mail, min(cursors), len(seqs)))}",
    )
    if possible and len(seqs) < act.what["limit"]:
        after = seqs[-1] if seqs else max(possible)
        (missed, *_) = [*_next(mail, after, 1), 0]
        verdict.expect(
            not 0 < missed <= known.at(act.began_ns),
            f"{_who(act)} polled after message {missed} had been published, and did not get it",
        )
    return possible or cursors


def _next(mail: list[int], cursor: int, count: int) -> list[int]:
    start = bisect_right(mail, cursor)
    return mail[start : start + count]


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
