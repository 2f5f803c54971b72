"""Proof: every inbox was delivered in order, with nothing skipped."""

from __future__ import annotations

from bisect import bisect_right

from ....subscribers import Inbox
from ..contents import ANSWER, ASK
from ..plan import READER
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..history import Act
    from .evidence import Evidence


def prove_inboxes(evidence: Evidence) -> Verdict:
    """Follow each agent's cursor through its histories."""
    verdict = Verdict(
        "inboxes",
        "each poll brought what follows the acknowledged, all of it and in order; no cursor moved"
        " by itself, and every reader had all of its mail",
    )
    for agent in evidence.agents:
        acts = list(evidence.acts_of(agent, "poll", "ack"))
        if acts:
            _follow(agent, acts, evidence, verdict)
    return verdict


def _follow(agent: str, acts: list[Act], evidence: Evidence, verdict: Verdict) -> None:
    mail = evidence.log.mail_of(agent)
    cursors = {0}  # where the cursor may be: after an acknowledgement that was cut off, in two
    for act in acts:
        who = f"life {act.life} of {agent}"
        if act.kind == "poll" and act.told is not None:
            seqs = act.told["seqs"]
            possible = {cursor for cursor in cursors if _is_next(mail, cursor, seqs)}
            after = " or ".join(map(str, sorted(cursors)))
            verdict.expect(
                bool(possible),
                f"{who} had acknowledged {after}, and was given {_few(seqs)} instead of"
                f" {_few(_next(mail, min(cursors), len(seqs)))}",
            )
            cursors = possible or cursors
        elif act.kind == "ack":
            seq = act.what["seq"]
            if act.told is None:
                cursors = cursors | {seq}
                continue
            cursors = {seq}
            cursor = act.told["cursor"]
            verdict.expect(cursor == seq, f"{who} acknowledged {seq}, and is at {cursor}")
    position = Inbox(evidence.bus, agent).position
    after = " or ".join(map(str, sorted(cursors)))
    verdict.expect(position in cursors, f"{agent} is at {position}, and acknowledged {after}")
    if agent.startswith(READER) and mail and position < mail[-1]:
        verdict.fail(f"{agent} ended at {position}, and has mail up to {mail[-1]}")


def _next(mail: list[int], cursor: int, count: int) -> list[int]:
    start = bisect_right(mail, cursor)
    return mail[start : start + count]


def _is_next(mail: list[int], cursor: int, seqs: list[int]) -> bool:
    return _next(mail, cursor, len(seqs)) == seqs


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
