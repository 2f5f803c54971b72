"""The links of a graph: pairs of agents, with the number of messages between them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .traffic import lanes
from .words import counted, plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...schema.message.message import Message


@dataclass(frozen=True, slots=True)
class Link:
    """The number of messages from one agent to another; `recipient` None stands for all."""

    sender: str
    recipient: str | None
    count: int

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        to = {} if self.recipient is None else {"to": self.recipient}
        return {"from": self.sender, **to, "messages": self.count}


@dataclass(frozen=True, slots=True)
class Links:
    """The links between agents.

    Attributes:
        links: the pairs, in order of appearance; of too many the busiest.
        messages: how many messages all pairs have.
        total: how many pairs there are; more than `links` when the quiet ones are left out.
    """

    links: tuple[Link, ...]
    messages: int
    total: int

    @classmethod
    def of(cls, messages: Iterable[Message], *, limit: int) -> Links:
        """Count messages by sender and recipient, and keep the `limit` busiest pairs."""
        counts = Counter((message.from_agent, message.to_agent) for message in messages)
        busiest = {pair for pair, _ in counts.most_common(limit)}
        links = tuple(
            Link(plain_name(sender), None if recipient is None else plain_name(recipient), count)
            for (sender, recipient), count in counts.items()
            if (sender, recipient) in busiest
        )
        return cls(links, counts.total(), len(counts))

    @property
    def lanes(self) -> list[str | None]:
        """The agents in order of appearance, and None at the end if there are broadcasts."""
        names = (name for link in self.links for name in (link.sender, link.recipient))
        agents = [name for name in dict.fromkeys(names) if name is not None]
        return lanes(agents, any(link.recipient is None for link in self.links))

    @property
    def is_cut(self) -> bool:
        """Whether the quiet pairs are left out."""
        return self.total > len(self.links)

    @property
    def extent(self) -> str:
        """The number of messages counted, and of pairs shown if some are left out."""
        text = counted(self.messages, "message")
        if self.is_cut:
            text += f", the {len(self.links):,} busiest of {self.total:,} pairs"
        return text

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        return {
            "agents": [name for name in self.lanes if name is not None],
            "messages": self.messages,
            "pairs": self.total,
            "links": [link.record() for link in self.links],
        }
