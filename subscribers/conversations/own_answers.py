"""The answers that an agent has given: a request that it has answered is done with.

An answer is one of the convention's types, or another direct reply to the asker; news of the
progress is none. Where a request names who is asked, the word of each of its sessions counts.
"""

from __future__ import annotations

from ...schema.message.message import Message
from ...schema.paging import seq_of
from .answers import is_answer
from .asked import Asked
from .reply_types import REQUEST, is_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.bus import Bus
    from ...schema.message.draft import Draft

#: The words of mail about a request that its reader has answered; the seq of the answer follows.
ANSWERED_AS = "you answered this as"


def own_answer(bus: Bus, request: Message, agent: str) -> Message | None:
    """Return the message by which an agent has answered a request; None: it has not.

    Of several it is the first of a type that ends the request, else the first.

    Args:
        bus: an open bus.
        request: any message; one that is no request, by its type, has no answer.
        agent: the agent, or one of the sessions of the agent that was asked.
    """
    if not request.type.endswith(REQUEST):
        return None
    endings, words = list[Message](), list[Message]()
    for name in Asked.of(bus).names(request, agent):
        is_first = True
        said = bus.read(conversation=request.conversation, after_seq=request.seq, from_agent=name)
        for message in said:
            if is_answer(bus, request, message):
                endings.append(message)
                break
            if is_first and _is_word_to(request, message):
                words.append(message)
                is_first = False
    return min(endings or words, key=seq_of, default=None)


def answered_before(bus: Bus, draft: Draft) -> str | None:
    """Return the warning about a draft that answers a request once more; None: it does not.

    A draft with an id that is stored repeats that message, or is refused for its content.

    Args:
        bus: an open bus.
        draft: what is about to be published.
    """
    if draft.in_reply_to is None or not is_word(draft.type):
        return None
    request = bus.get(draft.in_reply_to)
    if request is None or not request.type.endswith(REQUEST):
        return None
    if draft.id is not None and bus.get(draft.id) is not None:
        return None
    if draft.to_agent not in (None, request.from_agent):
        return None
    answer = own_answer(bus, request, draft.from_agent)
    if answer is None:
        return None
    return f"message {request.seq} has an answer of {answer.from_agent!a} already, {answer.seq}"


def _is_word_to(request: Message, message: Message) -> bool:
    """Whether a message is a direct reply to who asked, or to all, and no question or news."""
    is_direct = message.in_reply_to == request.id and is_word(message.type)
    return is_direct and message.to_agent in (None, request.from_agent)
