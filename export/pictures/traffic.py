"""Traffic between agents: the newest messages as arrows, and graphs of them as Mermaid."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from dataclasses import dataclass

import orjson

from ...schema.errors import BlobMissing, InvalidInput
from ...schema.message.times import format_ts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...blobs.store import BlobStore
    from ...schema.message.message import Message

# Text for pictures: made plain, cut, and measured without a font.

#: The name of the lane of broadcasts.
EVERYBODY = "everybody"

#: The width of a character as a part of the font's size, for the sans-serif fonts that people
#: have: measured on Helvetica's metrics, which most of them follow.
_NARROW, _LOWER, _UPPER, _BROAD, _FULL = 0.30, 0.54, 0.68, 0.88, 1.0
_NARROW_CHARS = frozenset("iljtfrI.,:;'`|!()[]{}/\\-\" ·")
_BROAD_CHARS = frozenset("mwMW@%…—→")

#: Some fonts, Verdana and DejaVu among them, run wider than Helvetica: room for half of that.
_ALLOWANCE = 1.08

#: Bold letters are wider, by about so much.
_BOLD = 1.07

#: Joiners that are invisible, but without which emoji and some scripts fall apart.
_JOINERS = "\u200c\u200d"


def plain(text: str) -> str:
    r"""Return text as one line: runs of spaces and newlines as one space, `\x1b` for ESC."""
    joined = " ".join(text.split())
    if joined.isprintable():
        return joined
    return "".join(
        char if char.isprintable() or char in _JOINERS else _escaped(char) for char in joined
    )


def plain_name(name: str) -> str:
    """Return an agent's name in the same way; a name of spaces alone in quotes."""
    return plain(name) or ascii(name)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def cut(text: str, chars: int) -> str:
    """Return at most so many characters of a text, the last one an ellipsis where it was cut."""
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


def cut_name(name: str | None, chars: int) -> str:
    """Return the name of a lane in at most so many characters.

    It is cut in the middle: names that begin alike often end in different numbers.
    """
    whole = name or EVERYBODY
    tail = (chars - 1) // 2
    return whole if len(whole) <= chars else f"{whole[: chars - 1 - tail]}…{whole[-tail:]}"


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Return about how wide a text is in a sans-serif font of this size, rather too much."""
    ems = sum(map(_em, text))
    return ems * size * _ALLOWANCE * (_BOLD if bold else 1)


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return the beginning of a text that has room, with an ellipsis at its end if it was cut."""
    if width(text, size, bold=bold) <= room:
        return text
    return text[: _fitting(text, room - width("…", size, bold=bold), size, bold)].rstrip() + "…"


def fitted_name(name: str | None, room: float, size: float) -> str:
    """Return the name of a lane, cut in the middle to fit in bold letters."""
    shown = name or EVERYBODY
    chars = len(shown)
    while width(shown, size, bold=True) > room:
        chars -= 1
        shown = cut_name(name, chars)
    return shown


def _fitting(text: str, room: float, size: float, bold: bool) -> int:
    """Return how many characters of a text have room."""
    for count, char in enumerate(text):
        room -= width(char, size, bold=bold)
        if room < 0:
            return count
    return len(text)


