"""The worker host: claims jobs from a queue, runs their work, and records the results."""

from __future__ import annotations

import logging
import os
import secrets
import warnings
from contextlib import nullcontext

from ..bus import tracing
from ..bus.doorbell import StopEvent, listen
from ..bus.leases import DEFAULT_LEASE_S, duration_ms_of
from ..schema.arguments import with_checked_arguments
from ..schema.callbacks import (
    FailureLog,
    check_coroutine_function,
    check_plain,
    is_coroutine_function,
)
from ..schema.errors import (
    AckbusError,
    BusBusy,
    DiskFull,
    InvalidInput,
    LimitReached,
    NotFound,
    Refused,
)
from ..schema.message.names import check_type
from ..schema.message.patterns import not_acted_upon
from ..schema.message.reply_types import ReplyTypes
from ..schema.queries import engine_of
from ..subscribers.jobs import jobs as states
from ..subscribers.jobs.errors import ClaimLost, HopsWarning
from ..subscribers.jobs.outcomes import (
    MAX_HOPS,
    WARN_HOPS,
    answer_to,
    end_state,
    hops_of,
    is_tried_again,
    last_words,
)
from ..subscribers.queues.clock_back import ClockBack
from ..subscribers.queues.queue import MAX_CLAIMS, Queue
from ..subscribers.queues.queue_set import QueueWorkers
from .executors import InlineExecutor, TaskExecutor, ThreadExecutor
from .json_contract import WorkerStates
from .processes.own_child import GRACE_S
from .work import AttemptResult, ClaimKeeper, FunctionWork, not_storable, seconds_to_change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from ..bus.doorbell import Listener
    from ..bus.local_bus import LocalBus
    from ..schema.message.draft import Draft
    from ..schema.message.message import Message, Receipt
    from ..subscribers.jobs.claims import Claim, Outcome
    from ..subscribers.jobs.policy import Policy
    from .executors import Ended, Executor
    from .work import Work

# The log messages of a worker: failed attempts, and conversations that look like loops.

#: How many characters of an error a line of the log has; the claim has more.
_MAX_TOLD_CHARS = 300

#: Of how many conversations a worker remembers that it has warned.
_MAX_REMEMBERED = 1000

_log = logging.getLogger("ackbus.worker")


class OutcomeReporter:
    """Logs the ends that a worker has written down.

    Args:
        warn_hops: from how many hops on it warns of a conversation, once for each.
        max_hops: from how many hops on messages are refused.

    Raises:
        InvalidInput: a number is less than 1.
    """

    def __init__(self, warn_hops: int, max_hops: int) -> None:
        if warn_hops < 1 or max_hops < 1:
            raise InvalidInput("warn_hops and max_hops must be at least 1")
        self.max_hops = max_hops
        self._warn_hops = warn_hops
        self._warned: dict[str, None] = {}
        self._failures = FailureLog()

    def ended(
        self, policy: Policy, claim: Claim, result: AttemptResult, error: AckbusError | None
    ) -> None:
        """Log how an attempt failed, or why its end could not be written down.

        The first failure of each kind of a handler comes with its traceback.
        """
        raised, outcome = result.error, result.outcome
        if error is not None:
            text = str(error)
        elif outcome is not None and outcome.error is not None:
            why = outcome.error.partition("\n")[0][:_MAX_TOLD_CHARS]
            text = f"message {claim.message.seq}: {why} ({_what_follows(policy, claim, outcome)})"
        else:
            return
        if raised is None:
            _log.warning("%s", text)
        else:
            self._failures.tell(_log, text, raised, logging.WARNING)

    def held_up(self, is_new: bool, text: str, *values: object) -> None:
        """Warn of a hindrance once, since the worker tries again and again; then log at DEBUG."""
        _log.log(logging.WARNING if is_new else logging.DEBUG, text, *values)

    def followed(self, message: Message, receipts: Sequence[Receipt]) -> None:
        """Warn if the messages that followed from a message have many hops; once a conversation.

        Args:
            message: whose job has ended.
            receipts: of what was published then, which may be conversations of their own.
        """
        hops = hops_of(message) + 1
        if not receipts or hops < self._warn_hops:
            return
        is_known = message.conversation in self._warned
        self._remember(message.conversation, *(receipt.id for receipt in receipts))
        if is_known:
            return
        warnings.warn(
            f"conversation {message.conversation}: what followed from message {message.seq} is"
            f" {hops} hops from its start, and the limit is {self.max_hops}. See whether an answer,"
            " or an event, feeds the queue that it came from",
            HopsWarning,
            stacklevel=2,
        )

    def _remember(self, *conversations: str) -> None:
        self._warned |= dict.fromkeys(conversations)
        while len(self._warned) > _MAX_REMEMBERED:
            del self._warned[next(iter(self._warned))]


