"""The answers that an agent has given: a request that it has answered needs no more of it.

An answer has a type of the convention, or is another direct reply to the asker; a message about the
progress is no answer. Where a request names its recipient, messages of each of its sessions count.
"""

from __future__ import annotations

import warnings

from ..schema.errors import AnsweredAgainWarning, InvalidInput
from ..schema.message.reply_types import REQUEST, ReplyTypes, may_answer
from ..schema.paging import seq_of
from .presence.session_name import SessionBases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..schema.message.draft import Draft
    from ..schema.message.message import Message
    from .local_bus import LocalBus
    from .log.append import Parents

#: No parent of a draft is known yet.
NOT_LOOKED_UP: Parents = {}

#: How mail shows a request that its reader has answered; the seq of the answer follows.
ANSWERED_AS = "you answered this as"


def own_answer(bus: LocalBus, request: Message, agent: str) -> Message | None:
    """Return the message by which an agent has answered a request; None if it has not.

    Of several messages it is the first whose type ends the request, else the first.

    Args:
        bus: an open bus.
        request: any message; a message whose type is not that of a request has no answer.
        agent: the agent, or a session of the agent that was asked.
    """
    if not request.type.endswith(REQUEST):
        return None
    endings: list[Message] = []
    direct_replies: list[Message] = []
    for name in _names_of(SessionBases.of(bus), request, agent):
        is_first = True
        replies = bus.read(
            conversation=request.conversation, after_seq=request.seq, from_agent=name
        )
        for message in replies:
            if is_answer(bus, request, message):
                endings.append(message)
                break
            if is_first and _is_direct_reply(request, message):
                direct_replies.append(message)
                is_first = False
    return min(endings or direct_replies, key=seq_of, default=None)


# a second answer -----------------------------------------------------------------------------


def answered_before(bus: LocalBus, draft: Draft, parents: Parents = NOT_LOOKED_UP) -> str | None:
    """Return the warning about a draft that answers a request once more; None: it does not.

    A draft with an id that is stored repeats that message, or is refused for its content.

    Args:
        bus: an open bus.
        draft: what is about to be published.
        parents: what is known of its parent already, as `Log.parents` returns it.
    """
    if not isinstance(draft.in_reply_to, str) or not may_answer(draft.type):
        return None
    _, parent_type = parents.get(draft.in_reply_to, (None, REQUEST))  # unknown: it may be one
    if not parent_type.endswith(REQUEST):
        return None
    try:
        request = bus.get(draft.in_reply_to)
    except InvalidInput:  # it is refused when it is published
        return None
    if request is None or not request.type.endswith(REQUEST):
        return None
    if draft.to_agent not in (None, request.from_agent):
        return None
    answer = own_answer(bus, request, draft.from_agent)
    if answer is None or (draft.id is not None and bus.get(draft.id) is not None):
        return None
    return f"message {request.seq} has an answer of {answer.from_agent!a} already, {answer.seq}"


def first_answered_before(
    bus: LocalBus, drafts: Iterable[Draft], parents: Parents = NOT_LOOKED_UP
) -> str | None:
    """Return the first warning of `answered_before` about some drafts, or None."""
    return next(filter(None, (answered_before(bus, draft, parents) for draft in drafts)), None)


def warn_of_second_answers(
    bus: LocalBus, drafts: Iterable[Draft], parents: Parents, stacklevel: int
) -> None:
    """Issue the warnings of `answered_before`, each once, from the caller at a level above this."""
    for warning in dict.fromkeys(answered_before(bus, draft, parents) for draft in drafts):
        if warning is not None:
            warnings.warn(AnsweredAgainWarning(warning), stacklevel=stacklevel + 1)


# who has answered, and what ------------------------------------------------------------------


def is_answer(bus: LocalBus, request: Message, message: Message) -> bool:
    """Whether a message after a request answers it, by the convention of types."""
    if message.type not in ReplyTypes.of(request.type).all():
        return False
    return named_request_seq(bus, message, request.type) in (None, request.seq)


def named_request_seq(bus: LocalBus, reply: Message, request_type: str) -> int | None:
    """Return the seq of the request that a message names as its parent.

    None: it names no request of this type, and so is for every one before it in its conversation.
    """
    parent = None if reply.in_reply_to is None else bus.get(reply.in_reply_to)
    return parent.seq if parent is not None and parent.type == request_type else None


def is_asked(sessions: SessionBases, request: Message, agent: str) -> bool:
    """Whether a request names an agent, or the base name of its session, as its recipient."""
    if request.to_agent is None:
        return False
    return agent == request.to_agent or sessions.base_of(agent) == request.to_agent


def _names_of(sessions: SessionBases, request: Message, agent: str) -> set[str]:
    """Return the names under which the reader of a request may have answered it.

    For a reader that was asked, these are the recipient and all sessions under its name.
    """
    base = request.to_agent
    if base is None or not is_asked(sessions, request, agent):
        return {agent}
    return {agent, base, *sessions.names_under(base)}


def _is_direct_reply(request: Message, message: Message) -> bool:
    """Whether a message replies to a request, to the asker or to all, and may be its answer."""
    is_reply = message.in_reply_to == request.id and may_answer(message.type)
    return is_reply and message.to_agent in (None, request.from_agent)
