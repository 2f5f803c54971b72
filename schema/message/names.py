"""The rules of names, and the limits of messages. A broken rule raises one clear line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import lru_cache

from ..errors import InvalidInput, shown, suggestion

# The limits of the message form. docs/protocol.md lists them; a test compares the two.

#: Payloads whose JSON is longer than this many bytes are stored as blobs.
INLINE_PAYLOAD_BYTES = 4096

#: The longest JSON payload that a message may carry, in bytes: it is held whole in memory by
#: the publisher and by every reader. Larger things are blobs of their own, which stream.
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024

#: The longest message type, in characters.
MAX_TYPE_CHARS = 255

#: The longest agent name, in characters.
MAX_AGENT_CHARS = 128

#: The longest message id and conversation id, in characters.
MAX_ID_CHARS = 255

#: The longest headers object, in bytes of JSON: headers are metadata that every reader carries.
MAX_HEADERS_BYTES = 16 * 1024

#: The longest lease name, in characters.
MAX_LEASE_NAME_CHARS = 512

#: The longest path or pattern of a reservation, in characters.
MAX_PATH_CHARS = 1024

#: The longest reason of a reservation, in characters: other agents see it as one line.
MAX_REASON_CHARS = 255

#: The largest seq that a message can have, by a CHECK of the file, and the largest token too: every
#: reader of JSON knows it.
MAX_SEQ = 2**53 - 1

#: The longest duration in the policy of a queue, in seconds: ten years. More is a slip.
MAX_POLICY_S = 315_360_000

#: The largest count: of attempts, of jobs that run at once, of what may wait.
MAX_COUNT = 2**31 - 1


def check_agent(name: object, what: str = "agent name") -> None:
    """Refuse what can't be an agent's name: printable text, 1 to 128 characters, no edge spaces."""
    if type(name) is not str or not _is_agent(name):
        _check(name, what, MAX_AGENT_CHARS)


def check_recipient(name: object) -> None:
    """Refuse what can't be the name of a recipient."""
    if name == "":
        raise InvalidInput("recipient must not be empty: to reach everyone, name no recipient")
    check_agent(name, "recipient")


def check_id(name: object, what: str = "id") -> None:
    """Refuse what can't be a message or conversation id: printable, 1 to 255 characters."""
    _check(name, what, MAX_ID_CHARS)


def check_lease_name(name: object) -> None:
    """Refuse what can't be a lease's name: printable text, 1 to 512 characters."""
    _check(name, "lease name", MAX_LEASE_NAME_CHARS)


def check_queue_name(name: object) -> None:
    """Refuse what can't be a queue's name: printable text without spaces, 1 to 255 characters."""
    text = _check(name, "queue name", MAX_TYPE_CHARS)
    if " " in text:
        raise InvalidInput(f"queue name {shown(text)} must not have spaces")
    # Clients of HTTP take such parts of a path as ways through it, and would ask for another.
    if not {".", ".."}.isdisjoint(text.split("/")):
        raise InvalidInput(f"queue name {shown(text)} must not be, or lead through, '.' or '..'")


def check_type(name: object) -> None:
    """Refuse what can't be a message type: dotted parts without spaces, `*` or `>`."""
    if type(name) is str and _is_type(name):
        return
    text = _check(name, "type", MAX_TYPE_CHARS)
    if not _is_dotted(text):
        raise InvalidInput(
            f"type {shown(text)} must be dotted words without spaces, '*' or '>', like task.done"
        )


def check_line(text: str, what: str, max_chars: int) -> None:
    """Refuse a text that is not a single printable line, or is too long."""
    if not text or len(text) > max_chars:
        raise InvalidInput(f"{what} must have 1 to {max_chars} characters, not {len(text)}")
    if not text.isprintable():
        raise InvalidInput(
            f"{what} {shown(text)} has control characters or is not valid Unicode text"
        )


def check_unicode(text: str) -> str:
    """Refuse text that a command line gave which is not UTF-8; return any other."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{shown(text)} is not valid Unicode text") from error
    return text


#: How long a name is shown where its reader must not take it for words, in characters.
PLAIN_CHARS = 64

#: All that stands in a name which can't be read as words, beside ASCII letters and digits.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@/+-")


def is_plain(name: str) -> bool:
    """Whether all of a name is of `[A-Za-z0-9._@/+-]{1,64}`, so that it can't pass for words."""
    return 1 <= len(name) <= PLAIN_CHARS and _PLAIN.issuperset(name)


