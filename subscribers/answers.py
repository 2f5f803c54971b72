"""Conversations: a request, and the first message that answers it.

A request is an ordinary message, and so is its answer; nothing else is stored. Workers publish
an answer only when the work is over for good, so the first answer counts. Its type says how the
work ended. Without a message of such a type, a direct reply of an agent that was asked counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..bus.log.log import find_message
from ..bus.own_answers import is_asked, named_request_seq
from ..bus.presence.session_name import SessionBases
from ..schema.arguments import checked
from ..schema.errors import AckbusError, InvalidInput
from ..schema.message.reply_types import REQUEST, ReplyTypes, may_answer
from ..schema.queries import Queries, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final, Literal

    from ..bus.local_bus import LocalBus
    from ..schema.message.message import Message
    from .options import AnswerState

SQL = Queries(beside=__file__)


class ReplyJudge(Table):
    """Decides which messages reply to a request, by the tables of work, whatever their type."""

    def is_reply(self, request: Message, message: Message) -> bool:
        """Whether a message is a direct reply from an agent that the request asked.

        A request asks its recipient, the sessions under that name, and each worker group that has,
        or had, its job. A worker group publishes events of its work to all, so its reply must be
        addressed to the asker. A message that another queue takes in is a step on the way.
        """
        if message.in_reply_to != request.id or not may_answer(message.type):
            return False
        if message.to_agent not in (None, request.from_agent):
            return False
        if self._engine.value(SQL["is_taken_in"], (message.type, message.to_agent)):
            return False
        if self._has_worked(message.from_agent, request):
            return message.to_agent is not None
        return is_asked(SessionBases(self._engine), request, message.from_agent)

    def _has_worked(self, agent: str, request: Message) -> bool:
        return bool(self._engine.value(SQL["has_worked"], (request.seq, agent)))


#: The states of a conversation.
PENDING: Final = "pending"
SUCCESS: Final = "success"
FAILURE: Final = "failure"
TIMED_OUT: Final = "timed_out"
#: Answered by a reply of another type: its payload says how the work ended.
ANSWERED: Final = "answered"

#: Which answer `check` takes where there are several.
FIRST: Final = "first"
LAST: Final = "last"

#: The states that endings of other types mean.
_BY_ENDING: Final[dict[str, AnswerState]] = {
    "done": SUCCESS,
    "failed": FAILURE,
    "timed_out": TIMED_OUT,
}

#: How long the note that an answer was received waits for other writers, in seconds: the asker has
#: the answer, and an unread copy of it costs less than a longer wait.
RECEIVE_WITHIN_S = 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """The state of a conversation.

    Attributes:
        state: `pending`; `success`, `failure` or `timed_out`, by the type of the reply; or
            `answered`, by a reply of another type.
        conversation: its id.
        reply: the message that answers it; None while it is pending.
        asker: the agent that asked; None while it is pending.
    """

    state: AnswerState
    conversation: str
    reply: Message | None = None
    asker: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the work is over without success."""
        return self.state in (FAILURE, TIMED_OUT)


@checked
def answer_in(
    bus: LocalBus,
    conversation: str,
    *,
    success_type: str | None = None,
    failure_type: str | None = None,
    which: Literal["last", "first"] = LAST,
) -> Answer:
    """Return the state of a conversation, without waiting. An unknown conversation is pending.

    Nothing is changed: the answer stays in the inbox of the agent that asked (`Inbox.receive`).

    The request of a conversation is its first message whose type ends in `.request`, or else its
    first message; messages before the request are no answer to it.

    Args:
        bus: an open bus.
        conversation: its id; or the id of a request among several in a conversation.
        success_type, failure_type: the types of the answers; those left out follow the
            convention by the request's type.
        which: which answer counts where there are several: the `last` or the `first`.

    Raises:
        InvalidInput: neither the convention nor the arguments say what would be an answer, or
            `which` is something else.
    """
    if which not in (FIRST, LAST):
        raise InvalidInput(f"which answer: {FIRST} or {LAST}, not {which!r}")
    request = _request_of(bus, conversation)
    if request is None:
        return Answer(PENDING, conversation)
    reply_types = ReplyTypes.of(request.type, success_type, failure_type)
    reply_types.require(request.type)
    answers = list(answers_to(bus, request.conversation, request.seq, reply_types))
    if not answers:
        return Answer(PENDING, request.conversation)
    return answers[0 if which == FIRST else -1]


def double_answers(
    bus: LocalBus,
    conversation: str,
    *,
    success_type: str | None = None,
    failure_type: str | None = None,
) -> list[Answer]:
    """Return all answers to the request that `check` looks at, if an agent has given two alike.

    Replies of other types are among them: an agent that replied with the result, and later answers
    by the convention, has done the work twice. A success after a failure is no double. Without a
    double the list is empty.

    Args and errors as for `check`.
    """
    request = _request_of(bus, conversation)
    if request is None:
        return []
    reply_types = ReplyTypes.of(request.type, success_type, failure_type)
    reply_types.require(request.type)
    answers = _answers_of_any_type(bus, request.conversation, request.seq, reply_types)
    replies = [(answer, answer.reply) for answer, _ in answers if answer.reply is not None]
    kinds = {(reply.from_agent, answer.failed) for answer, reply in replies}
    return [answer for answer, _ in replies] if len(kinds) < len(replies) else []