def _what_follows(policy: Policy, claim: Claim, outcome: Outcome) -> str:
    """Return what becomes of a job after a failed attempt, and the command for a person."""
    attempt = f"attempt {claim.attempt} of {claim.max_attempts}"
    if is_tried_again(policy, claim, outcome):
        return f"{attempt}; another follows"
    seq = claim.message.seq
    if end_state(policy, outcome) == states.DEAD:
        return f"{attempt}; the job is dead: see 'bus dead show {seq}'"
    return f"no other follows; 'bus job retry {seq}' tries the job again"


# The answers of a worker: a message for each job that is over, in its conversation.


class AnswerBuilder:
    """Makes the messages that say how a job ended.

    Args:
        group: the sender of the answers.
        success, failure: the types of the answers; None follows the convention of `ReplyTypes`.
        is_silent: makes no answers, so that other workers can.

    Attributes:
        is_silent: as in the arguments.

    Raises:
        InvalidInput: a type is none.
    """

    def __init__(
        self, group: str, success: str | None, failure: str | None, *, is_silent: bool = False
    ) -> None:
        if is_silent and (success or failure):
            raise InvalidInput("a worker that does not answer has no types of answers")
        for type in (success, failure):
            if type is not None:
                check_type(type)
        self._group = group
        self._success, self._failure = success, failure
        self.is_silent = is_silent
        self._last_words = last_words(group, failure)

    def to(self, message: Message, result: AttemptResult) -> list[Draft]:
        """Return what is to be published if the job is over by this result."""
        assert result.outcome is not None
        types = ReplyTypes.of(message.type, self._success, self._failure)
        by_status = {"completed": types.success, "timed_out": types.timed_out}
        type = by_status.get(result.outcome.status, types.failure)
        drafts = tracing.traced(result.drafts, tracing.child_trace(message.headers))
        for words in filter(None, (not_acted_upon(draft.type) for draft in drafts)):
            _log.warning("what follows from message %s: %s", message.seq, words)
        if type is None or self.is_silent:
            return drafts
        answer = answer_to(
            message, type, result.payload, sender=self._group, headers=result.headers
        )
        return drafts if answer is None else [*drafts, answer]

    def last_words(self, message: Message, state: str, why: str) -> Iterable[Draft]:
        """Return what is to be published when the job is over because its workers were lost."""
        return () if self.is_silent else self._last_words(message, state, why)


#: The longest wait for work, in seconds: what a writer that never rings the bell has to wait.
RECHECK_S = 0.25


