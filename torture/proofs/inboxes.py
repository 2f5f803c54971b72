"""Proof: every inbox was delivered in order, with nothing skipped."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from ...subscribers.inboxes.inbox import Inbox
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
    """The mail of one agent.

    Attributes:
        seqs: its seqs, in order.
        archived: the archived broadcasts. They need not come to an agent that never
            acknowledged anything: a new agent begins with the messages still in the file.
    """

    seqs: list[int]
    archived: frozenset[int]

    def missing(self, cursor: int, seqs: list[int], limit: int) -> int:
        """Return the first message that a poll should have brought and did not; 0 for none.

        Args:
            cursor: the agent's cursor.
            seqs: the result of the poll.
            limit: the limit of the poll.
        """
        optional = frozenset() if cursor else self.archived
        brought = iter(seqs)
        wanted = next(brought, None)
        for place in range(bisect_right(self.seqs, cursor), len(self.seqs)):
            seq = self.seqs[place]
            if seq == wanted:
                wanted = next(brought, None)
            elif seq not in optional:
                return seq if wanted is not None or len(seqs) < limit else 0
        return 0

    def has(self, cursor: int, seqs: list[int]) -> bool:
        """Whether all that a poll brought is mail after the cursor, in order."""
        span = self.seqs[bisect_right(self.seqs, cursor) : bisect_right(self.seqs, _last(seqs))]
        rest = iter(span)
        return all(seq in rest for seq in seqs)


def prove_inboxes(evidence: Evidence) -> Verdict:
    """Follow each agent's cursor through its histories."""
    verdict = Verdict(
        "inboxes",
        "each poll brought what follows the acknowledged, in order, with nothing left out that had"
        " been published; no cursor moved by itself, and every reader had all of its mail",
    )
    known = Known(numbered(evidence))
    archived = _archived_broadcasts(evidence)
    for agent in evidence.agents:
        acts = list(evidence.acts_of(agent, "poll", "ack"))
        if acts:
            mail = Mail(evidence.log.mail_of(agent), archived)
            _follow(agent, acts, mail, known, evidence, verdict)
    return verdict


def _archived_broadcasts(evidence: Evidence) -> frozenset[int]:
    """Return the broadcasts that have left the file."""
    upto = evidence.bus.archive.upto()
    return frozenset(
        entry.seq for entry in evidence.log.entries if entry.to_agent is None and entry.seq <= upto
    )


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
    """Check the result of a poll, and return the cursors that explain it."""
    assert act.told is not None
    seqs, limit = act.told["seqs"], act.what["limit"]
    visible = max(_last(seqs), known.at(act.began_ns))
    missing = {cursor: mail.missing(cursor, seqs, limit) for cursor in cursors}
    possible = {
        cursor
        for cursor in cursors
        if not 0 < missing[cursor] <= visible and mail.has(cursor, seqs)
    }
    verdict.checked += 1
    if not possible:
        lacking = min(missing.values())
        verdict.fail(
            f"{_who(act)} had acknowledged {_either(cursors)}, and was given {_few(seqs)}"
            + (f" without {lacking}" if lacking else "")
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
    """Check that an acknowledgement and its answer were stored together."""
    verdict = Verdict("answers", "every question has one answer, from the agent that was asked")
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
