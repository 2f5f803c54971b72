"""Errors as an agent reads them: what happened, and what to do next."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ....schema.errors import (
    AckbusError,
    AckPastEnd,
    BusBusy,
    BusNotFound,
    BusUnusable,
    IdConflict,
    InvalidInput,
    LeaseLost,
    LimitReached,
    MailArchived,
    NotFound,
    UnknownParent,
    UnknownRecipient,
)
from ....subscribers.jobs.errors import ClaimLost, ClaimNotFound, QueueNotFound
from ....tasks.steps.errors import TaskNotFound
from ...access.errors import Forbidden
from .quoted_messages import quoted, shown

#: Parts of errors that speak of commands, and what agents with tools are told in their place.
_COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), told)
    for pattern, told in (
        (r"; read (?:them|the others) with 'bus replay.*", ""),
        (r"; go on after them with 'bus ack.*", ""),
        (r"; wait for room with --wait.*", ""),
        (r", such as 'bus search .*", ", such as bus_search(words='timeout')"),
        (r"\. Store it with 'bus blob put'.*", "; send less, or a file's path"),
        (r"'bus task cancel [^']*'", "bus_task(action='fail')"),
        (r"[;:] see 'bus [^']*'", ""),
    )
)

#: The advice for each kind of error, with its facts; the first that fits.
_NEXT: tuple[tuple[type[AckbusError], str], ...] = (
    (MailArchived, "bus_thread(conversation=SEQ) reads one; then bus_ack(seq={error.last_seq})."),
    (AckPastEnd, "bus_inbox shows the seqs that wait."),
    (IdConflict, "Send it under another id, or without one."),
    (UnknownRecipient, "Nothing was sent. Leave `to` out for everyone; name several as a list."),
    (UnknownParent, "Give the seq or id of a message that bus_inbox or bus_thread showed."),
    (LimitReached, "Nothing was stored. Let the readers catch up, and send it again later."),
    (ClaimLost, "Stop this work: the job is no longer yours. bus_claim gives another."),
    (ClaimNotFound, "Give the token that bus_claim gave."),
    (TaskNotFound, "bus_task lists yours."),
    (LeaseLost, "Stop this work: bus_task and bus_status show what you still have."),
    (QueueNotFound, "Ask the owner of this project which queue is meant."),
    (NotFound, "Give the seq or id of a message that bus_inbox or bus_send showed."),
    (BusBusy, "Nothing was changed. Call again in a few seconds."),
    (BusNotFound, "Ask the owner of this project to make one, or to name it with --dir."),
    (BusUnusable, "Ask the owner of this project to look at it with 'bus doctor'."),
    (Forbidden, "Ask the owner of this project for a token that may."),
    (InvalidInput, "Nothing was changed. Correct the arguments and call again."),
)

#: How arguments must be, by the kinds of errors of pydantic.
_WORDS = {
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    "string_type": "text",
    "list_type": "a list",
    "literal_error": "{expected}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "greater_than": "above {gt:g}",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
}

#: The kinds of errors that have words of ours, and the one that names no value.
ONE = "one"
OWN_KINDS = frozenset({"kind", "name", "recipients", ONE})

#: How much of a wrong value is named, in characters.
_GIVEN_CHARS = 40

#: The longest text of an error that an agent is shown, in characters.
_MAX_CHARS = 600

_log = logging.getLogger("ackbus.mcp")


def explain(tool: str, error: Exception, takes: Collection[str] = ()) -> str:
    """Return the error of a tool call as text: what happened, and what to do next.

    Args:
        tool: the name of the tool.
        error: what was raised.
        takes: the names of the arguments of the tool.
    """
    if isinstance(error, ValidationError):
        return (
            f"{tool}: {_short(_refused(error, takes))} Nothing was changed."
            " Correct the arguments and call again."
        )
    if isinstance(error, AckbusError):
        what = str(error)
        if isinstance(error, BusUnusable):  # how to go on without lost data is for people to read
            what = what.partition(", or ")[0]
        for command, told in _COMMANDS:
            what = command.sub(told, what)
        advice = next((text for kind, text in _NEXT if isinstance(error, kind)), "")
        return f"{tool}: {_short(what)}. {advice.format(error=error)}".rstrip()
    _log.error("%s failed", tool, exc_info=error)
    what = _short(f"unexpected {type(error).__name__}: {error}")
    return f"{tool}: {what}. It may work when called again."


def _short(what: str) -> str:
    """Return the text of an error in one line, cut to a bounded length."""
    return shown(what if len(what) <= _MAX_CHARS else f"{what[:_MAX_CHARS]}…")


def _refused(error: ValidationError, takes: Collection[str]) -> str:
    """Return what is wrong with arguments: those that are none, then those that are amiss."""
    unknown, amiss = [], []
    for each in error.errors():
        if each["type"] == "extra_forbidden":
            unknown.append(str(each["loc"][0])[:80])
        else:
            amiss.append(_amiss(each))
    said = [_unknown(unknown, takes)] if unknown else []
    return " ".join(said + ([f"{'; '.join(amiss)}."] if amiss else []))


def _unknown(names: list[str], takes: Collection[str]) -> str:
    from difflib import get_close_matches  # for mistakes alone

    near = dict.fromkeys(
        match for name in names for match in get_close_matches(name, takes, 1, cutoff=0.7)
    )
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    none = f"no argument {', '.join(map(ascii, names))}{hint}"
    return f"{none} It takes {', '.join(takes) or 'none'}."


def _amiss(error: ErrorDetails) -> str:
    """Return what is wrong with one argument."""
    name = ".".join(map(str, error["loc"]))
    kind, facts = error["type"], error.get("ctx", {})
    if kind == "missing":
        return f"{name}: it is missing"
    said = _WORDS.get(kind)
    if said is None:
        what = error["msg"] if kind in OWN_KINDS else "it has a wrong form"
    else:
        what = f"it must be {said.format(**facts)}"
    return f"{name}: {what}" if kind == ONE else f"{name}: {what}, not {_value(error['input'])}"


def _value(given: object) -> str:
    """Return a wrong value: a text in quotes, and cut; of others that hold values, the kind."""
    if isinstance(given, list | dict):
        return f"{'a list' if isinstance(given, list) else 'an object'} of {len(given)}"
    text = given if isinstance(given, str) else ascii(given)
    cut = text if len(text) <= _GIVEN_CHARS else f"{text[:_GIVEN_CHARS]}…"
    return quoted(cut) if isinstance(given, str) else cut
