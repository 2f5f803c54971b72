"""The filters of a reader of the log."""

from __future__ import annotations

from ...schema.arguments import with_checked_arguments
from ...schema.message.names import check_unicode
from ...schema.message.patterns import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...schema.message.message import Message


@with_checked_arguments
class Criteria:
    """Filters of messages; None filters nothing.

    It is no dataclass: every command loads this, and the decorator would slow each start.

    Args:
        type: a type pattern, or several; a message must fit any of them.
        conversation: their conversation.
        agent: their sender or recipient.
        since_ms, until_ms: their least and their greatest time, in epoch milliseconds.
        from_agent, to_agent: their sender; their recipient.

    Attributes:
        pattern: the pattern of their types.
        The others: as in the arguments.

    Raises:
        InvalidInput: `type` is not a type pattern, or a name is no Unicode text.
    """

    __slots__ = (
        "agent",
        "conversation",
        "from_agent",
        "pattern",
        "since_ms",
        "to_agent",
        "until_ms",
    )

    def __init__(
        self,
        type: str | Sequence[str] | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
        *,
        until_ms: int | None = None,
        from_agent: str | None = None,
        to_agent: str | None = None,
    ) -> None:
        self.pattern = pattern_of(type)
        for name in (conversation, agent, from_agent, to_agent):
            if name is not None:
                check_unicode(name)
        self.conversation = conversation
        self.agent = agent
        self.from_agent = from_agent
        self.to_agent = to_agent
        self.since_ms = since_ms
        self.until_ms = until_ms

    @property
    def is_all(self) -> bool:
        """Whether nothing is filtered."""
        return all(getattr(self, name) is None for name in self.__slots__)

    def fits(self, message: Message) -> bool:
        """Whether a message passes every filter."""
        return (
            (self.pattern is None or self.pattern.matches(message.type))
            and (self.agent is None or self.agent in (message.from_agent, message.to_agent))
            and (self.from_agent is None or self.from_agent == message.from_agent)
            and (self.to_agent is None or self.to_agent == message.to_agent)
            and (self.since_ms is None or message.ts_ms >= self.since_ms)
            and (self.until_ms is None or message.ts_ms <= self.until_ms)
            and (self.conversation is None or self.conversation == message.conversation)
        )
