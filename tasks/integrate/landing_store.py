"""The landings of a target: intended, landed and sent back, each in one transaction.

Transactions in which something lands or is sent back check the integrator's lease: an integrator
that has lost it writes none of them.
"""

from __future__ import annotations

from contextlib import suppress

from ...schema.errors import AckbusError
from ...schema.message.draft import Draft
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.jobs.jobs import FAILED
from ..control.sessions import Sessions
from ..records.task_table import Landing, Landings
from ..steps.messages import TASKS, TaskNotFound, WrongTaskState
from ..steps.tasks import Tasks
from .checks import END_CHARS
from .entries import LandingResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...bus.local_bus import LocalBus
    from ...subscribers.queues.queue import Queue
    from .checks import CheckResult
    from .entries import LandingEntry, MergedEntry, OutcomeKind
    from .integrator import TargetLease

# The steps of an integration, as events of the session that a completion belongs to.


def tell_session(bus: LocalBus, entry: LandingEntry, agent: str, words: str) -> None:
    """Store an event of a step in the caller's transaction; does nothing without a session.

    Args:
        bus: the bus.
        entry: what is integrated; the event is correlated by its completion's id.
        agent: the integrator.
        words: of the step.
    """
    if entry.session is None:
        return
    sessions = Sessions(bus)
    if sessions.table.exists(entry.session):
        sessions.emit(
            entry.session,
            "assistant_message",
            {"text": words},
            sender=agent,
            about=entry.message.id,
            correlationId=entry.message.id,
        )


def words_of_check(result: CheckResult) -> str:
    """Return the text about a check for its session."""
    how = "passed" if result.has_passed else f"failed: {result.reason}"
    return f"Check {result.command!r} {how}"


def words_of_outcome(result: LandingResult, target: str) -> str:
    """Return the text about the end of an entry for its session."""
    if result.outcome == "landed":
        summary = f"Merged into {target} as {result.commit}"
    else:
        summary = f"Not merged into {target}: {result.outcome}"
    parts = (summary, result.reason, ", ".join(result.files))
    return "; ".join(part for part in parts if part)


STARTED, CHECKED, OUTPUT = "integration_started", "check_result", "check_output"
INTENT, OUTCOME = "integration_intent", "integration_outcome"


class Stale(AckbusError):
    """Some entries may not land any more: their claims are lost, or their tasks are not approved.

    Attributes:
        entries: the entries, each with the reason.
    """

    def __init__(self, entries: Sequence[tuple[LandingEntry, str]]) -> None:
        self.entries = entries
        super().__init__("; ".join(f"{entry.name}: {reason}" for entry, reason in entries))