def counted(number: int, what: str) -> str:
    """Return `1 message` or `2,000 messages`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def day(ts_ms: int) -> str:
    """Return the date of an epoch millisecond, in UTC."""
    return format_ts(ts_ms)[:10]


def clock(ts_ms: int) -> str:
    """Return the time of day of an epoch millisecond, in UTC, to the second."""
    return format_ts(ts_ms)[11:19]


def span(first_ms: int, last_ms: int) -> str:
    """Return a period as text, in UTC, to the minute."""
    first, last = f"{day(first_ms)} {clock(first_ms)[:5]}", f"{day(last_ms)} {clock(last_ms)[:5]}"
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last.removeprefix(day(first_ms)).strip()} UTC"


def _em(char: str) -> float:
    if char in _NARROW_CHARS:
        return _NARROW
    if char in _BROAD_CHARS:
        return _BROAD
    if char.isascii():
        return _UPPER if char.isupper() else _LOWER
    if unicodedata.east_asian_width(char) in "WF":
        return _FULL
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0.0
    return _UPPER


def _nobody(_seq: int) -> None:
    """Return that no worker has a message."""


#: How much of a payload an arrow carries, in characters: the text shown on hovering.
TEXT_CHARS = 400

#: Payloads in larger blobs, in bytes, are not read for a picture, which shows their size.
MAX_BLOB_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message as pictures show it.

    Attributes:
        seq, id, ts_ms, type: the message's.
        sender: its sender.
        recipient: its recipient, or of a job the worker group that has it; None stands for all.
        text: the first words of the payload, as a line; empty when there is no payload.
        is_reply: whether it answers another message.
    """

    seq: int
    id: str
    ts_ms: int
    sender: str
    recipient: str | None
    type: str
    text: str = ""
    is_reply: bool = False

    @classmethod
    def of(cls, message: Message, blobs: BlobStore, worker: str | None = None) -> Arrow:
        """Return the arrow of a message. Reads its payload, unless that is a large blob.

        Args:
            message: the message.
            blobs: where its payload may be.
            worker: the worker group that has it as a job, if one does.
        """
        recipient = message.to_agent or worker
        return cls(
            message.seq,
            plain(message.id),
            message.ts_ms,
            plain_name(message.from_agent),
            None if recipient is None else plain_name(recipient),
            plain(message.type),
            _text(message, blobs),
            message.in_reply_to is not None,
        )

    @property
    def route(self) -> str:
        """The sender and the recipient."""
        return f"{self.sender} → {self.recipient or EVERYBODY}"

    @property
    def story(self) -> str:
        """All that the picture knows of it, for hovering."""
        head = f"#{self.seq} {self.type}, {self.route}, {format_ts(self.ts_ms)}"
        return f"{head}\n{self.text}" if self.text else head

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        record: dict[str, object] = {
            "seq": self.seq,
            "id": self.id,
            "ts": format_ts(self.ts_ms),
            "from": self.sender,
            "to": self.recipient,
            "type": self.type,
            "reply": self.is_reply,
            "text": self.text,
        }
        return {name: value for name, value in record.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Traffic:
    """The messages of a picture.

    Attributes:
        arrows: the newest of them, in order.
        total: how many there were; more than `arrows` when the older messages are left out.
    """

    arrows: tuple[Arrow, ...]
    total: int

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        blobs: BlobStore,
        *,
        limit: int,
        worker_of: Callable[[int], str | None] = _nobody,
    ) -> Traffic:
        """Return the newest `limit` of some messages; no more than that is held in memory.

        Args:
            messages: the messages, in order.
            blobs: where their payloads may be.
            limit: how many are shown.
            worker_of: returns the worker group that has a message, by its seq, or None.
        """
        newest: deque[Message] = deque(maxlen=limit)
        total = 0
        for total, message in enumerate(messages, 1):  # noqa: B007
            newest.append(message)
        arrows = (Arrow.of(message, blobs, worker_of(message.seq)) for message in newest)
        return cls(tuple(arrows), total)

    @property
    def agents(self) -> list[str]:
        """All senders and recipients, in order of appearance."""
        names = (name for arrow in self.arrows for name in (arrow.sender, arrow.recipient))
        return list(dict.fromkeys(name for name in names if name is not None))

    @property
    def lanes(self) -> list[str | None]:
        """The agents, and None at the end if there are broadcasts."""
        return lanes(self.agents, any(arrow.recipient is None for arrow in self.arrows))

    @property
    def is_cut(self) -> bool:
        """Whether older messages are left out."""
        return self.total > len(self.arrows)

    @property
    def extent(self) -> str:
        """The number of messages shown, and of all if some are left out."""
        if not self.is_cut:
            return counted(self.total, "message")
        return f"the newest {len(self.arrows):,} of {counted(self.total, 'message')}"

    def record(self) -> dict[str, object]:
        """Return its JSON object."""
        messages = [arrow.record() for arrow in self.arrows]
        return {"agents": self.agents, "total": self.total, "messages": messages}


def lanes(agents: list[str], everybody: bool) -> list[str | None]:
    """Return the lanes of a picture: agents, and None for broadcasts."""
    return [*agents, None] if everybody else [*agents]


def _text(message: Message, blobs: BlobStore) -> str:
    """Return the first words of a payload, or a note in their place."""
    size = _blob_size(message.payload_ref, blobs)
    if size > MAX_BLOB_BYTES:
        return f"[blob, {counted(size, 'byte')}]"
    if message.payload_error is not None:
        return f"[{message.payload_error}]"
    if not message.has_payload:
        return ""
    payload = message.payload
    text = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
    # Spaces may shrink to nothing: some more is read than is shown, never all of a large payload.
    return cut(plain(text[: TEXT_CHARS * 4]), TEXT_CHARS)


def _blob_size(ref: str | None, blobs: BlobStore) -> int:
    """Return the size of a payload's blob; 0 if it has none, or the blob is missing."""
    try:
        return 0 if ref is None else blobs.size(ref)
    except (BlobMissing, InvalidInput):  # the message shows that it is missing
        return 0


# The links of a graph: pairs of agents, with the number of messages between them.


