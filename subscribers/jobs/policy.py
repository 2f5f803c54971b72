"""The policy of a queue: the order, concurrency and retries of its jobs."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from ...schema.arguments import checked
from ...schema.errors import InvalidInput, Refused
from ...schema.message.draft import (
    AVAILABLE_AT,
    DEDUPE_KEY,
    DEDUPE_WINDOW,
    FOR_WORKER,
    ON_LOST,
)
from ...schema.message.names import MAX_COUNT, MAX_ID_CHARS, MAX_POLICY_S, check_agent
from ...schema.message.times import MAX_TS_MS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from ...schema.message.message import Message

# The limits of stored texts from workers: errors, and the output of commands.

#: How much of an error's text is kept, in characters.
MAX_ERROR_CHARS = 2000

#: How much of a result and of captured stderr a claim keeps, in characters. The rest is
#: in the reply, or gone.
MAX_KEPT_CHARS = 65_536


def kept_error(text: str | None) -> str | None:
    """Return an error, cut to the length that is stored."""
    return _kept(text, MAX_ERROR_CHARS)


def kept_text(text: str | None) -> str | None:
    """Return a result or stderr, cut to the length that is stored."""
    return _kept(text, MAX_KEPT_CHARS)


def _kept(text: str | None, max_chars: int) -> str | None:
    # The text may have what is not Unicode, and must be stored all the same.
    return text and text[:max_chars].encode(errors="backslashreplace").decode()


#: For `addressed`: any recipient.
ANYBODY = "*"

#: The only group of workers that claims from queues which are addressed to it: it keeps limits over
#: several queues, which other workers would not know.
AUTOMATION = "automation"

#: The least and the largest value of each rule that is a number.
BOUNDS = {
    "ageing_s": (0.001, MAX_POLICY_S),
    "max_attempts": (1, MAX_COUNT),
    "backoff_s": (0, MAX_POLICY_S),
    "max_running": (1, MAX_COUNT),
    "max_running_per_key": (1, MAX_COUNT),
    "dedupe_window_s": (0, MAX_POLICY_S),
}

#: Enough doublings from any sensible first pause to the longest pause.
_MAX_DOUBLINGS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one queue.

    Attributes:
        ordering: `fifo` (oldest first), or `priority` (interactive before normal before
            background, and the oldest first among equals).
        ageing_s: with `priority`: how much older a job must be, in seconds, to go before a job of
            the next higher priority. So no job waits for ever.
        retry: `failures` tries again after every failure and timeout that does not forbid it, and
            a job that fails for the last time is dead. `asked` takes a failure for an answer: only
            exit status 75, or a handler that asks, brings another attempt. `contract` leaves it to
            the worker's contract: `asked` for a command of the raw contract, whose output is the
            answer; `failures` for all others.
        max_attempts: how many attempts a job has, lost attempts included; at least 1.
        backoff_s: the base of the pause before the next attempt, in seconds: base · 2^(attempt-1)
            plus a random part of up to the base. 0 is no pause.
        on_lost: what becomes of a job whose worker let the lease run out: `requeue` (it waits
            again, the attempt counts, and after the last it is dead), `fail`, or `dead`.
        max_running: how many jobs of the queue may run at once; None is any number.
        max_running_per_key: how many with the same dedupe key may run at once.
        dedupe_window_s: for how many seconds a success keeps others with its key out; 0 never.
        hides: which messages that it takes in are kept out of inboxes: `exact`: all if its pattern
            is a type without wildcards, else none; `all`; or `none`. It holds for messages that are
            published from then on.
        addressed: the messages that it takes in besides broadcasts: messages to this agent or
            worker group, which are kept out of its inbox as `hides` says; `*`: messages to any
            agent, which stay in its inbox; None: none.

    Raises:
        InvalidInput: a rule has a value that it can't have.
    """

    ordering: Literal["fifo", "priority"] = "fifo"
    ageing_s: float = 60.0
    retry: Literal["contract", "failures", "asked"] = "contract"
    max_attempts: int = 4
    backoff_s: float = 30.0
    on_lost: Literal["requeue", "fail", "dead"] = "requeue"
    max_running: int | None = None
    max_running_per_key: int = 1
    dedupe_window_s: float = 86_400.0
    hides: Literal["exact", "all", "none"] = "exact"
    addressed: str | None = None

    def __post_init__(self) -> None:
        """Check every rule."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                choice = getattr(self, name)
                raise InvalidInput(f"{name} must be {' or '.join(choices)}, not {choice!r}")
        if self.addressed not in (None, ANYBODY):
            check_agent(self.addressed, "addressed")
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is None and name == "max_running":
                continue
            is_seconds = name.endswith("_s")
            is_number = type(value) is int or (is_seconds and type(value) is float)
            if not is_number or not least <= value <= most:
                number = f"{least:g} s or more" if is_seconds else "a whole number of at least 1"
                raise InvalidInput(f"{name} must be {number}, not {value!r}")

    def takes(self, to_agent: str | None) -> bool:
        """Whether a queue takes in messages to a recipient; None is a broadcast."""
        return to_agent is None or self.addressed in (ANYBODY, to_agent)

    def refuse_others(self, name: str, group: str) -> None:
        """Raise where the jobs of the queue of a name are for another group of workers alone.

        Raises:
            Refused: the jobs are for another group.
        """
        if self.addressed == AUTOMATION != group:
            raise Refused(
                f"the jobs of queue {name!r} are run by 'bus automation start', and by no other"
                " worker"
            )

    def rank_ms(self, turn_ms: int, priority: int) -> int:
        """Return a job's place in the order of claiming: the lowest goes first, then by seq.

        Args:
            turn_ms: when it was published, by the queue's own clock.
            priority: the message's; each step counts like an age of `ageing_s`.
        """
        if self.ordering == "fifo":
            return 0
        return turn_ms + priority * round(self.ageing_s * 1000)

    def backoff_ms(self, attempt: int, chance: float) -> int:
        """Return the pause after a failed attempt, in milliseconds.

        Args:
            attempt: which attempt failed, from 1.
            chance: a random number, 0 to 1: it spreads the next attempts of jobs that failed
                together.
        """
        doublings = min(attempt - 1, _MAX_DOUBLINGS)
        pause_s = self.backoff_s * (2.0**doublings + chance)
        return round(1000 * min(pause_s, MAX_POLICY_S))

    def said(self, rule: str) -> str:
        """Return the value of a rule for people, as the options take it: `any`, `none`, `60s`."""
        value = getattr(self, rule)
        if value is None:
            return "none" if rule == "addressed" else "any"
        if rule == "addressed":
            return "any" if value == ANYBODY else str(value)
        return f"{value:g}s" if rule.endswith("_s") else str(value)

    def row(self) -> tuple[object, ...]:
        """Return the values of the table's columns, in the order of the fields."""
        return tuple(
            round(value * 1000) if field.name.endswith("_s") else value
            for field in fields(self)
            for value in (getattr(self, field.name),)
        )

    @classmethod
    def of_row(cls, row: tuple[Any, ...]) -> Policy:
        """Return the policy of a row's values."""
        return cls(
            **{
                field.name: value / 1000 if field.name.endswith("_s") else value
                for field, value in zip(fields(cls), row, strict=True)
            }
        )


