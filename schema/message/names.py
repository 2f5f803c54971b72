"""The rules of names: agents, types, ids. One rule each, and one clear line when it is broken."""

from __future__ import annotations

from functools import lru_cache

from ..errors import InvalidInput, shown
from .limits import MAX_AGENT_CHARS, MAX_ID_CHARS, MAX_LEASE_NAME_CHARS, MAX_TYPE_CHARS


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
    """Refuse what is no single line of printable text, or too long a one."""
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
        raise InvalidInput(f"{what} {shown(name)} has control characters or spaces at an end")
    if name.startswith("-"):
        raise InvalidInput(
            f"{what} {shown(name)} must not begin with '-'; was it meant as an option?"
        )
    return name