def named(bus: LocalBus, key: str) -> str | None:
    """Return what a key lets `check` look at: the id of a conversation, or of a request in it.

    Args:
        bus: an open bus.
        key: the id of a conversation, which wins, or the seq or id of a message. A request
            stands for itself alone, any other message for its conversation.

    Returns:
        The id; None: there is neither a conversation nor a message of this name.
    """
    if next(bus.read(conversation=key), None) is not None:
        return key
    message = find_message(bus, key)
    if message is None:
        return None
    return message.id if message.type.endswith(REQUEST) else message.conversation


def receive(
    bus: LocalBus, answer: Answer, reader: str | None, *, timeout_s: float = RECEIVE_WITHIN_S
) -> None:
    """Take an answer out of the inbox of its reader, if that is the agent that asked.

    To be called once the reader has the answer. An answer that can't be noted, as in a backup, on
    a full disk or beside a long write, stays unread: the agent gets it once more.

    Args:
        bus: an open bus.
        answer: the answer; a pending answer changes nothing.
        reader: the agent that has it; None: no inbox is to change.
        timeout_s: how long to wait for other writers, in seconds.
    """
    if answer.reply is None or reader is None or reader != answer.asker:
        return
    try:
        from .inboxes.inbox import Inbox

        Inbox(bus, reader).receive(answer.reply, timeout_s=timeout_s)
    except AckbusError:
        return


def answered(bus: LocalBus, requests: Iterable[Message]) -> set[int]:
    """Return the seqs of the requests that have an answer.

    It walks once for each conversation and type over the messages after the first of its requests.
    """
    groups: dict[tuple[str, str], list[Message]] = {}
    for request in requests:
        groups.setdefault((request.conversation, request.type), []).append(request)
    seqs: set[int] = set()
    judge = ReplyJudge.of(bus)
    for (conversation, type), group in groups.items():
        reply_types, first_seq = ReplyTypes.of(type), min(request.seq for request in group)
        for message in bus.read(conversation=conversation, after_seq=first_seq):
            if _state_by(message, reply_types) is None:
                seqs.update(request.seq for request in group if judge.is_reply(request, message))
            else:
                meant_seq = named_request_seq(bus, message, type)
                earlier = (request.seq for request in group if request.seq < message.seq)
                seqs.update(seq for seq in earlier if meant_seq in (None, seq))
    return seqs


def _request_of(bus: LocalBus, conversation: str) -> Message | None:
    message = bus.get(conversation)
    if message is not None and message.type.endswith(REQUEST):
        return message
    first: Message | None = None
    for message in bus.read(conversation=conversation):
        if message.type.endswith(REQUEST):
            return message
        first = first or message
    return first


def answers_to(
    bus: LocalBus, conversation: str, request_seq: int, reply_types: ReplyTypes
) -> Iterator[Answer]:
    """Yield every answer in a conversation to a request. Reads only the messages after it.

    An answer need not reply to the request itself, but not to another request of the same type.
    Without an answer of these types, other replies of agents that were asked are answers.
    """
    is_answered, other_replies = False, []
    for answer, is_typed in _answers_of_any_type(bus, conversation, request_seq, reply_types):
        if is_typed:
            is_answered = True
            yield answer
        elif not is_answered:
            other_replies.append(answer)
    if not is_answered:
        yield from other_replies


def _answers_of_any_type(
    bus: LocalBus, conversation: str, request_seq: int, reply_types: ReplyTypes
) -> Iterator[tuple[Answer, bool]]:
    """Yield the answers to a request, and whether their types are those of the convention."""
    request = bus.get(request_seq)
    assert request is not None
    judge, asker = ReplyJudge.of(bus), request.from_agent
    for message in bus.read(conversation=conversation, after_seq=request_seq):
        state = _state_by(message, reply_types)
        if state is not None:
            if named_request_seq(bus, message, request.type) in (None, request_seq):
                yield Answer(state, conversation, message, asker), True
        elif judge.is_reply(request, message):
            state = _BY_ENDING.get(message.type.rpartition(".")[2], ANSWERED)
            yield Answer(state, conversation, message, asker), False


def _state_by(message: Message, reply_types: ReplyTypes) -> AnswerState | None:
    """Return the state that a message brings its conversation into, or None.

    Success comes first, in case both outcomes have the same type.
    """
    if message.type == reply_types.success:
        return SUCCESS
    if message.type == reply_types.failure:
        return FAILURE
    return TIMED_OUT if message.type == reply_types.timed_out else None
