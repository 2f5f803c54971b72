"""What a reader of the log looks for."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema import TypePattern, check_unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..schema import Message


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of messages; None filters nothing.

    Attributes:
        pattern: which types.
        conversation: the one to which they belong.
        agent: who sent or received them.
        since_ms: their least time, in epoch milliseconds.
    """

    pattern: TypePattern | None = None
    conversation: str | None = None
    agent: str | None = None
    since_ms: int | None = None

    @classmethod
    def of(
        cls,
        type: str | None = None,
        conversation: str | None = None,
        agent: str | None = None,
        since_ms: int | None = None,
    ) -> Wanted:
        """Take the filters as readers give them.

        Raises:
            InvalidInput: `type` is no type pattern, or a name is no Unicode text.
        """
        pattern = None if type is None else TypePattern(type)
        for name in (conversation, agent):
            if name is not None:
                check_unicode(name)
        return cls(pattern, conversation, agent, since_ms)

    def fits(self, message: Message) -> bool:
        """Whether a message passes every filter."""
        return (
            (self.pattern is None or self.pattern.matches(message.type))
            and (self.agent is None or self.agent in (message.from_agent, message.to_agent))
            and (self.since_ms is None or message.ts_ms >= self.since_ms)
            and (self.conversation is None or self.conversation == message.conversation)
        )
