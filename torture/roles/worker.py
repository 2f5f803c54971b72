"""A worker: claims jobs, and completes them with an answer, fails them, drops them, or is late."""

from __future__ import annotations

from ...bus.doorbell import listen
from ...schema.message.draft import Draft
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.queues.queue import Queue
from ..contents import JOB_DONE, JOB_FAILED, QUEUE
from .protocol import LEASE_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...subscribers.jobs.claims import Claim
    from .agent import Me

#: How many jobs are claimed together at most.
MAX_CLAIMS = 4

#: How long it waits for a ring of the doorbell, in seconds, and how long it thinks at most.
LOOK_AGAIN_S, THINK_S = 0.25, 0.03

#: The fates of attempts, of 1000. `late` ends after its lease, `dropped` never does.
FATES = {"completed": 880, "failed": 40, "given up": 30, "renewed": 20, "dropped": 10, "late": 20}


def play(me: Me) -> None:
    """Work until the run is over and no job is left for any worker."""
    worker = Worker(me)
    with listen(me.bus) as listener:
        while True:
            ending = me.lifeline.ending
            if worker.work():
                continue
            if ending and worker.nothing_left():
                return
            listener.wait(LOOK_AGAIN_S)


class Worker:
    """One life of a worker."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._queue = Queue.open(me.bus, QUEUE)

    def work(self) -> bool:
        """Do the jobs that can be claimed at once, and return whether there were any."""
        limit = self._me.chance.randint(1, MAX_CLAIMS)
        with self._me.history.attempt("claim", lease_s=LEASE_S) as attempt:
            claims = self._queue.claim(self._me.name, limit=limit, lease_s=LEASE_S)
            attempt.told(claims=[[claim.message.seq, claim.token] for claim in claims])
        for claim in claims:
            self._me.pause(THINK_S)
            fate = self._me.choose(FATES)
            self._end(claim, fate)
        return bool(claims)

    def nothing_left(self) -> bool:
        """Whether no job waits for its time, or for the end of a lease."""
        return self._queue.next_change_ms() is None

    def _end(self, claim: Claim, fate: str) -> None:
        if fate == "dropped":
            return
        if fate == "late":
            self._me.lifeline.wait(LEASE_S)
        if fate == "renewed" and not self._renew(claim):
            return
        act = "complete" if fate not in ("failed", "given up") else "fail"
        what = {"seq": claim.message.seq, "token": claim.token, "fate": fate}
        with self._me.history.attempt(act, **what) as attempt:
            try:
                if act == "complete":
                    receipts = self._queue.complete(claim, self._answer(claim, JOB_DONE))
                else:
                    answer = self._answer(claim, JOB_FAILED)
                    receipts = self._queue.fail(claim, fate, answer, retry=fate == "failed")
            except ClaimLost:
                attempt.told(lost=True)
            else:
                attempt.told(answers=[receipt.seq for receipt in receipts])

    def _renew(self, claim: Claim) -> bool:
        what = {"seq": claim.message.seq, "token": claim.token, "lease_s": LEASE_S}
        with self._me.history.attempt("renew claim", **what) as attempt:
            try:
                self._queue.renew(claim, lease_s=LEASE_S)
            except ClaimLost:
                attempt.told(lost=True)
                return False
            attempt.told()
        self._me.pause(LEASE_S / 2)
        return True

    def _answer(self, claim: Claim, type: str) -> Draft:
        return Draft(
            type,
            {"token": claim.token},
            from_agent=self._me.name,
            to_agent=claim.message.from_agent,
            in_reply_to=claim.message.id,
        )
