"""Errors as an agent reads them: what happened, and what to do next."""

from __future__ import annotations

import logging

from pydantic import ValidationError

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
    UnknownParent,
    UnknownRecipient,
)
from ....subscribers.jobs.errors import ClaimLost, ClaimNotFound, QueueNotFound
from ...access.errors import Forbidden
from .quoted_messages import shown

#: The advice for each kind of error, with its facts; the first that fits.
_NEXT: tuple[tuple[type[AckbusError], str], ...] = (
    (MailArchived, "Or go on after them: bus_ack(seq={error.last_seq})."),
    (AckPastEnd, "bus_inbox shows the seqs that wait."),
    (IdConflict, "Send it under another id, or without one."),
    (UnknownRecipient, "Nothing was sent. That is: leave `to` out."),
    (UnknownParent, "Give the seq or id of a message that bus_inbox or bus_thread showed."),
    (LimitReached, "Nothing was stored. Let the readers catch up, and send it again later."),
    (ClaimLost, "Stop this work: the job is no longer yours. bus_claim gives another."),
    (ClaimNotFound, "Give the token that bus_claim gave."),
    (LeaseLost, "Stop editing, and call bus_reserve again."),
    (QueueNotFound, "Ask the owner of this project which queue is meant."),
    (BusBusy, "Nothing was changed. Call again in a few seconds."),
    (BusNotFound, "Ask the owner of this project to make one, or to name it with --dir."),
    (BusUnusable, "Ask the owner of this project to look at it with 'bus doctor'."),
    (Forbidden, "Ask the owner of this project for a token that may."),
    (InvalidInput, "Nothing was changed. Correct the arguments and call again."),
)

#: The longest text of an error that an agent is shown, in characters.
_MAX_CHARS = 600

_log = logging.getLogger("ackbus.mcp")


def explain(tool: str, error: Exception) -> str:
    """Return the error of a tool call as text: what happened, and what to do next."""
    if isinstance(error, ValidationError):
        wrong = "; ".join(_wrong(each["loc"], each["msg"]) for each in error.errors())
        return (
            f"{tool}: {_short(wrong)}. Nothing was changed. Correct the arguments and call again."
        )
    if isinstance(error, AckbusError):
        what = str(error)
        if isinstance(error, BusUnusable):  # how to go on without lost data is for people to read
            what = what.partition(", or ")[0]
        advice = next((text for kind, text in _NEXT if isinstance(error, kind)), "")
        return f"{tool}: {_short(what)}. {advice.format(error=error)}".rstrip()
    _log.error("%s failed", tool, exc_info=error)
    what = _short(f"unexpected {type(error).__name__}: {error}")
    return f"{tool}: {what}. It may work when called again."


def _short(what: str) -> str:
    """Return the text of an error in one line, cut to a bounded length."""
    return shown(what if len(what) <= _MAX_CHARS else f"{what[:_MAX_CHARS]}…")


def _wrong(where: tuple[int | str, ...], what: str) -> str:
    name = ".".join(map(str, where))
    return f"{name}: {what[:200]}" if name else what[:200]
