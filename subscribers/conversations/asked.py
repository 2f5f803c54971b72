"""The agents that a request asks: their word is its answer, whatever its type."""

from __future__ import annotations

from ...bus.leases import Leases
from ...bus.own_answers import is_asked
from ...schema.message.reply_types import is_word
from ...schema.queries import Queries, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message

SQL = Queries(beside=__file__)


class Asked(Table):
    """Tells the word of an agent that was asked from what others say, by the tables of work."""

    def said(self, request: Message, message: Message) -> bool:
        """Whether a message is the word of who was asked: a direct reply, and not to others.

        Asked is the recipient of the request, a session under that name, and each worker group that
        has, or had, its job. Such a group publishes events of its work to all: its word goes to the
        asker alone. What another queue takes in besides is a step on the way.
        """
        if message.in_reply_to != request.id or not is_word(message.type):
            return False
        if message.to_agent not in (None, request.from_agent):
            return False
        if self._engine.value(SQL["is_taken_in"], (message.type, message.to_agent)):
            return False
        if self._has_worked(message.from_agent, request):
            return message.to_agent is not None
        return is_asked(Leases(self._engine), request, message.from_agent)

    def _has_worked(self, agent: str, request: Message) -> bool:
        return bool(self._engine.value(SQL["has_worked"], (request.seq, agent)))
