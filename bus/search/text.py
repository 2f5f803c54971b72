"""Text for searching: of payloads, of queries, and of snippets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ...schema.errors import InvalidInput
from ...schema.message.names import check_unicode
from .scripts import is_run, letter, spread_part, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...blobs.store import BlobStore
    from ...schema.message.message import Message

#: How much of a payload's text is searched, in characters.
MAX_TEXT_CHARS = 100_000

#: How long a snippet is, in characters, and how much of it comes before the first word found.
SNIPPET_CHARS = 160
_LEAD_CHARS = 40

#: A character that is indexed.
_INDEXED = re.compile(r"[^\W_]")


def text_of(value: object, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the words of a JSON value: its strings, names and numbers, in order, up to a limit."""
    parts: list[str] = []
    room = max_chars
    waiting = [value]  # a stack, since a payload may be nested as deep as it likes
    while waiting and room > 0:
        part = waiting.pop()
        if isinstance(part, dict):
            waiting.extend(item for pair in reversed(part.items()) for item in reversed(pair))
        elif isinstance(part, list):
            waiting.extend(reversed(part))
        elif part is not None and not isinstance(part, bool):
            text = str(part)[:room]
            parts.append(text)
            room -= len(text) + 1
    return "\n".join(parts)


def payload_text(message: Message, blobs: BlobStore) -> str | None:
    """Return the text of a message's payload, of one that is not JSON as it is stored.

    None when it can't be read now; a binary or oversized payload has no text.
    """
    value = message.payload  # first: it finds out whether there is an error
    error = message.payload_error
    if error is None:
        return text_of(value)
    if message.payload_ref is None:
        return (message.raw_payload or "")[:MAX_TEXT_CHARS]
    if error == "decode_failed":  # it was read, and checked
        data = blobs.read(message.payload_ref)[: 4 * MAX_TEXT_CHARS]
        return "" if b"\0" in data else data.decode(errors="replace")[:MAX_TEXT_CHARS]
    return None if error in ("blob_missing", "blob_unreadable") else ""


@dataclass(frozen=True, slots=True)
class Words:
    """A query: words, phrases and beginnings of words, all of which must occur."""

    terms: tuple[str, ...]

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """Take words as people give them: `disk full` is a phrase, `migrat*` a beginning.

        Raises:
            InvalidInput: there is no letter or digit in them.
        """
        terms = tuple(word for word in words if has_words(check_unicode(word)))
        if not terms:
            raise InvalidInput("search for at least one word, such as 'bus search timeout'")
        return cls(terms)

    def as_phrases(self) -> list[str]:
        """Return expressions for SQLite's full-text search, all of which must match."""
        return [_as_expression(term) for term in self.terms]

    def snippet(self, text: str) -> tuple[str, list[tuple[int, int]]]:
        """Return a passage of a text with the words in it, and their places in the passage."""
        pattern = _pattern(self.terms, letter(text))
        first = pattern.search(text)
        start = max(0, first.start() - _LEAD_CHARS) if first else 0
        end = start + SNIPPET_CHARS
        passage = re.sub(r"\s", " ", text[start:end])  # one for one: places stay what they are
        before, after = "…" if start else "", "…" if end < len(text) else ""
        marks = [
            (found.start() + len(before), found.end() + len(before))
            for found in pattern.finditer(passage)
        ]
        return before + passage + after, marks


def has_words(text: str) -> bool:
    """Whether a text has a character that is indexed: a letter or a digit."""
    return _INDEXED.search(text) is not None


def as_phrase(text: str) -> str:
    """Quote a text, so that nothing in it is an operator of the full-text search."""
    return '"' + text.replace('"', '""').replace("\0", " ") + '"'


def _as_expression(term: str) -> str:
    text, is_beginning = spread_part(term.rstrip("*"))
    return as_phrase(text) + ("*" if is_beginning or term.endswith("*") else "")


@lru_cache(8)
def _pattern(terms: tuple[str, ...], letter: str) -> re.Pattern[str]:
    return re.compile("|".join(_as_pattern(term, letter) for term in terms))


def _as_pattern(term: str, letter: str) -> str:
    """Return a pattern for a term in a text: its words, with anything but words between them.

    Words of scripts with blanks are whole ones. Between two scripts there may be nothing.

    Args:
        term: a word, a phrase or a beginning.
        letter: a pattern for a character of a word with blanks.
    """
    parts: list[str] = []
    has_blanks = False
    for word in words(term):
        had_blanks, has_blanks = has_blanks, not is_run(word[0])
        if parts:
            parts.append(r"[\W_]+" if had_blanks and has_blanks else r"[\W_]*")
        elif has_blanks:
            parts.append(f"(?<!{letter})")
        parts.append(f"(?i:{word[0]})")
    if has_blanks:
        parts.append(f"{letter}*" if term.endswith("*") else f"(?!{letter})")
    return "".join(parts)
