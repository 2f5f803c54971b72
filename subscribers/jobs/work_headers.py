"""Work headers, by which a sender asks queues for something. Inboxes ignore them."""

from __future__ import annotations

from dataclasses import dataclass

from ...schema.arguments import checked
from ...schema.errors import InvalidInput
from ...schema.message.draft import (
    AVAILABLE_AT,
    DEDUPE_KEY,
    DEDUPE_WINDOW,
    FOR_WORKER,
    ON_LOST,
)
from ...schema.message.limits import MAX_ID_CHARS
from ...schema.message.names import check_agent
from ...schema.message.times import MAX_TS_MS
from .policy import CHOICES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ...schema.message.message import Message


@dataclass(frozen=True, slots=True)
class WorkHeaders:
    """A sender's wishes.

    Attributes:
        available_at_ms: the epoch millisecond before which no queue hands the message out.
        dedupe_key: what it is about: a queue takes in nothing about which it has a success inside
            its window, and runs one job for a key at a time.
        dedupe_window_ms: another window than the queue's; also refuses what is about the same as
            a job that waits or runs.
        for_worker: the worker group that alone may claim the job; a queue that others work on too.
        on_lost: another rule than the queue's for what becomes of the job if its worker is lost.
    """

    available_at_ms: int | None
    dedupe_key: str | None
    dedupe_window_ms: int | None
    for_worker: str | None = None
    on_lost: str | None = None

    @classmethod
    def of(cls, message: Message) -> WorkHeaders | None:
        """Return what a message asks for, or None when that is nothing.

        What breaks a rule is not there: a program with its own SQL may have stored it, and the
        message must come all the same.
        """
        if not message.raw_headers:
            return None
        headers = message.headers
        at_ms, key = headers.get(AVAILABLE_AT), headers.get(DEDUPE_KEY)
        window_ms = headers.get(DEDUPE_WINDOW)
        is_key = isinstance(key, str) and 0 < len(key) <= MAX_ID_CHARS
        worker, on_lost = headers.get(FOR_WORKER), headers.get(ON_LOST)
        wanted = cls(
            at_ms if _is_time(at_ms) else None,
            key if is_key else None,
            window_ms if is_key and _is_time(window_ms) else None,
            worker if _is_agent(worker) else None,
            on_lost if isinstance(on_lost, str) and on_lost in CHOICES[ON_LOST] else None,
        )
        return None if wanted == _NOTHING else wanted


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
        available_at_ms: hand it out from this epoch millisecond on.
        dedupe_key: what the message is about, 1 to 255 characters.
        dedupe_window_s: for how many seconds a success with this key keeps it out; a live job
            with the key does so too. None leaves the first to the queue, and the second be.
        for_worker: the worker group that alone may claim its job; of what the queue has taken in
            it gets that first.
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