#: The names of the rules.
POLICY_FIELDS = tuple(field.name for field in fields(Policy))

#: The choices of each rule that is a word. They are read from the text of its type: `typing` would
#: take longer to load than all that publishes.
CHOICES = {
    field.name: tuple(re.findall(r"\w+", str(field.type))[1:])
    for field in fields(Policy)
    if str(field.type).startswith("Literal")
}

# Work headers, by which a sender asks queues for something. Inboxes ignore them.


@dataclass(frozen=True, slots=True)
class WorkHeaders:
    """A sender's wishes.

    Attributes:
        available_at_ms: the epoch millisecond before which no queue hands the message out.
        dedupe_key: what the message is about: a queue takes in no message with a key that has had
            a success within its window, and runs one job for a key at a time.
        dedupe_window_ms: another window than the queue's; with it a job that waits or runs keeps
            out others with its key, too.
        for_worker: the worker group that alone may claim the job, among others of the queue.
        on_lost: another rule than the queue's for what becomes of the job if its worker is lost.
    """

    available_at_ms: int | None
    dedupe_key: str | None
    dedupe_window_ms: int | None
    for_worker: str | None = None
    on_lost: str | None = None

    @classmethod
    def of(cls, message: Message) -> WorkHeaders | None:
        """Return the wishes of a message's sender, or None if it has none.

        A header that breaks a rule is ignored: a program with its own SQL may have stored it, and
        the message must be delivered all the same.
        """
        if not message.raw_headers:
            return None
        headers = message.headers
        at_ms, key = headers.get(AVAILABLE_AT), headers.get(DEDUPE_KEY)
        window_ms = headers.get(DEDUPE_WINDOW)
        is_key = isinstance(key, str) and 0 < len(key) <= MAX_ID_CHARS
        worker, on_lost = headers.get(FOR_WORKER), headers.get(ON_LOST)
        wishes = cls(
            at_ms if _is_time(at_ms) else None,
            key if is_key else None,
            window_ms if is_key and _is_time(window_ms) else None,
            worker if _is_agent(worker) else None,
            on_lost if isinstance(on_lost, str) and on_lost in CHOICES[ON_LOST] else None,
        )
        return None if wishes == _NOTHING else wishes