@dataclass(frozen=True, slots=True)
class TrafficLink:
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
        total: how many pairs there are; more than `links` when the quiet pairs are left out.
    """

    links: tuple[TrafficLink, ...]
    messages: int
    total: int

    @classmethod
    def of(
        cls,
        messages: Iterable[Message],
        *,
        limit: int,
        worker_of: Callable[[int], str | None] = _nobody,
    ) -> Links:
        """Count messages by sender and recipient, and keep the `limit` busiest pairs.

        Args:
            messages, worker_of: as for `Traffic.of`.
            limit: how many pairs are kept.
        """
        counts = Counter(
            (message.from_agent, message.to_agent or worker_of(message.seq)) for message in messages
        )
        busiest = {pair for pair, _ in counts.most_common(limit)}
        links = tuple(
            TrafficLink(
                plain_name(sender), None if recipient is None else plain_name(recipient), count
            )
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


# Traffic as Mermaid text, which GitHub and many editors draw.

#: How much of a payload, of a type and of a name a label shows, in characters.
_TEXT_CHARS, _TYPE_CHARS, _NAME_CHARS = 60, 40, 32

#: The characters with a meaning to Mermaid in the label of a message: statements end with `;`,
#: `#` begins a code, `%%` a comment, `$$` a formula, and there is HTML. A colon before anything
#: but a space could be taken for a style. `end` closes a block in older versions. Codes make a
#: label wide, as Mermaid measures them unread, so nothing else is escaped.
_IN_TEXT = re.compile(r"[#;%$<>&]|:(?! )|\be(?=nd\b)", re.IGNORECASE)

#: The same where names stand, in boxes: there it also reads Markdown, quotes, `\n` and `wrap:`.
_IN_NAME = re.compile(r'[#;%$<>&:"`*\\{}|~\[\]]|\be(?=nd\b)', re.IGNORECASE)

#: A broken line within a label.
_NEW_LINE = "<br/>"


def sequence_diagram(traffic: Traffic) -> str:
    """Return a sequence diagram: an arrow for each message, dashed for a reply.

    Broadcasts go to a last participant, everybody. A note gives the date where it changes, and
    the number of messages where some are left out.
    """
    ids = {name: f"p{number}" for number, name in enumerate(traffic.lanes, 1)}
    lines = ["sequenceDiagram"]
    lines += [f"    participant {ids[name]} as {_name(name)}" for name in ids]
    across = ",".join(dict.fromkeys([next(iter(ids.values())), list(ids.values())[-1]]))
    if traffic.is_cut:
        lines.append(f"    Note over {across}: {_mermaid_text(traffic.extent, _TEXT_CHARS)}")
    lines += _steps(traffic.arrows, ids, across)
    return "\n".join([*lines, ""])


def _steps(arrows: tuple[Arrow, ...], ids: dict[str | None, str], across: str) -> Iterator[str]:
    today = None
    for arrow in arrows:
        if day(arrow.ts_ms) != today:
            today = day(arrow.ts_ms)
            yield f"    Note over {across}: {_mermaid_text(today, _TEXT_CHARS)} UTC"
        line = "-->>" if arrow.is_reply else "->>"
        label = f"{arrow.seq} {_mermaid_text(arrow.type, _TYPE_CHARS)}"
        if arrow.text:
            label += _NEW_LINE + _mermaid_text(arrow.text, _TEXT_CHARS)
        yield f"    {ids[arrow.sender]}{line}{ids[arrow.recipient]}: {label}"


def flowchart(links: Links) -> str:
    """Return a flowchart: an arrow from each agent to each that it wrote to, with the count."""
    ids = {name: f"p{number}" for number, name in enumerate(links.lanes, 1)}
    lines = ["flowchart LR"]
    lines += [f"    {ids[name]}{_node(name)}" for name in ids]
    lines += [
        f'    {ids[link.sender]} -->|"{link.count}"| {ids[link.recipient]}' for link in links.links
    ]
    return "\n".join([*lines, ""])


def _escape(special: re.Pattern[str], text: str) -> str:
    return special.sub(lambda match: f"#{ord(match[0])};", text)


def _mermaid_text(text: str, chars: int) -> str:
    """Return the label of a message or note, cut, so that Mermaid shows it and nothing else."""
    return _escape(_IN_TEXT, cut(text, chars))


def _name(name: str | None) -> str:
    return _escape(_IN_NAME, cut_name(name, _NAME_CHARS))


def _node(name: str | None) -> str:
    """Return an agent's box, or the round box of broadcasts."""
    return f'(["{_name(name)}"])' if name is None else f'["{_name(name)}"]'
