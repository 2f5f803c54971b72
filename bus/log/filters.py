"""The filters of a reader of the log."""

from __future__ import annotations

from ...schema.message.names import check_unicode
from ...schema.message.patterns import TypePattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...schema.message.message import Message


class Wanted:
    """Filters of messages; None filters nothing.

    No dataclass: making one takes longer than a command has for it, and every command loads this.

    Args:
        type: a type pattern.
        conversation: their conversation.
        agent: their sender or recipient.
        since_ms: their least time, in epoch milliseconds.

    Attributes:
        pattern: the pattern of their types.
        conversation, agent, since_ms: as given.

    Raises:
        InvalidInput: `type` is not a type pattern, or a name is no Unicode text.
    """

    __slots__ = ("agent", "conversation", "pattern", "since_ms")

    def __init__(
        self,
        type: str | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
    ) -> None:
        self.pattern = None if type is None else TypePattern(type)
        for name in (conversation, agent):
            if name is not None:
                check_unicode(name)
        self.conversation = conversation
        self.agent = agent
        self.since_ms = since_ms

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered."""
        filters = (self.pattern, self.conversation, self.agent, self.since_ms)
        return all(each is None for each in filters)

    def fits(self, message: Message) -> bool:
        """Whether a message passes every filter."""
        return (
            (self.pattern is None or self.pattern.matches(message.type))
            and (self.agent is None or self.agent in (message.from_agent, message.to_agent))
            and (self.since_ms is None or message.ts_ms >= self.since_ms)
            and (self.conversation is None or self.conversation == message.conversation)
        )