class LandingStore:
    """Stores and publishes all that becomes of the entries of one target.

    Args:
        bus: the bus.
        queue: the completions.
        target_lease: of the target.
        repository, target: the target.
        agent: the integrator.
    """

    def __init__(
        self,
        bus: LocalBus,
        queue: Queue,
        target_lease: TargetLease,
        repository: str,
        target: str,
        agent: str,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._target_lease = target_lease
        self._repository = repository
        self._target = target
        self._agent = agent
        self._tasks = Tasks(bus)
        self.landings = Landings.of(bus)

    def obstacle(self, entry: LandingEntry) -> str | None:
        """Return why an entry may not land, or None."""
        if entry.task is None:
            return None
        try:
            task = self._tasks.get(entry.task)
        except TaskNotFound as error:
            return str(error)
        if task.unproven:
            return "the task is unproven: its row was made of messages, and nobody confirmed it"
        if (task.state, task.attempt, task.head) != ("APPROVED", entry.attempt, entry.head):
            return f"the task is {task.state} in attempt {task.attempt}"
        if (task.repository, task.branch) != (self._repository, entry.branch):
            return f"the task is that of branch {task.branch} in {task.repository}"
        return None

    def start(self, entries: Sequence[LandingEntry], onto: str) -> None:
        """Tell that the integration of entries begins.

        Raises:
            LeaseLost: the target is not held any more; its new holder tells of the entries.
        """
        with self._bus.transaction():
            self._target_lease.check()
            self._bus.log.append(
                self._draft(entry, STARTED, target=self._target, onto=onto) for entry in entries
            )
            for entry in entries:
                words = f"{self._agent} claimed {entry.branch}, to merge it into {self._target}"
                self._tell_session(entry, words)

    def tell_check(self, batch: Sequence[MergedEntry], candidate: str, result: CheckResult) -> None:
        """Tell of a check, in the conversation of each entry of the batch.

        Raises:
            LeaseLost: the target is not held any more; its new holder checks the entries.
        """
        end = result.output[-END_CHARS:]
        names = [merged.entry.name for merged in batch]
        drafts = [
            self._draft(
                merged.entry,
                CHECKED,
                candidate=candidate,
                command=result.command,
                exit=result.exit,
                reason=result.reason or None,
                duration_ms=result.duration_ms,
                runs=result.runs,
                output=end,
                output_chars=len(result.output),
                batch=names if len(names) > 1 else None,
            )
            for merged in batch
        ]
        if len(result.output) > len(end):
            whole = {"command": result.command, "candidate": candidate, "output": result.output}
            drafts += [self._draft(merged.entry, OUTPUT, **whole) for merged in batch]
        with self._bus.transaction():
            self._target_lease.check()
            self._bus.log.append(drafts)
            for merged in batch:
                self._tell_session(merged.entry, words_of_check(result))

    def intend(self, batch: Sequence[MergedEntry], results: Sequence[CheckResult]) -> list[Landing]:
        """Store and tell which commits are about to be those of the target.

        Raises:
            LeaseLost: the target is not held any more.
            Stale: some entries may not land any more.
        """
        checks = tuple({"command": result.command, "exit": result.exit} for result in results)
        with self._bus.transaction():
            self._target_lease.check()
            stale = [
                (merged.entry, why) for merged in batch if (why := self._why_not(merged.entry))
            ]
            if stale:
                raise Stale(stale)
            now_ms = self._bus.now_ms()
            receipts = self._bus.log.append(
                self._draft(
                    merged.entry,
                    INTENT,
                    target=self._target,
                    candidate=merged.candidate.commit,
                    onto=merged.candidate.onto,
                    tree=merged.candidate.tree,
                    patch_id=merged.patch_id,
                    moves_to=batch[-1].candidate.commit,
                    checks=list(checks),
                )
                for merged in batch
            )
            landings = [
                Landing(
                    seq=receipt.seq,
                    repository=self._repository,
                    target=self._target,
                    task=merged.entry.task,
                    attempt=merged.entry.attempt,
                    branch=merged.entry.branch,
                    head=merged.head,
                    onto=merged.candidate.onto,
                    candidate=merged.candidate.commit,
                    tree=merged.candidate.tree,
                    patch_id=merged.patch_id,
                    checks=checks,
                    state="intended",
                    completion_seq=merged.entry.message.seq,
                    intended_at_ms=now_ms,
                )
                for merged, receipt in zip(batch, receipts, strict=True)
            ]
            for landing in landings:
                self.landings.add(landing)
            return landings

    def _why_not(self, entry: LandingEntry) -> str | None:
        if entry.claim is not None and self._queue.status(entry.claim) != "active":
            return "its claim is lost"
        return self.obstacle(entry)

    def landed(self, entry: LandingEntry, landing: Landing, reason: str = "") -> LandingResult:
        """Store and tell that an entry has landed; and end its task, its claim, and the landing.

        Args:
            entry, landing: what has landed.
            reason: why the target was not moved for it, if it was not.

        Raises:
            LeaseLost: the target is not held any more; its new holder finds what has landed.
        """
        result = LandingResult(entry, "landed", landing.candidate, (), reason)
        with self._bus.transaction():
            self._target_lease.check()
            if self.landings.end(landing.seq, "landed", self._bus.now_ms()):
                self._tell(result)
                if entry.task is not None and entry.attempt is not None:
                    with suppress(WrongTaskState):  # cancelled just now, but it has landed
                        self._tasks.land(
                            entry.task,
                            attempt=entry.attempt,
                            agent=self._agent,
                            commit=landing.candidate,
                        )
            self.close(entry, Outcome(result=result.record()))
        return result

    def abandon(self, landings: Sequence[Landing]) -> None:
        """Store that the target has not moved to some commits."""
        with self._bus.transaction():
            now_ms = self._bus.now_ms()
            for landing in landings:
                self.landings.end(landing.seq, "abandoned", now_ms)

    def propose(self, landing: Landing, entry: LandingEntry) -> LandingResult:
        """Store and tell that somebody else is asked to move the target."""
        result = LandingResult(entry, "proposed", landing.candidate)
        with self._bus.transaction():
            self._target_lease.check()
            self.landings.end(landing.seq, "proposed", None)
            self._tell(result)
            self.close(entry, Outcome(result=result.record()))
        return result

    def refuse(
        self,
        entry: LandingEntry,
        outcome: OutcomeKind,
        reason: str,
        files: tuple[str, ...] = (),
        others: Mapping[str, str] | None = None,
    ) -> LandingResult:
        """Store and tell that an entry does not land, and begin the next attempt of its task."""
        result = LandingResult(entry, outcome, None, files, reason, others or {})
        with self._bus.transaction():
            self._target_lease.check()
            self._tell(result)
            if entry.task is not None and entry.attempt is not None:
                with suppress(WrongTaskState, TaskNotFound):  # it was cancelled meanwhile
                    self._tasks.send_back(
                        entry.task,
                        attempt=entry.attempt,
                        agent=self._agent,
                        reason=_with_others(reason, result.others),
                        files=files,
                    )
            self.close(entry, Outcome(status=FAILED, error=reason, retry=False, is_reply=True))
        return result

    def requeue(self, entry: LandingEntry, reason: str) -> LandingResult:
        """Store and tell that an entry is tried again: its target moved meanwhile.

        No attempt is counted, of the entry or of its task: neither is at fault.
        """
        result = LandingResult(entry, "requeued", None, (), reason)
        with self._bus.transaction():
            self._target_lease.check()
            self._tell(result)
            self.hand_back(entry, reason)
        return result

    def retry(self, entry: LandingEntry, reason: str, *, most: int) -> LandingResult:
        """Store and tell that an entry is tried again; after `most` counted tries it is refused."""
        if entry.tries >= most:
            return self.refuse(entry, "rejected", f"{reason}, {entry.tries} times")
        result = LandingResult(entry, "requeued", None, (), reason)
        again = Outcome(status=FAILED, error=reason, retry=True, retry_after_s=0.0, is_reply=True)
        with self._bus.transaction():
            self._target_lease.check()
            self._tell(result)
            self.close(entry, again)
        return result

    def close(self, entry: LandingEntry, outcome: Outcome) -> None:
        """End the claim on an entry, unless it has none, or it is lost."""
        if entry.claim is None:
            return
        self._target_lease.let_go(entry.claim)
        with suppress(ClaimLost):
            self._queue.end(entry.claim, outcome)

    def hand_back(self, entry: LandingEntry, why: str) -> None:
        """Hand back the claim on an entry: no attempt is counted."""
        if entry.claim is None:
            return
        self._target_lease.let_go(entry.claim)
        with suppress(ClaimLost):
            self._queue.release(entry.claim, why)

    def _tell(self, result: LandingResult) -> None:
        payload = {
            "outcome": result.outcome,
            "target": self._target,
            "commit": result.commit,
            "files": list(result.files),
            "reason": result.reason or None,
            "others": dict(result.others),
        }
        self._bus.log.append([self._draft(result.entry, OUTCOME, **payload)])
        self._tell_session(result.entry, words_of_outcome(result, self._target))

    def _tell_session(self, entry: LandingEntry, words: str) -> None:
        tell_session(self._bus, entry, self._agent, words)

    def _draft(self, entry: LandingEntry, type: str, **fields: object) -> Draft:
        return Draft(
            type,
            {**entry.about(), **fields},
            from_agent=self._agent,
            to_agent=TASKS,
            in_reply_to=entry.message.id,
            priority=entry.message.priority,
        )


def _with_others(reason: str, others: Mapping[str, str]) -> str:
    """Return a reason with the tasks that last changed the files."""
    names = sorted(set(others.values()))
    return f"{reason} (last changed by {', '.join(names)})" if names else reason
