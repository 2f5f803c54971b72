"""Proof: a lease has one holder at a time, and one that is late writes nothing."""

from __future__ import annotations

from collections import Counter

from ..contents import TURN
from .holdings import Holdings
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .evidence import Evidence


def prove_leases(evidence: Evidence) -> Verdict:
    """Check that holdings of a lease do not overlap, and that late holders wrote nothing."""
    verdict = Verdict(
        "leases",
        "no lease had two holders at once, tokens grew, and nothing was written under a token"
        " after a later one had come",
    )
    holdings = Holdings(evidence.clock_step_ns)
    told: Counter[int] = Counter()
    tried: Counter[int] = Counter()
    for act in evidence.acts("acquire", "renew", "release", "write"):
        was_done = act.told is not None and "lost" not in act.told
        if act.kind == "acquire":
            if act.told is not None and act.told["token"] is not None:
                holdings.grant(act, f"lease {act.what['lease']!r}", act.told["token"])
        elif act.kind == "renew" and was_done:
            holdings.renew(act)
        elif act.kind == "release":
            holdings.give_back(act)
        elif act.kind == "write":
            told[act.what["token"]] += was_done
            tried[act.what["token"]] += was_done or act.told is None
    holdings.judge(verdict)
    _judge_turns(evidence, told, tried, verdict)
    return verdict


def _judge_turns(
    evidence: Evidence, told: Counter[int], tried: Counter[int], verdict: Verdict
) -> None:
    stored: Counter[int] = Counter()
    newest: dict[str | None, int] = {}
    for entry in evidence.log.of_types(TURN):
        token = entry.token or 0
        stored[token] += 1
        before = newest.get(entry.lease, 0)
        verdict.expect(
            token >= before,
            f"message {entry.seq} was written under token {token} of lease {entry.lease!r}, after"
            f" one with token {before}",
        )
        newest[entry.lease] = max(before, token)
    for token in sorted(tried.keys() | stored.keys()):
        verdict.expect(
            told[token] <= stored[token] <= tried[token],
            f"under token {token}, {stored[token]} messages are in the log, {told[token]} were"
            f" acknowledged, and {tried[token]} may have been stored",
        )