_NOTHING = WorkHeaders(None, None, None)


@checked
def work_headers(
    *,
    available_at_ms: int | None = None,
    dedupe_key: str | None = None,
    dedupe_window_s: float | None = None,
    for_worker: str | None = None,
    on_lost: Literal["requeue", "fail", "dead"] | None = None,
) -> dict[str, object]:
    """Return the headers that ask queues for something; put them among a message's headers.

    Args:
        available_at_ms: queues hand the message out from this epoch millisecond on.
        dedupe_key: what the message is about, 1 to 255 characters.
        dedupe_window_s: for how many seconds a success with this key keeps the message out; a job
            with the key that is not over does so, too. None: the queue's own window, and such a
            job makes no difference.
        for_worker: the worker group that alone may claim its job; it gets this job before others.
        on_lost: what becomes of the job if its worker is lost; None leaves it to the queue.

    Raises:
        InvalidInput: a value breaks its rule.
    """
    headers: dict[str, object] = {}
    if available_at_ms is not None:
        if not _is_time(available_at_ms):
            raise InvalidInput(
                f"{AVAILABLE_AT} must be epoch milliseconds, not {available_at_ms!r}"
            )
        headers[AVAILABLE_AT] = available_at_ms
    if dedupe_key is not None:
        if not 0 < len(dedupe_key) <= MAX_ID_CHARS or not dedupe_key.isprintable():
            raise InvalidInput(f"a dedupe key is 1 to {MAX_ID_CHARS} printable characters")
        headers[DEDUPE_KEY] = dedupe_key
    if dedupe_window_s is not None:
        if dedupe_key is None:
            raise InvalidInput("a dedupe window needs a dedupe key")
        if not 0 <= dedupe_window_s * 1000 <= MAX_TS_MS:
            raise InvalidInput(f"dedupe_window_s must be 0 s or more, not {dedupe_window_s!r}")
        window_ms = round(dedupe_window_s * 1000)
        headers[DEDUPE_WINDOW] = window_ms
    if for_worker is not None:
        check_agent(for_worker, "worker")
        headers[FOR_WORKER] = for_worker
    if on_lost is not None:
        if on_lost not in CHOICES[ON_LOST]:
            raise InvalidInput(f"on_lost must be {' or '.join(CHOICES[ON_LOST])}, not {on_lost!r}")
        headers[ON_LOST] = on_lost
    return headers


def _is_agent(value: object) -> bool:
    try:
        check_agent(value)
    except InvalidInput:
        return False
    return True


def _is_time(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_TS_MS
