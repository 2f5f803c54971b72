"""The log messages of a worker: failed attempts, and conversations that look like loops."""

from __future__ import annotations

import logging
import warnings

from ..schema.callbacks import Failures
from ..schema.errors import InvalidInput
from ..subscribers.jobs import jobs as states
from ..subscribers.jobs.errors import HopsWarning
from ..subscribers.jobs.hops import hops_of
from ..subscribers.jobs.outcomes import end_state, is_tried_again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..schema.errors import AckbusError
    from ..schema.message.message import Message, Receipt
    from ..subscribers.jobs.claims import Claim, Outcome
    from ..subscribers.jobs.policy import Policy
    from .work import Result

#: How much of an error is told in a line of the log; the claim has more.
_MAX_TOLD_CHARS = 300

#: Of how many conversations a worker remembers that it has warned.
_MAX_REMEMBERED = 1000

_log = logging.getLogger("ackbus.worker")


class Reports:
    """Tells of the ends that one worker has written down.

    Args:
        warn_hops: from how many hops on it warns of a conversation, once for each.
        max_hops: how many are refused.

    Raises:
        InvalidInput: one of them is less than 1.
    """

    def __init__(self, warn_hops: int, max_hops: int) -> None:
        if warn_hops < 1 or max_hops < 1:
            raise InvalidInput("warn_hops and max_hops must be at least 1")
        self.max_hops = max_hops
        self._warn_hops = warn_hops
        self._warned: dict[str, None] = {}
        self._failures = Failures()

    def ended(
        self, policy: Policy, claim: Claim, result: Result, error: AckbusError | None
    ) -> None:
        """Tell how an attempt failed, or why its end was not written down as it was.

        The first failure of each kind of a handler comes with its traceback.
        """
        raised, outcome = result.error, result.outcome
        if error is not None:
            text = str(error)
        elif outcome is not None and outcome.error is not None:
            why = outcome.error.partition("\n")[0][:_MAX_TOLD_CHARS]
            text = f"message {claim.message.seq}: {why} ({_what_follows(policy, claim, outcome)})"
        else:
            return
        if raised is None:
            _log.warning("%s", text)
        else:
            self._failures.tell(_log, text, raised, logging.WARNING)

    def held_up(self, is_new: bool, text: str, *values: object) -> None:
        """Warn of what holds the worker up; once, since it will be tried again and again."""
        _log.log(logging.WARNING if is_new else logging.DEBUG, text, *values)

    def followed(self, message: Message, receipts: Sequence[Receipt]) -> None:
        """Warn if what has followed from a message has come far; once for its conversation.

        Args:
            message: whose job has ended.
            receipts: of what was published then, which may be conversations of their own.
        """
        hops = hops_of(message) + 1
        if not receipts or hops < self._warn_hops:
            return
        is_known = message.conversation in self._warned
        self._remember(message.conversation, *(receipt.id for receipt in receipts))
        if is_known:
            return
        warnings.warn(
            f"conversation {message.conversation}: what followed from message {message.seq} is"
            f" {hops} hops from its start, and the limit is {self.max_hops}. See whether an answer,"
            " or an event, feeds the queue that it came from",
            HopsWarning,
            stacklevel=2,
        )

    def _remember(self, *conversations: str) -> None:
        self._warned |= dict.fromkeys(conversations)
        while len(self._warned) > _MAX_REMEMBERED:
            del self._warned[next(iter(self._warned))]


def _what_follows(policy: Policy, claim: Claim, outcome: Outcome) -> str:
    """Return what becomes of a job after a failed attempt, and the command for a person."""
    attempt = f"attempt {claim.attempt} of {claim.max_attempts}"
    if is_tried_again(policy, claim, outcome):
        return f"{attempt}; another follows"
    seq = claim.message.seq
    if end_state(policy, outcome) == states.DEAD:
        return f"{attempt}; the job is dead: see 'bus dead show {seq}'"
    return f"no other follows; 'bus job retry {seq}' tries the job again"
