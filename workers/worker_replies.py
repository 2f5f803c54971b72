"""The answers of a worker: one message for each job that is over, in its conversation."""

from __future__ import annotations

import logging

from ..bus import tracing
from ..schema.errors import InvalidInput
from ..schema.message.acted_types import not_acted_upon
from ..schema.message.names import check_type
from ..schema.message.reply_types import ReplyTypes
from ..subscribers.jobs.job_replies import answer_to, last_words
from .work import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema.message.draft import Draft
    from ..schema.message.message import Message

_log = logging.getLogger("ackbus.worker")


class Answers:
    """Makes the messages that tell how a job ended.

    Args:
        group: who answers.
        success, failure: the types of the answers; None follows the convention of `ReplyTypes`.
        is_silent: answers nothing, so that others can.

    Attributes:
        is_silent: as given.

    Raises:
        InvalidInput: a type is none.
    """

    def __init__(
        self, group: str, success: str | None, failure: str | None, *, is_silent: bool = False
    ) -> None:
        if is_silent and (success or failure):
            raise InvalidInput("a worker that does not answer has no types of answers")
        for type in (success, failure):
            if type is not None:
                check_type(type)
        self._group = group
        self._success, self._failure = success, failure
        self.is_silent = is_silent
        self._last_words = last_words(group, failure)

    def to(self, message: Message, result: Result) -> list[Draft]:
        """Return what is to be published if the job is over by this result."""
        assert result.outcome is not None
        types = ReplyTypes.of(message.type, self._success, self._failure)
        by_status = {"completed": types.success, "timed_out": types.timed_out}
        type = by_status.get(result.outcome.status, types.failure)
        drafts = tracing.traced(result.drafts, tracing.child_trace(message.headers))
        for words in filter(None, (not_acted_upon(draft.type) for draft in drafts)):
            _log.warning("what follows from message %s: %s", message.seq, words)
        if type is None or self.is_silent:
            return drafts
        answer = answer_to(
            message, type, result.payload, sender=self._group, headers=result.headers
        )
        return drafts if answer is None else [*drafts, answer]

    def last_words(self, message: Message, state: str, why: str) -> Iterable[Draft]:
        """Return what is to be published when the job is over because its workers were lost."""
        return () if self.is_silent else self._last_words(message, state, why)
