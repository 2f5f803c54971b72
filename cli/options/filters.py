"""The filters of all commands that read the log, and ranges over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ...schema.errors import InvalidInput
from ...schema.message.names import MAX_SEQ, did_you_mean
from ...schema.message.times import parse_since
from ..arguments import known_types
from ..definition import optional
from ..show.output import NOTHING, Output
from .common import TYPE_HELP, OfAgent, OfConversation, Since, conversation_named, since_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus
    from ...bus.options import ReadFilters

Types = Annotated[list[str] | None, optional("P", f"{TYPE_HELP} It may be repeated.", "--type")]
Limit = Annotated[
    int | None, optional("N", "At most so many, the oldest; with --newest the newest.", min=1)
]
Newest = Annotated[
    bool, typer.Option("--newest", help="Of those that match, only the newest: --limit, else 10.")
]
_PLACE = "A seq, a time like 2026-01-10T14:00:00Z, or an age like 10m"

#: How many messages --newest takes without --limit.
NEWEST = 10


@dataclass(frozen=True, kw_only=True)
class RangeFilter:
    """The filters that go with a range: by type, conversation and agent."""

    type: Types = None
    conversation: OfConversation = None
    agent: OfAgent = None

    def filters(self, bus: LocalBus) -> ReadFilters:
        """Return the filters for the library."""
        return {
            "type": self.type,
            "agent": self.agent,
            "conversation": self.conversation and conversation_named(bus, self.conversation),
        }

    def names(self) -> list[str]:
        """Return the agents that the filters name."""
        return [name for name in (self.agent,) if name is not None]

    def note_nothing(self, output: Output, bus: LocalBus) -> int:
        """Note that nothing matches, suggest names for unknown ones, and return the exit code.

        An unknown name is more often a typo than an agent or type without messages.
        """
        notes = [note for name in self.names() if (note := _unknown_agent(bus, name))]
        notes += [note for type in self.type or () if (note := _unknown_type(bus, type))]
        output.note(f"nothing found: {'; '.join(notes)}") if notes else output.detail(
            "nothing found"
        )
        return NOTHING


@dataclass(frozen=True, kw_only=True)
class MessageFilter(RangeFilter):
    """The filters of a command that reads without a range: agents and times too."""

    sender: Annotated[str | None, optional("A", "Only from this agent.", "--from")] = None
    recipient: Annotated[str | None, optional("A", "Only to this agent.", "--to")] = None
    since: Since = None
    until: Annotated[
        str | None, optional("T", "Only until a time or an age, as for --since.", "--until")
    ] = None

    def filters(self, bus: LocalBus) -> ReadFilters:
        """Return the filters for the library."""
        now_ms = bus.now_ms()
        return {
            **super().filters(bus),
            "from_agent": self.sender,
            "to_agent": self.recipient,
            "since_ms": None if self.since is None else since_time(self.since, now_ms),
            "until_ms": None if self.until is None else since_time(self.until, now_ms, "--until"),
        }

    def names(self) -> list[str]:
        """Return the agents that the filters name."""
        named = (self.agent, self.sender, self.recipient)
        return [name for name in named if name is not None]


@dataclass(frozen=True, kw_only=True)
class Begin:
    """The beginning of a walk over the log."""

    first: Annotated[str | None, optional("SEQ|TIME", f"The first: {_PLACE}.", "--from")] = None

    def seq(self, bus: LocalBus) -> int:
        """Return the first seq; 1 where none is given.

        Raises:
            InvalidInput: it is neither a seq nor a time.
        """
        return 1 if self.first is None else _seq(bus, self.first, "--from")


@dataclass(frozen=True, kw_only=True)
class Span(Begin):
    """A range over the log, both ends included."""

    last: Annotated[str | None, optional("SEQ|TIME", f"The last: {_PLACE}.", "--to")] = None

    def seqs(self, bus: LocalBus) -> tuple[int, int | None]:
        """Return the first seq of the range, and the last or None for the end of the log.

        Raises:
            InvalidInput: an end is neither a seq nor a time, or they are the wrong way round.
        """
        first = self.seq(bus)
        last = None if self.last is None else _seq(bus, self.last, "--to", is_last=True)
        if last is not None and last < first:
            raise InvalidInput(f"--to {self.last} lies before --from {self.first}")
        return first, last


#: The defaults of parameters, which Python requires.
ANY_MESSAGE, UNFILTERED, THE_FIRST, WHOLE_LOG = RangeFilter(), MessageFilter(), Begin(), Span()


def _seq(bus: LocalBus, text: str, option: str, *, is_last: bool = False) -> int:
    """Return the seq of an end of a range; for a time, of the next message or the last before."""
    if text.isascii() and text.isdecimal() and int(text) <= MAX_SEQ:
        if int(text) < 1:
            raise InvalidInput(f"{option} must be 1 or more, and at most {MAX_SEQ}, not {text}")
        return int(text)
    try:
        at_ms = parse_since(text, bus.now_ms())
    except InvalidInput as error:
        raise InvalidInput(
            f"{option} takes a seq or a time here, not {text!a}; 'bus read {option} AGENT' filters"
            " by agent"
        ) from error
    if is_last:
        newest = bus.log.newest(1, until_ms=at_ms)
        return newest[0].seq if newest else 0
    after = next(bus.read(since_ms=at_ms), None)
    return bus.log.newest_seq() + 1 if after is None else after.seq


def _unknown_agent(bus: LocalBus, name: str) -> str:
    """Return a note about an agent that no message names; "" for any other."""
    note = None if bus.backup_made_at_ms else bus.agents.stranger(name, repeat=True)
    is_named = note is not None and next(bus.read(agent=name), None) is not None
    return "" if note is None or is_named else str(note)


def _unknown_type(bus: LocalBus, type: str) -> str:
    """Return a note about a type that no message has, with similar types; "" for any other."""
    from ...schema.message.patterns import pattern_of

    types = known_types(bus)
    pattern = pattern_of(type)
    if pattern is None or any(map(pattern.matches, types)):
        return ""
    return f"no message has the type {type!a}{did_you_mean(type, types)}"
