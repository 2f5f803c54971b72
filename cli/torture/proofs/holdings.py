"""Holdings: who was sure to hold what, and when. Two must never be sure of one thing at once.

A holder is sure from the moment that it was told of its grant, until the time that it asked for
would be over if it had begun when it asked, or until it was about to give the thing back. All
processes of a machine share the clock by which this is written down.
"""

from __future__ import annotations

from dataclasses import dataclass

from .order import Numbered, out_of_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..history import Act
    from .verdict import Verdict

#: By how much a lease may end earlier than its holder reckons, in nanoseconds: the bus counts in
#: whole milliseconds, and the clock that it reads is slowed and sped up by the system.
SLACK_NS = 5_000_000


@dataclass(slots=True)
class Holding:
    """One grant.

    Attributes:
        thing: what was granted.
        token: its token.
        who: to whom, for people.
        asked_ns, from_ns: when it was asked for, and when its holder was told of it.
        until_ns: until when its holder was sure to hold it.
    """

    thing: object
    token: int
    who: str
    asked_ns: int
    from_ns: int
    until_ns: int


class Holdings:
    """All grants of one kind, by token.

    Args:
        clock_step_ns: by how much the machine's clock was put forward or back meanwhile. Leases
            go by it, and histories don't: that much can't be judged.
    """

    def __init__(self, clock_step_ns: int) -> None:
        self._slack_ns = SLACK_NS + clock_step_ns
        self._by_token: dict[int, Holding] = {}
        self._doubled: list[str] = []

    def grant(self, act: Act, thing: object, token: int) -> None:
        """Note that an act was told of a grant."""
        assert act.ended_ns is not None
        who = f"life {act.life} of {act.agent}"
        until_ns = act.began_ns + _duration_ns(act)
        if token in self._by_token:
            self._doubled.append(
                f"token {token} was given to {self._by_token[token].who} and to {who}"
            )
        self._by_token[token] = Holding(thing, token, who, act.began_ns, act.ended_ns, until_ns)

    def renew(self, act: Act) -> None:
        """Note that a holder was told of a renewal."""
        holding = self._by_token.get(act.what["token"])
        if holding is not None:
            holding.until_ns = max(holding.until_ns, act.began_ns + _duration_ns(act))

    def give_back(self, act: Act) -> None:
        """Note that a holder was about to give its grant back."""
        holding = self._by_token.get(act.what["token"])
        if holding is not None:
            holding.until_ns = min(holding.until_ns, act.began_ns)

    def judge(self, verdict: Verdict) -> None:
        """Note what was held twice, and tokens that did not grow."""
        for text in self._doubled:
            verdict.fail(text)
        last: dict[object, Holding] = {}
        for holding in sorted(self._by_token.values(), key=lambda holding: holding.from_ns):
            before = last.get(holding.thing)
            if before is not None:
                self._judge_pair(before, holding, verdict)
            verdict.checked += 1
            if before is None or holding.until_ns > before.until_ns:
                last[holding.thing] = holding
        numbered = (
            Numbered(holding.asked_ns, holding.from_ns, holding.token, holding.token, holding.who)
            for holding in self._by_token.values()
        )
        for earlier, later in out_of_order(numbered):
            verdict.fail(
                f"{later.who} was given token {later.low} after {earlier.who} had been given"
                f" {earlier.high}"
            )

    def _judge_pair(self, before: Holding, after: Holding, verdict: Verdict) -> None:
        both_ns = min(before.until_ns, after.until_ns) - after.from_ns
        if both_ns > self._slack_ns:
            verdict.fail(
                f"{before.who} (token {before.token}) and {after.who} (token {after.token}) held"
                f" {after.thing} at once, for {both_ns / 1e9:.3f} s"
            )


def _duration_ns(act: Act) -> int:
    lease_s: float = act.what["lease_s"]
    return round(lease_s * 1_000_000_000)
