"""The mail of an agent: it polls, answers questions, and acknowledges in order."""

from __future__ import annotations

from ...schema.message.draft import Draft
from ...subscribers.inboxes.inbox import Inbox
from ..contents import ANSWER, ASK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message
    from .agent import Me

#: How many messages a poll brings at most.
MAX_POLL = 50

#: How often, of 1, a message is acknowledged by itself, and not together with others.
ONE_BY_ONE = 0.2


class Mail:
    """The inbox of one agent."""

    def __init__(self, me: Me) -> None:
        self._me = me
        self._inbox = Inbox(me.bus, me.name)

    def take(self) -> bool:
        """Take unread messages, up to a random number, and return whether there were any."""
        limit = self._me.chance.randint(1, MAX_POLL)
        with self._me.history.attempt("poll", limit=limit) as attempt:
            messages = self._inbox.poll(limit)
            attempt.told(seqs=[message.seq for message in messages])
        for message in messages:
            asked = message.type == ASK and message.to_agent == self._me.name
            if asked:
                self._answer(message)
            elif message is messages[-1] or self._me.chance.random() < ONE_BY_ONE:
                self._acknowledge(message)
        return bool(messages)

    def _acknowledge(self, message: Message) -> None:
        with self._me.history.attempt("ack", seq=message.seq) as attempt:
            attempt.told(cursor=self._inbox.ack(message))

    def _answer(self, message: Message) -> None:
        answer = Draft(
            ANSWER,
            from_agent=self._me.name,
            to_agent=message.from_agent,
            in_reply_to=message.id,
        )
        with self._me.history.attempt("ack", seq=message.seq, answers=message.id) as attempt:
            receipts = self._inbox.complete(message, answer)
            attempt.told(cursor=self._inbox.position, first=receipts is not None)
