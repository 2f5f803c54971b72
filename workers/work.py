"""The work on a claim: the result of an attempt, and attempts by Python functions."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass, field, replace

from ..bus import tracing
from ..schema.callbacks import call_plain, text_of
from ..schema.errors import AckbusError
from ..schema.message.draft import ABSENT, Draft
from ..schema.queries import engine_of
from ..subscribers.jobs.claims import Outcome
from ..subscribers.jobs.errors import NeverRetry, RetryLater

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..bus.bus import Bus
    from ..schema.engine import Engine
    from ..schema.message.message import Message
    from ..subscribers.jobs.claims import Claim

    class Work(Protocol):
        """Something that a worker can do with claims; called from several threads at once."""

        def do(self, claim: Claim) -> AttemptResult:
            """Do the work of a claim's message, and return the result."""

        def stop(self, claim: Claim, grace_s: float) -> None:
            """End the work on a claim early, where that is possible."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of an attempt, with the messages to publish.

    Attributes:
        outcome: how it ended; None when it was broken off, and the job is to be handed back.
        payload: the payload of the answer; ABSENT for an answer without a payload.
        headers: the headers of the answer about its attempt.
        drafts: further messages, published if the job is over by this.
        state_updates: updates of the worker group's state.
        error: what a handler raised.
    """

    outcome: Outcome | None
    payload: object = ABSENT
    headers: dict[str, object] = field(default_factory=dict)
    drafts: tuple[Draft, ...] = ()
    state_updates: dict[str, Any] | None = None
    error: BaseException | None = None


def do(work: Work, claim: Claim) -> AttemptResult:
    """Do the work on a claim, under a span where this process makes spans."""
    with tracing.handling(claim.message, claim.group):
        result = work.do(claim)
        if result.outcome is not None and result.outcome.status != "completed":
            tracing.mark_failed(result.outcome.error or result.outcome.status)
        return result


class FunctionWork:
    """Work that is done by a Python function of the message.

    What it returns is the payload of the answer; drafts, or a list of them, are published as they
    are. When it raises, the attempt has failed: `RetryLater` and `NeverRetry` say what then.
    """

    def __init__(self, handler: Callable[[Message], object], bus: Bus) -> None:
        self._handler = handler
        self._engine = engine_of(bus)
        self._pid = os.getpid()

    def do(self, claim: Claim) -> AttemptResult:
        """Call the function."""
        try:
            result = result_of(call_plain(self._handler, claim.message))
        except BaseException as error:  # any error, also SystemExit, ends this attempt
            if isinstance(error, KeyboardInterrupt) or os.getpid() != self._pid:
                raise  # the worker has to end, or this is a child that the handler forked
            result = result_of_error(error)
        return unless_writing(self._engine, result)

    def stop(self, claim: Claim, grace_s: float) -> None:
        """Do nothing: a thread that runs Python can't be ended."""


def unless_writing(engine: Engine, result: AttemptResult) -> AttemptResult:
    """Return a handler's result, unless it has left this thread's transaction open.

    Its lock would keep every writer out, and what is written next would be lost: it is undone.
    """
    if not engine.writing:
        return result
    engine.close_thread()
    return result_of_error(AckbusError("the handler left a transaction open: it is undone"))


def result_of(value: object) -> AttemptResult:
    """Return the result of a handler that returned `value`."""
    if value is None:
        return AttemptResult(Outcome())
    several = value if isinstance(value, (list, tuple)) else [value]
    drafts = tuple(draft for draft in several if isinstance(draft, Draft))
    if drafts and len(drafts) == len(several):
        return AttemptResult(Outcome(), drafts=drafts)
    return AttemptResult(Outcome(result=value), payload=value)


def result_of_error(error: BaseException) -> AttemptResult:
    """Return the result of a handler that raised `error`."""
    retry = after_s = None
    if isinstance(error, RetryLater):
        retry, after_s = True, error.after_s
    elif isinstance(error, NeverRetry):
        retry = False
    text = text_of(error)
    outcome = Outcome(
        status="failed",
        error=text,
        stderr="".join(traceback.format_exception(error)),
        retry=retry,
        retry_after_s=after_s,
    )
    return AttemptResult(outcome, payload=text, error=error)


def not_storable(result: AttemptResult, error: Exception) -> AttemptResult:
    """Return the result of an attempt whose own result is refused by the bus."""
    assert result.outcome is not None  # else there is nothing to store
    text = f"the result can't be stored: {error}"
    return AttemptResult(replace(result.outcome, status="failed", error=text), payload=text)