#: How many pairs of characters are compared for one mistyped name: those of 27,000 short names, or
#: of a hundred that somebody made as long and as similar as can be, which takes about a second.
_COMPARED = 2_000_000

#: The beginning of the name of a blob, which is the one longer name that is offered.
_BLOB = "sha256-"

#: How many similar names are offered.
_NEAREST = 3


def near_names(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> list[str]:
    """Return the known names that a mistyped name may stand for, the most similar first.

    Args:
        name: the name that names nothing; of any length.
        names: the names that there are; anybody may have chosen them.
        cutoff: how similar they are at least, from 0 to 1.
    """
    from difflib import get_close_matches  # slow to load, and only mistakes need it

    short = name[:MAX_AGENT_CHARS]
    alike, budget = {}, _COMPARED
    for word in names:
        # Another could be a sentence, or markup, which an agent would read as words to itself.
        if is_plain(word.removeprefix(_BLOB)):
            alike[word.casefold()] = word
        budget -= 1 + len(short) * min(len(word), MAX_AGENT_CHARS)
        if budget < 0:
            break
    close = get_close_matches(short.casefold(), alike, _NEAREST, cutoff)
    return [alike[other] for other in close]


def did_you_mean(name: str, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean a or b?` for a mistyped name, or "" where none is similar."""
    return suggestion(near_names(name, names, cutoff=cutoff))


# A publisher uses the same few names again and again, so what was found right is remembered.


@lru_cache(maxsize=1024)
def _is_agent(name: str) -> bool:
    return _is_right(name, MAX_AGENT_CHARS)


@lru_cache(maxsize=1024)
def _is_type(name: str) -> bool:
    return _is_right(name, MAX_TYPE_CHARS) and _is_dotted(name)


def _is_dotted(name: str) -> bool:
    return not (" " in name or "*" in name or ">" in name or "" in name.split("."))


def _is_right(name: str, max_chars: int) -> bool:
    try:
        _check(name, "name", max_chars)
    except InvalidInput:
        return False
    return True


def _check(name: object, what: str, max_chars: int) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"{what} must be text, not {type(name).__name__}")
    if not name:
        raise InvalidInput(f"{what} must not be empty")
    if len(name) > max_chars:
        raise InvalidInput(f"{what} is {len(name)} characters long; the limit is {max_chars}")
    # isprintable() is False for control characters, escapes and lone surrogates alike.
    if not name.isprintable() or name != name.strip():
        plain = "".join(filter(str.isprintable, name)).strip(" -")[:max_chars]
        hint = f"; did you mean {plain!r}?" if plain else ""
        raise InvalidInput(f"{what} {shown(name)} has control characters or spaces at an end{hint}")
    if name.startswith("-"):
        raise InvalidInput(
            f"{what} {shown(name)} must not begin with '-'; was it meant as an option?"
        )
    return name


# Message ids: UUIDs of version 7, whose first bits are the time.
#
# A time-ordered id lands at the end of its index; a random one dirties a page of its own for each
# message, which costs a bulk publisher two and a half times as much.

#: How many ids are prepared at once: asking the system for random bits costs as much as the rest.
_AT_ONCE = 64

#: The two bits of the variant, and two random ones.
_VARIANT = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))

#: The random parts of the next ids. Threads share the list, as `pop` gives each part to one; a
#: forked child begins with an empty one, as its parent goes on using the same parts.
_endings: list[str] = []
os.register_at_fork(after_in_child=_endings.clear)


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562) as text. Safe in threads and after a fork."""
    time_part = f"{time.time_ns() // 1_000_000:012x}"
    try:
        ending = _endings.pop()
    except IndexError:
        ending, *more = _draw()
        _endings.extend(more)
    return f"{time_part[:8]}-{time_part[8:]}-{ending}"


def _draw() -> list[str]:
    parts = os.urandom(10 * _AT_ONCE).hex("-", 10).split("-")
    return [f"7{part[:3]}-{_VARIANT[part[3]]}{part[4:7]}-{part[7:19]}" for part in parts]


# Seqs as people write them.

_MAX_DIGITS = len(str(MAX_SEQ))


def seq_in(text: str) -> int | None:
    """Return the seq that a text is, or None where it is none: 1 to `MAX_SEQ`, in digits alone."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        return None
    return int(text) if 0 < int(text) <= MAX_SEQ else None
