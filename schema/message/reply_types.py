"""The types of the answers to a request."""

from __future__ import annotations

from dataclasses import dataclass

from ..arguments import with_checked_arguments
from ..errors import InvalidInput

#: How the type of a message ends that asks for an answer.
REQUEST = ".request"

#: How the types of the answers end: the first two in its place, the last after it.
_DONE, _FAILED, _TIMED_OUT = ".done", ".failed", ".timed_out"

#: How the type of a message ends that says how far the work is: no answer.
_PROGRESS = ".progress"


@with_checked_arguments
@dataclass(frozen=True, slots=True)
class ReplyTypes:
    """The types by which a request is answered; None: it is not, by that outcome.

    Attributes:
        success: the work succeeded.
        failure: it failed for good.
        timed_out: it ran out of time for good.
    """

    success: str | None
    failure: str | None
    timed_out: str | None

    @classmethod
    def of(
        cls, request_type: str, success: str | None = None, failure: str | None = None
    ) -> ReplyTypes:
        """Return the types of the answers to messages of a type.

        Types that are not given follow the convention: `review.request` is answered by
        `review.done` or `review.failed`. A type without that ending has only the given answers.
        With a failure type, timeouts are answered too, by the request's type and `.timed_out`.
        """
        if request_type.endswith(REQUEST):
            subject = request_type.removesuffix(REQUEST)
            success, failure = success or subject + _DONE, failure or subject + _FAILED
        return cls(success, failure, failure and request_type + _TIMED_OUT)

    def all(self) -> tuple[str, ...]:
        """Return the types that there are."""
        return tuple(type for type in (self.success, self.failure, self.timed_out) if type)

    def require(self, request_type: str) -> None:
        """Refuse a request that nothing could answer.

        Raises:
            InvalidInput: there is no type for an answer to a message of this type.
        """
        if not self.all():
            raise InvalidInput(
                f"nothing answers a message of type {request_type!r}: give a success or failure"
                f" type, or use a type that ends in {REQUEST}"
            )


def request_type_of(reply_type: str) -> str | None:
    """Return the type of the requests that messages of a type answer by convention, or None."""
    if reply_type.endswith(REQUEST + _TIMED_OUT):
        return reply_type.removesuffix(_TIMED_OUT)
    for ending in (_DONE, _FAILED):
        if reply_type.endswith(ending):
            return reply_type.removesuffix(ending) + REQUEST
    return None


def may_answer(type: str) -> bool:
    """Whether a reply of a type may be an answer: it is no request, and no news of the progress."""
    return not type.endswith((REQUEST, _PROGRESS))
