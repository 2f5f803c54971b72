"""Requests, which wait for a planner; and completions, which wait for an integrator."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from ...bus.own_answers import first_answered_before
from ...schema.errors import InvalidInput
from ...schema.message.reply_types import ReplyTypes
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.outcomes import answer_to
from ..steps.messages import COMPLETIONS, QUEUES, REQUESTS
from ..steps.worker_steps import KeptHeads
from .entries import (
    Budgets,
    Entries,
    QueueEntry,
    eta_ms,
    failed,
    json_or_none,
    json_text,
    priority_of,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.local_bus import LocalBus

# Events of sessions, as the control plane tells them.


class Tell(Protocol):
    """Stores an event of a session, in the caller's transaction."""

    def __call__(
        self, session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None, /
    ) -> None:
        """Store an event; does nothing if the session does not exist.

        Args:
            session: its id.
            type, payload: of the event.
            sender: of the event.
            about: the id of its request, job or completion.
        """


def ignore_event(
    session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None
) -> None:
    """Ignore an event: for callers without sessions."""


_log = logging.getLogger("ackbus.tasks")

_ANSWERS = ReplyTypes.of(QUEUES[REQUESTS])


class Requests:
    """The queue of requests.

    Args:
        bus: an open bus.
        tell: tells a session of something.
    """

    def __init__(self, bus: LocalBus, tell: Tell = ignore_event) -> None:
        self.entries = Entries(bus, REQUESTS)
        self._bus = bus
        self._tell = tell

    def enqueue(
        self,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Publish a request, and return its id, its place in line and when it is reached.

        Raises:
            InvalidInput: session or prompt is missing.
        """
        session, prompt = required(body, "sessionId", "prompt")
        priority = priority_of(body.get("priority"))
        budget_ms = Budgets.of(body, priority).queue_wait_ms
        payload = {"sessionId": session, "prompt": prompt, "queueWaitBudgetMs": budget_ms}
        entry, place = self.entries.add(payload, agent=agent, priority=priority, trace=trace)
        return {
            "requestId": entry.id,
            "queuePosition": place,
            "etaMs": eta_ms(priority, place),
        }

    def claim(
        self, agent: str, *, client: str | None = None
    ) -> tuple[dict[str, Any], int, int] | None:
        """Claim the first request in line, and tell its session if it waited over its budget.

        Args:
            agent, client: as for `Entries.claim`.

        Returns:
            The row, how long it waited in milliseconds, and the token of the claim; None when
            there is none.
        """
        with self._bus.transaction():
            entry = self.entries.claim(agent, client=client)
            if entry is None or entry.claim is None:
                return None
            wait_ms = entry.wait_ms()
            budget_ms = _budget(entry)
            if wait_ms > budget_ms and entry.session:
                text = (
                    f"Your request waited {wait_ms / 1000:.1f} s for a planner, longer than the"
                    f" {budget_ms / 1000:g} s that it should; {agent} has it now."
                )
                self._tell(entry.session, "assistant_message", {"text": text}, agent, entry.id)
        return row(entry), wait_ms, entry.claim.token

    def complete(self, id: str, result: object = None, *, agent: str | None = None) -> QueueEntry:
        """End a claimed request with a result, and answer its sender; false values are none.

        Raises:
            NotClaimed: it is not claimed.
        """
        return self._end(id, Outcome(result=json_or_none(result)), agent, _ANSWERS.success, result)

    def fail(
        self, id: str, message: object = None, detail: object = None, *, agent: str | None = None
    ) -> QueueEntry:
        """End a claimed request for good without success, and answer its sender.

        Raises:
            NotClaimed: it is not claimed.
        """
        outcome = failed(text_of(message), text_of(detail))
        return self._end(id, outcome, agent, _ANSWERS.failure, outcome.error)

    def _end(
        self, id: str, outcome: Outcome, agent: str | None, type: str | None, answer: object
    ) -> QueueEntry:
        with self._bus.transaction():
            entry, claim = self.entries.held(id, agent)
            assert type is not None  # requests are answered
            headers: dict[str, object] = {"status": outcome.status}
            reply = answer_to(entry.message, type, answer, sender=claim.group, headers=headers)
            replies = [] if reply is None else [reply]
            again = first_answered_before(self._bus, replies)
            ended = self.entries.end(id, outcome, agent=agent, replies=replies)
        if again is not None:  # clients of this API know no warnings
            _log.warning("request %s was answered once more: %s", id, again)
        return ended


def row(entry: QueueEntry) -> dict[str, Any]:
    """Return a request by the names of PushPals' columns."""
    times = entry.times()
    failure = entry.failure()
    return {
        "id": entry.id,
        "sessionId": entry.session,
        "prompt": _prompt(entry),
        "priority": entry.priority,
        "queueWaitBudgetMs": _budget(entry),
        "status": entry.status,
        "agentId": entry.holder,
        "result": entry.result(),
        "error": None if failure is None else json_text(failure),
        "enqueuedAt": times["enqueuedAt"],
        "claimedAt": times["claimedAt"],
        "completedAt": times["completedAt"],
        "failedAt": times["failedAt"],
        "durationMs": entry.duration_ms(),
        "createdAt": times["createdAt"],
        "updatedAt": times["updatedAt"],
    }


def required(body: Mapping[str, Any], *names: str) -> list[str]:
    """Return fields of a body as texts, each of which must have something in it.

    Raises:
        InvalidInput: one is missing; the error names all that must be there.
    """
    values = [text_of(body.get(name)) for name in names]
    if all(values):
        return values
    *first, last = names
    subject = f"{', '.join(first)} and {last} are" if first else f"{last} is"
    raise InvalidInput(f"{subject} required")


def _prompt(entry: QueueEntry) -> str | None:
    """Return what a request asks for: a payload that is text is all of it."""
    whole = entry.message.payload
    return whole if isinstance(whole, str) else entry.text("prompt")


def _budget(entry: QueueEntry) -> int:
    return Budgets.of(entry.payload(), entry.job.priority).queue_wait_ms


# Completions: the commits of finished jobs, waiting for an integrator.

#: The fields that a completion may have besides those that it must.
_OPTIONAL = ("commitSha", "branch", "prTitle", "prBody")


class Completions:
    """The queue of completions: the oldest first.

    Args:
        bus: an open bus.
    """

    def __init__(self, bus: LocalBus) -> None:
        self.entries = Entries(bus, COMPLETIONS)
        self._heads = KeptHeads(bus)

    def enqueue(
        self,
        body: Mapping[str, Any],
        *,
        agent: str | None = None,
        trace: Mapping[str, str] | None = None,
    ) -> str:
        """Publish a completion in the conversation of its job, and return its id.

        Raises:
            InvalidInput: job, session or message is missing.
            GitFailed: as for `keep_head`.
        """
        job, session, message = required(body, "jobId", "sessionId", "message")
        texts = {name: text_of(body.get(name)) for name in _OPTIONAL}
        more = {name: text for name, text in texts.items() if text}
        self.keep_head(body)
        payload = {"jobId": job, "sessionId": session, "message": message, **more}
        entry, _ = self.entries.add(payload, agent=agent, parent=job, trace=trace)
        return entry.id

    def keep_head(self, body: Mapping[str, Any]) -> None:
        """Give the commit that a completion names a ref, where a trusted repository has it.

        `enqueue` does so too, but within a transaction, in which git may not run. Safe to repeat.

        Raises:
            GitFailed: git, or a hook of the repository, refuses the ref.
        """
        self._heads.keep_asked(text_of(body.get("commitSha")))

    def claim(self, agent: str) -> tuple[dict[str, Any], int] | None:
        """Claim the oldest completion: its row, and the token of the claim; None without one."""
        entry = self.entries.claim(agent)
        if entry is None or entry.claim is None:
            return None
        return completion_row(entry), entry.claim.token

    def processed(self, id: str, *, agent: str | None = None) -> QueueEntry:
        """End a claimed completion: its commit is in the target.

        Raises:
            NotClaimed: it is not claimed.
        """
        ended = self.entries.end(id, Outcome(), agent=agent)
        self._heads.drop_asked(ended.text("commitSha"))
        return ended

    def fail(self, id: str, error: object = None, *, agent: str | None = None) -> QueueEntry:
        """End a claimed completion for good: its commit is not in the target.

        Raises:
            NotClaimed: it is not claimed.
        """
        return self.entries.end(id, failed(text_of(error)), agent=agent)


def completion_row(entry: QueueEntry) -> dict[str, Any]:
    """Return a completion by the names of PushPals' columns."""
    times, failure, branch = entry.times(), entry.failure(), entry.text("branch")
    return {
        "id": entry.id,
        "jobId": entry.text("jobId") or entry.text("task"),
        "sessionId": entry.session,
        "commitSha": entry.text("commitSha") or entry.text("head"),
        "branch": branch,
        "message": entry.text("message") or (None if branch is None else f"Merge {branch}"),
        "prTitle": entry.text("prTitle"),
        "prBody": entry.text("prBody"),
        "status": entry.status,
        "pusherId": entry.holder,
        "error": None if failure is None else entry.job.error or failure["message"],
        "completedAt": times["completedAt"],
        "failedAt": times["failedAt"],
        "createdAt": times["createdAt"],
        "updatedAt": times["updatedAt"],
    }
