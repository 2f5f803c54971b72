"""Traffic as Mermaid text, which GitHub and many editors draw."""

from __future__ import annotations

import re

from .words import cut, cut_name, day

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .links import Links
    from .traffic import Arrow, Traffic

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
    """Return a sequence diagram: an arrow for each message, a dashed one for a reply.

    Broadcasts go to a last participant, everybody. A note gives the date where it changes, and
    the number of messages where some are left out.
    """
    ids = {name: f"p{number}" for number, name in enumerate(traffic.lanes, 1)}
    lines = ["sequenceDiagram"]
    lines += [f"    participant {ids[name]} as {_name(name)}" for name in ids]
    across = ",".join(dict.fromkeys([next(iter(ids.values())), list(ids.values())[-1]]))
    if traffic.is_cut:
        lines.append(f"    Note over {across}: {_text(traffic.extent, _TEXT_CHARS)}")
    lines += _steps(traffic.arrows, ids, across)
    return "\n".join([*lines, ""])


def _steps(arrows: tuple[Arrow, ...], ids: dict[str | None, str], across: str) -> Iterator[str]:
    today = None
    for arrow in arrows:
        if day(arrow.ts_ms) != today:
            today = day(arrow.ts_ms)
            yield f"    Note over {across}: {_text(today, _TEXT_CHARS)} UTC"
        line = "-->>" if arrow.is_reply else "->>"
        label = f"{arrow.seq} {_text(arrow.type, _TYPE_CHARS)}"
        if arrow.text:
            label += _NEW_LINE + _text(arrow.text, _TEXT_CHARS)
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


def _text(text: str, chars: int) -> str:
    """Return the label of a message or note, cut, so that Mermaid shows it and nothing else."""
    return _escape(_IN_TEXT, cut(text, chars))


def _name(name: str | None) -> str:
    return _escape(_IN_NAME, cut_name(name, _NAME_CHARS))


def _node(name: str | None) -> str:
    """Return an agent's box, or the round one of broadcasts."""
    return f'(["{_name(name)}"])' if name is None else f'["{_name(name)}"]'
