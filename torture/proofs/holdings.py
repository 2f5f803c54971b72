"""Holdings: the times in which a holder was sure of its grant. No two may overlap for one thing.

A holder is sure from the moment that it learns of its grant, until the requested time would be over
if it had begun with the request, or until the holder is about to release the thing. All processes
of a machine share the clock of these records.
"""

from __future__ import annotations

from dataclasses import dataclass

from .order import Numbered, out_of_order

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..history import Act
    from .verdict import Verdict

#: How much earlier a lease may end than its holder expects, in nanoseconds: the bus counts in
#: whole milliseconds, and the system slows and speeds up the clock that it reads.
SLACK_NS = 5_000_000


@dataclass(slots=True)
class Holding:
    """One grant.

    Attributes:
        thing: the granted thing.
        token: its token.
        who: its holder, for people.
        asked_ns, from_ns: the times of the request, and of its result.
        until_ns: the time until which the holder was sure of it.
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
        """Note the grant that an act returned."""
        assert act.ended_ns is not None
        who = f"life {act.life} of {act.agent}"
        until_ns = act.began_ns + _duration_ns(act)
        if token in self._by_token:
            self._doubled.append(
                f"token {token} was given to {self._by_token[token].who} and to {who}"
            )
        self._by_token[token] = Holding(thing, token, who, act.began_ns, act.ended_ns, until_ns)

    def renew(self, act: Act) -> None:
        """Note an extension by its holder."""
        holding = self._by_token.get(act.what["token"])
        if holding is not None:
            holding.until_ns = max(holding.until_ns, act.began_ns + _duration_ns(act))

    def give_back(self, act: Act) -> None:
        """Note that a holder was about to release its grant."""
        holding = self._by_token.get(act.what["token"])
        if holding is not None:
            holding.until_ns = min(holding.until_ns, act.began_ns)

    def judge(self, verdict: Verdict) -> None:
        """Report overlapping holdings, and tokens that did not grow."""
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
