"""The errors of queues."""

from __future__ import annotations

from ...schema.errors import AckbusError, BusUnusable, InvalidInput, NotFound, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.errors import SegmentMissing


class ClaimLost(Refused):
    """The claim's lease ran out, or the job was cancelled: this worker no longer has it.

    What the worker reported is kept on the claim; the job and the log are unchanged.

    Attributes:
        ended_as: how the claim ended: completed, failed, timed_out or lost; None: its lease ran
            out. A worker that ends a claim again, because no answer came, finds here that the
            claim was ended.
    """

    def __init__(self, text: str, ended_as: str | None = None) -> None:
        self.ended_as = ended_as
        super().__init__(text)


class TooManyHops(Refused):
    """The replies of a job were refused: its conversation is a loop of jobs that feed each other.

    The job is over all the same: it failed for good.

    Attributes:
        seq: the message.
        hops: the hops of the refused replies.
    """

    def __init__(self, seq: int, hops: int, max_hops: int) -> None:
        self.seq, self.hops = seq, hops
        super().__init__(
            f"message {seq} is at the end of a loop: what would follow is {hops} hops from its"
            f" start, and the limit is {max_hops}; nothing was published. See whether an answer, or"
            " an event, feeds the queue that it came from"
        )


class HopsWarning(UserWarning):
    """A conversation of jobs has many hops: it may be a loop."""


class UnservedRequestWarning(UserWarning):
    """A request was published that no live worker serves: it waits for a worker."""


class QueueNotFound(NotFound):
    """There is no queue of this name."""


class JobNotFound(NotFound):
    """The queue has no such job."""


class ClaimNotFound(NotFound):
    """There never was a claim with this token."""


class QueueMismatch(Refused):
    """A queue of this name is there, with another pattern or policy.

    Attributes:
        rule: the rule of the policy that has another value, or None.
    """

    def __init__(self, text: str, rule: str | None = None) -> None:
        self.rule = rule
        super().__init__(text)


class QueueStuck(BusUnusable):
    """A queue can't take in more: the next messages are in an unreadable part of the archive.

    Attributes:
        first_seq, last_seq: the range of the log that is lost.
    """

    def __init__(self, name: str, lost: SegmentMissing) -> None:
        self.first_seq, self.last_seq = lost.first_seq, lost.last_seq
        skip = f"skip them: 'bus queue skip {name}'"
        super().__init__(f"queue {name!r} can't take in more: {lost.or_else(skip)}")


class WrongJobState(Refused):
    """The job is in a state that does not allow this."""


class RetryLater(AckbusError):
    """A handler raises this for another attempt at the job, whatever the queue's policy.

    Args:
        reason: why, for people.
        after_s: the pause before the attempt, in seconds; None takes the policy's.

    Raises:
        InvalidInput: the pause is not a number.
    """

    def __init__(self, reason: str = "the handler asked for it", after_s: float | None = None):
        super().__init__(reason)
        if after_s is not None and not isinstance(after_s, int | float):
            raise InvalidInput(f"after_s must be seconds, not {after_s!r}")
        self.after_s = after_s


class NeverRetry(AckbusError):
    """A handler raises this when no further attempt at the job can succeed."""