@with_checked_arguments
class Worker:
    """A worker of a queue: one process, with room for some jobs at once.

        Worker(bus, "resize.request").run(resize)

    It renews the leases of its jobs, answers requests (see `ReplyTypes`), and goes on after any
    failure of a job. One `run` at a time.

    Args:
        bus: an open bus.
        queue: a queue, or the name of a queue; if there is none of the name, it is created, with
            the name as its pattern.
        group: the class of workers that it belongs to: the agent that answers and whose heart
            beats; None is the queue's name and `-worker`.
        instance: the name of this worker, for people; None is a new name.
        concurrency: how many jobs it works on at once.
        lease_s: for how long it claims and renews: how soon others take over when it dies.
        success_type, failure_type: the types of the answers; None follows the convention that
            `x.request` is answered by `x.done` or `x.failed`, and other types are not.
        answers: whether requests are answered. A worker that only watches the stream (a journal, a
            count) leaves that to the workers that do what is asked.
        beats: whether its group's heart beats while it runs, with the current job as its task.
        warn_hops, max_hops: from how many hops on its messages bring a warning (`HopsWarning`),
            once for each conversation, and from how many on they are refused, which fails the job
            for good. A job that a job's message begins is a hop further than that job.
    """

    def __init__(
        self,
        bus: LocalBus,
        queue: Queue | str,
        *,
        group: str | None = None,
        instance: str | None = None,
        concurrency: int = 1,
        lease_s: float = DEFAULT_LEASE_S,
        success_type: str | None = None,
        failure_type: str | None = None,
        answers: bool = True,
        beats: bool = True,
        warn_hops: int = WARN_HOPS,
        max_hops: int = MAX_HOPS,
    ) -> None:
        if concurrency < 1:
            raise InvalidInput(f"concurrency must be at least 1, not {concurrency}")
        duration_ms_of(lease_s)
        self.bus = bus
        name = queue if isinstance(queue, str) else queue.name
        self.group = group or f"{name}-worker"
        self.queue = Queue.create(bus, queue, group=self.group) if isinstance(queue, str) else queue
        self.instance = instance or f"{self.group[:96]}-{os.getpid()}-{secrets.token_hex(4)}"
        self.concurrency = concurrency
        self.lease_s = lease_s
        self._answers = AnswerBuilder(self.group, success_type, failure_type, is_silent=not answers)
        self._states = WorkerStates.of(bus)
        self._beats = beats
        self._reports = OutcomeReporter(warn_hops, max_hops)
        self._keeper = ClaimKeeper(self.queue, lease_s, None, self._give_up)
        self._executor: Executor | None = None
        self._waiting = StopEvent()  # never set: only woken
        self._is_stopping = False
        self._running = self._count = 0
        # Ends of jobs that are not stored yet.
        self._unwritten: list[Ended] = []
        self._may_claim = True  # as far as it knows
        self._is_to_be_noted = False

    def run(
        self, handler: Callable[[Message], object], *, once: bool = False, drain: bool = False
    ) -> int:
        """Call `handler` for each message of the queue; blocks until `stop` is called.

        What the handler returns is the payload of the answer, or drafts to publish as they are.
        When it raises, the attempt has failed, and the queue's policy decides; `RetryLater` and
        `NeverRetry` say it themselves. With a concurrency above 1 it is called in threads; a
        coroutine function is awaited, in an event loop of its own (`run_async` uses yours).

        Args:
            handler: is given each message, with its `attempt` and the claim's `token`.
            once: wait for a message, handle it, and return.
            drain: return when nothing is left that could be claimed now.

        Returns:
            How many attempts ended.

        Raises:
            InvalidInput: the handler is a generator function, or none; nothing was claimed.
        """
        if is_coroutine_function(handler):
            import asyncio

            return asyncio.run(self.run_async(handler, once=once, drain=drain))
        check_plain(handler, "run", instead="give a function that returns, without 'yield'")
        return self.run_work(FunctionWork(handler, self.bus), once=once, drain=drain)

    def run_work(self, work: Work, *, once: bool = False, drain: bool = False) -> int:
        """Do as `run` does, for other kinds of work than Python functions."""
        if self.concurrency == 1 or once:
            executor: Executor = InlineExecutor(work, self._write, self._begins_no_more)
        else:
            executor = ThreadExecutor(work, self.concurrency, self._waiting.wake)
        return self._run(executor, once, drain)

    async def run_async(
        self,
        handler: Callable[[Message], Awaitable[object]],
        *,
        timeout_s: float | None = None,
        once: bool = False,
        drain: bool = False,
    ) -> int:
        """Do as `run` does, for a coroutine function; the event loop never waits for the bus.

        Args:
            handler: as for `run`.
            timeout_s: how long each message may take, in seconds; then it is cancelled.
            once, drain: as for `run`.

        Raises:
            InvalidInput: the handler is no coroutine function; nothing was claimed.
        """
        import asyncio

        from .executors import in_thread

        check_coroutine_function(handler, "run_async", instead="run takes plain functions")
        loop = asyncio.get_running_loop()
        count = 1 if once else self.concurrency
        executor = TaskExecutor(
            handler,
            engine_of(self.bus),
            loop,
            count,
            timeout_s,
            self._waiting.wake,
            self._begins_no_more,
        )

        def run() -> int:
            try:
                return self._run(executor, once, drain)
            finally:
                engine_of(self.bus).close_thread()

        return await in_thread(run, f"worker of {self.queue.name}", self.stop)

    @property
    def is_working(self) -> bool:
        """Whether something runs that `stop` waits for."""
        return self._running > 0

    def stop(self) -> None:
        """Begin nothing more, finish what runs, and return from `run`; for good.

        Safe from any thread and from a signal handler.
        """
        self._is_stopping = True
        self._waiting.wake()

    def stop_now(self, grace_s: float = 0.0) -> None:
        """Stop, and end the commands that run: their jobs are handed back.

        Args:
            grace_s: how long a command has after SIGTERM, in seconds.
        """
        self.stop()
        for claim in self._keeper.held():
            self._end_work(claim, grace_s)

    # The loop ----------------------------------------------------------------------------------

    def _run(self, executor: Executor, once: bool, drain: bool) -> int:
        self._executor, self._running, self._count, self._unwritten = executor, 0, 0, []
        heart = self.bus.heart(self.group) if self._beats else None
        self._is_to_be_noted = heart is not None and not self._answers.is_silent
        self._keeper = ClaimKeeper(self.queue, self.lease_s, heart, self._give_up)
        try:
            with listen(self.bus, self._waiting) as listener, heart or nullcontext(), self._keeper:
                try:
                    return self._loop(executor, listener, once, drain)
                finally:
                    self._wind_up(listener)
        finally:
            executor.close()
            self._executor = None

    def _loop(self, executor: Executor, listener: Listener, once: bool, drain: bool) -> int:
        has_begun = False
        clock = ClockBack(self.bus)
        while True:
            clock.look()
            self._keeper.check()
            self._write()
            is_last = self._is_stopping or (once and has_begun)
            claims = [] if is_last else self._claim(1 if once else executor.room())
            if claims:
                has_begun = True
                self._running += len(claims)
                executor.start(claims)
            elif claims is None or self._running or (self._unwritten and not self._is_stopping):
                listener.wait(RECHECK_S)
            elif is_last or drain:
                return self._count
            else:
                self._wait(listener)

    def _claim(self, room: int) -> list[Claim] | None:
        """Claim up to `room` jobs; None: the bus would not have it now."""
        # Ends that wait for room in another queue take up room here, so a full queue slows down
        # those who fill it. It doesn't stop them: in a circle of queues, a claim may make room.
        if len(self._unwritten) > self.concurrency:
            return []
        room = min(max(1, room - len(self._unwritten)), MAX_CLAIMS) if room else 0
        if not room:
            return []
        try:
            self._note()
            claims = self.queue.claim(
                self.instance,
                group=self.group,
                limit=room,
                lease_s=self.lease_s,
                last_words=self._answers.last_words,
            )
        except (BusBusy, DiskFull, LimitReached) as error:
            self._reports.held_up(self._may_claim, "nothing can be claimed: %s", error)
            self._may_claim = False
            return None
        self._may_claim = True
        for claim in claims:
            self._keeper.hold(claim)
            _log.debug("claimed message %s as %s", claim.message.seq, claim.token)
        return claims

    def _note(self) -> None:
        """Record once that the group serves the queue."""
        if self._is_to_be_noted:
            QueueWorkers(self.bus).note(self.queue.info, self.group)
            self._is_to_be_noted = False

    def _wait(self, listener: Listener) -> None:
        timeout_s = seconds_to_change(self.queue, RECHECK_S)
        is_woken = listener.wait(timeout_s)
        _log.debug("woken" if is_woken else "looking again after %.3f s", *[timeout_s][is_woken:])

    def _begins_no_more(self) -> bool:
        return self._is_stopping

    # Ends --------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Record the results of ended work."""
        assert self._executor is not None
        ended = self._executor.ended()
        self._running -= len(ended)
        old = len(self._unwritten)
        ends, self._unwritten = [*self._unwritten, *ended], []
        if not ends:
            return
        try:
            self._write_together(ends)
        except (BusBusy, DiskFull) as error:  # each end alone would fail, too
            self._reports.held_up(not old, "%s ends wait: %s", len(ends), error)
            self._unwritten = ends
        except AckbusError:  # some end can't be written: find it by writing each alone
            for index, (claim, result) in enumerate(ends):
                self._write_one(claim, result, is_new=index >= old)

    def _write_together(self, ends: list[Ended]) -> None:
        finished = [(claim, result, result.outcome) for claim, result in ends if result.outcome]
        endings = [(c, outcome, self._answers.to(c.message, r)) for c, r, outcome in finished]
        with self.bus.transaction():
            written = self.queue.end_many(endings, max_hops=self._reports.max_hops)
            for (_, result, _), (_, error) in zip(finished, written, strict=True):
                if error is None and result.state_updates:
                    self._states.update(self.group, result.state_updates)
        for (claim, result, _), (_, error) in zip(finished, written, strict=True):
            self._keeper.let_go(claim)
            self._reports.ended(self.queue.info.policy, claim, result, error)
        self._count += len(finished)
        self._release([claim for claim, result in ends if result.outcome is None])
        for (claim, _, _), (receipts, _) in zip(finished, written, strict=True):
            self._reports.followed(claim.message, receipts)

    def _write_one(self, claim: Claim, result: AttemptResult, *, is_new: bool) -> None:
        try:
            try:
                self._write_together([(claim, result)])
            except LimitReached:
                raise
            except (InvalidInput, Refused, NotFound) as error:  # that is how the attempt ended
                result = not_storable(result, error)
                self._write_together([(claim, result)])
        except (BusBusy, DiskFull, LimitReached) as error:  # it will have its turn
            self._reports.held_up(is_new, "the end of claim %s waits: %s", claim.token, error)
            self._unwritten.append((claim, result))

    def _release(self, claims: list[Claim]) -> None:
        """Hand jobs back. What can't be will be taken for lost when its lease runs out."""
        if not claims:
            return
        for claim in claims:  # first: the keeper would find them lost
            self._keeper.let_go(claim)
        try:
            with self.bus.transaction():
                for claim in claims:
                    self._release_one(claim)
        except AckbusError as error:
            _log.warning("%s jobs were not handed back: %s", len(claims), error)

    def _release_one(self, claim: Claim) -> None:
        try:
            self.queue.release(claim)
        except ClaimLost as error:
            _log.warning("%s", error)

    def _wind_up(self, listener: Listener) -> None:
        """Wait for running work, record its results, and release the other claims.

        Also after an error: running work can't be stopped, and its leases are kept meanwhile.
        """
        try:
            if self._running:
                listener.wait_for(self._write, lambda _: not self._running, recheck_s=RECHECK_S)
            self._write()
        except AckbusError as error:
            _log.warning("not all that has ended was written down: %s", error)
        self._release(self._keeper.held())

    def _give_up(self, claim: Claim) -> None:
        """End the work for a claim that is lost: another worker may be at it by now."""
        self._end_work(claim, GRACE_S)

    def _end_work(self, claim: Claim, grace_s: float) -> None:
        executor = self._executor
        if executor is not None:
            executor.stop(claim, grace_s)
