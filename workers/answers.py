"""The answers of a worker: one message for each job that is over, in its conversation."""

from __future__ import annotations

from ..schema import check_type
from ..subscribers import ReplyTypes, answer_to, last_words
from .work import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Draft, Message


class Answers:
    """Makes the messages that tell how a job ended.

    Args:
        group: who answers.
        success, failure: the types of the answers; None follows the convention of `ReplyTypes`.

    Attributes:
        last_words: makes the answer for a job that is over because its workers were lost.

    Raises:
        InvalidInput: a type is none.
    """

    def __init__(self, group: str, success: str | None, failure: str | None) -> None:
        for type in (success, failure):
            if type is not None:
                check_type(type)
        self._group = group
        self._success, self._failure = success, failure
        self.last_words = last_words(group, failure)

    def to(self, message: Message, result: Result) -> list[Draft]:
        """Return what is to be published if the job is over by this result."""
        assert result.outcome is not None
        types = ReplyTypes.of(message.type, self._success, self._failure)
        by_status = {"completed": types.success, "timed_out": types.timed_out}
        type = by_status.get(result.outcome.status, types.failure)
        if type is None:
            return [*result.drafts]
        answer = answer_to(
            message, type, result.payload, sender=self._group, headers=result.headers
        )
        return [*result.drafts] if answer is None else [*result.drafts, answer]
