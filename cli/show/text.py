"""Text for people: plurals, and characters that could act on a terminal made visible."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    #: The parts of a message's line: seq, time, route, type, payload.
    Parts = tuple[str, str, str, str, str]

#: Control characters (C0, DEL, C1), line separators, and characters that turn the direction of
#: writing or are invisible: all that can make a terminal show something else than the text.
_UNSAFE = (
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def counted(number: int, what: str, singular: str = "", plural: str = "s") -> str:
    """Return `1 message` or `2,000 messages`, with other endings where the word has them."""
    return f"{number:,} {what}{singular if number == 1 else plural}"


def within_line(reason: str) -> str:
    """Return a parser's error about a single line without the number of that line."""
    import re

    return re.sub(r": line 1 column (\d+) \(char \d+\)", r" at column \1", reason)


def visible(text: str) -> str:
    r"""Return `text` with every character that could act on a terminal as `\x1b` or `\u202e`."""
    if text.isprintable():
        return text
    return _escape(text, lambda char: char.encode("unicode_escape").decode())


def visible_json(text: str) -> str:
    """Escape such characters in JSON as JSON does: they stand only in its strings."""
    if text.isprintable():
        return text
    import json

    return _escape(text, lambda char: json.dumps(char)[1:-1])


def _escape(text: str, escaped: Callable[[str], str]) -> str:
    import re

    return re.sub(_UNSAFE, lambda match: escaped(match[0]), text)
