"""Text for searching: of payloads, of queries, and of snippets."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby

from ...schema.errors import InvalidInput
from ...schema.message.names import check_unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...blobs.store import BlobStore
    from ...schema.message.message import Message

# Scripts without blanks between words: Chinese, Japanese, Thai and others.
#
# Which characters make a word there, only a dictionary tells. So the
# index has each pair of neighbours of such a run, and its last
# character alone: 数据库 is indexed as 数据 据库 库. Any part of a run is then
# a phrase of pairs, and one character is the beginning of a pair.
# Korean has blanks, but its particles cling to words, so it is treated
# alike. Text of other scripts stays as it is.
#
# The patterns are large. Text that is ASCII, as most is, needs none of them.

#: The blocks of scripts without blanks: Thai and Lao, Burmese, Khmer, Tai Le, Tai Tham, Kana with
#: Bopomofo, Javanese, Burmese once more, Kana in halves.
_BLOCKS = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x1950, 0x19DF), (0x1A20, 0x1AAF),
    (0x3005, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0xA980, 0xA9DF), (0xA9E0, 0xAA7F),
    (0xFF66, 0xFF9F),
)  # fmt: skip

#: Han, Yi, Hangul, and what Unicode has added to Kana and Han, as ranges of a pattern.
_RANGES = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ua000-\ua48c\uac00-\ud7a3"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)

#: Scripts with blanks whose vowels are marks: those of India, and Tibetan.
_WITH_MARKS = ((0x0900, 0x0DFF), (0x0F00, 0x0FFF))

#: Half-width Kana, and Latin letters and digits of full width.
_OTHER_WIDTHS = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f]+")

_PLAIN = r"[^\W_]"
_PLAIN_WORD = re.compile(f"{_PLAIN}+")


@cache
def marks() -> str:
    """Return the marks that are part of words; to SQLite's tokenizer they part words.

    An accent after a Latin letter is none: the tokenizer knows it.
    """
    return _of_blocks((*_BLOCKS, *_WITH_MARKS), "M")


def words(text: str) -> list[re.Match[str]]:
    """Return the words of a text, and its runs without blanks; all else parts words."""
    return list((_PLAIN_WORD if text.isascii() else _word()).finditer(text))


def is_run(word: str) -> bool:
    """Whether a word is a run of a script without blanks."""
    return not word.isascii() and _run().match(word) is not None


def letter(text: str) -> str:
    """Return a pattern for a character of a word with blanks, as it occurs in a text."""
    return _PLAIN if text.isascii() or not _special().search(text) else _letter()


def spread(text: str) -> str:
    """Return a text as it is indexed: in the usual widths, its runs without blanks as pairs."""
    if text.isascii():
        return text
    return _run().sub(lambda run: f" {_pairs(run[0])} ", _in_usual_widths(text))


def spread_part(text: str) -> tuple[str, bool]:
    """Return a part of a text as it occurs in a text that was spread.

    Returns:
        The text, and whether its last word must be taken as a beginning. A run at its end may go on
        in the text that is searched: its last character stands there alone only if it does not.
    """
    text = _in_usual_widths(text)
    matches = words(text)
    if not matches or not is_run(matches[-1][0]):
        return spread(text), False
    before, last = text[: matches[-1].start()], matches[-1][0]
    return f"{spread(before)} {_pairs(last, inner=True)}", len(last) == 1


def _in_usual_widths(text: str) -> str:
    return _OTHER_WIDTHS.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)


def _pairs(run: str, *, inner: bool = False) -> str:
    """Return each character with its successor; the last alone, unless only inner pairs count."""
    count = max(1, len(run) - 1) if inner else len(run)
    return " ".join(run[start : start + 2] for start in range(count))


@cache
def _unspaced() -> str:
    return _RANGES + _as_ranges(_of_blocks(_BLOCKS, "LMN"))


@cache
def _letter() -> str:
    return rf"(?:[^\W_{_unspaced()}]|[{_as_ranges(marks())}])"


@cache
def _special() -> re.Pattern[str]:
    return re.compile(f"[{_unspaced()}{_as_ranges(marks())}]")


@cache
def _run() -> re.Pattern[str]:
    return re.compile(f"[{_unspaced()}]+")


@cache
def _word() -> re.Pattern[str]:
    return re.compile(f"[{_unspaced()}]+|{_letter()}+")


def _of_blocks(blocks: tuple[tuple[int, int], ...], categories: str) -> str:
    """Return the characters of blocks whose general category begins with one of some letters."""
    characters = (chr(code) for first, last in blocks for code in range(first, last + 1))
    return "".join(c for c in characters if unicodedata.category(c)[0] in categories)


def _as_ranges(characters: str) -> str:
    """Return ordered characters as ranges of a pattern, which compiles sooner."""
    runs = groupby(enumerate(characters), lambda pair: ord(pair[1]) - pair[0])
    spans = ([character for _, character in run] for _, run in runs)
    return "".join(f"{span[0]}-{span[-1]}" for span in spans)


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
    """Return the text of a message's payload; a payload that is not JSON as it is stored.

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
        passage = re.sub(r"\s", " ", text[start:end])  # same length: places stay the same
        before, after = "…" if start else "", "…" if end < len(text) else ""
        marks = [
            (match.start() + len(before), match.end() + len(before))
            for match in pattern.finditer(passage)
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

    Words of scripts with blanks are whole words. Between two scripts there may be nothing.

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
