"""The planner: claims requests, runs a command that plans each, and publishes its jobs.

The command speaks the json contract. Each of its events of the type `task.job` is a job; the
request ends in the transaction that publishes them, so no crash plans a request twice, or half.
"""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ...bus.doorbell import wait_for
from ...schema.errors import AckbusError, BusBusy, InvalidInput, LimitReached, Refused, shown
from ...schema.message.names import check_agent
from ...subscribers.jobs.claims import Outcome
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.queues.queue import claim_of
from ...subscribers.queues.queue_set import QueueWorkers
from ...workers.json_contract import JSON_TIMEOUT_S, JsonCommand
from ...workers.processes.own_child import GRACE_S, StopSwitch
from ...workers.processes.supervisors import Supervisors
from ...workers.work import AttemptResult, not_storable
from ...workers.worker import AnswerBuilder
from ..control.entries import Entries
from ..control.jobs import check_job
from ..control.requests import Requests
from ..control.sessions import Sessions
from ..control.status import WAIT_S, WorkerTable, pick_worker
from ..crew import WANTS_WORKER
from ..steps.messages import JOBS, QUEUES, REQUESTS, TaskExists
from ..steps.planning import NewJob, open_queue
from ..steps.tasks import Tasks
from .worker_name import TaskKeeper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ...bus.heartbeat_thread import Heart
    from ...bus.local_bus import LocalBus
    from ...schema.message.draft import Draft
    from ...schema.message.message import Message
    from ...subscribers.jobs.claims import Claim

#: How long a request is a planner's without a renewal, in seconds.
LEASE_S = 60.0

_RECHECK_S, _LOOK_S = 0.25, 0.1

#: The priorities of jobs by their names.
_PRIORITIES = {"interactive": 0, "normal": 1, "background": 2}

_log = logging.getLogger("ackbus.tasks.planner")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """The settings of a planner.

    Attributes:
        planner: its name.
        argv: the command.
        timeout_s: how long it may take, in seconds; None: for ever.
        picks_worker: whether the first job of a plan is meant for a worker that is idle.
        wait_s: for how long the planner waits for one, in seconds.
        lease_s: how long a request is its own without a renewal, in seconds.
    """

    planner: str
    argv: Sequence[str]
    timeout_s: float | None = JSON_TIMEOUT_S
    picks_worker: bool = False
    wait_s: float = WAIT_S
    lease_s: float = LEASE_S


class TaskPlanner:
    """A planner: one request at a time, in one process.

    Args:
        bus: an open bus.
        settings: of it.

    Raises:
        InvalidInput: a setting breaks a rule.
    """

    def __init__(self, bus: LocalBus, settings: PlanSettings) -> None:
        check_agent(settings.planner, "planner")
        self._bus, self._settings = bus, settings
        self._tasks = Tasks(bus)
        self._queue = open_queue(bus, REQUESTS)
        open_queue(bus, JOBS)
        self._requests = Requests(bus, Sessions(bus).tell)
        self._workers = WorkerTable(bus, Entries(bus, JOBS))
        self._answers = AnswerBuilder(settings.planner, None, None)
        self._instance = f"{settings.planner[:96]}/{os.getpid()}-{secrets.token_hex(4)}"
        self._stop = StopSwitch()
        self._at: tuple[JsonCommand, Claim] | None = None

    def run(self, *, once: bool = False, drain: bool = False) -> int:
        """Plan until `stop` is called, and return how many requests were looked at.

        Args:
            once: wait for one request, and return after it.
            drain: return when nothing is left that could be claimed now.
        """
        planner = self._settings.planner
        with ExitStack() as stack:
            supervisors = stack.enter_context(Supervisors())
            heart = stack.enter_context(self._bus.heart(planner))
            keeper = stack.enter_context(
                TaskKeeper(self._queue, self._tasks, self._settings.lease_s, self._lose)
            )
            QueueWorkers(self._bus).note(self._queue.info, planner)
            command = JsonCommand(
                self._bus,
                self._settings.argv,
                group=planner,
                timeout_s=self._settings.timeout_s,
                command="plan",
                supervisors=supervisors,
            )
            count = 0

            def is_over() -> bool:
                nonlocal count
                while not self._stop.is_set and (claim := self._claim()) is not None:
                    self._work(command, keeper, heart, claim)
                    count += 1
                    if once:
                        return True
                return drain

            wait_for(self._bus, is_over, recheck_s=_RECHECK_S, stop=self._stop)
            return count

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End the command that runs, hand its request back, and return from `run`.

        Safe in a signal handler and from any thread.
        """
        self._stop.stop(grace_s)
        if self._at is not None:
            self._at[0].stop(self._at[1], grace_s)

    # One request -------------------------------------------------------------------------------

    def _claim(self) -> Claim | None:
        """Claim a request; its session is told if it waited over its budget."""
        try:
            claimed = self._requests.claim(self._settings.planner)
        except (BusBusy, LimitReached) as error:
            _log.warning("nothing can be claimed: %s", error)
            return None
        if claimed is None:
            return None
        claim = claim_of(self._bus, claimed[2])[1]
        self._queue.renew(claim, lease_s=self._settings.lease_s)  # a dead planner's is soon free
        return claim

    def _work(self, command: JsonCommand, keeper: TaskKeeper, heart: Heart, claim: Claim) -> None:
        keeper.hold(claim)
        heart.update("working", task=f"request {claim.message.seq}")
        self._at = (command, claim)
        try:
            if self._stop.is_set:
                self._queue.release(claim)
                return
            result = command.do(claim)
            if result.outcome is None:
                self._queue.release(claim)
            elif result.outcome.status == "completed":
                self._publish(claim, result, heart)
            else:
                self._end(claim, result)
        except ClaimLost as error:
            _log.warning("request %s: %s", claim.message.seq, error)
        except BusBusy as error:  # the request comes back when its lease has run out
            _log.warning("the end of request %s was not written: %s", claim.message.seq, error)
        finally:
            self._at = None
            keeper.let_go()
            heart.update("idle")

    def _publish(self, claim: Claim, result: AttemptResult, heart: Heart) -> None:
        """Publish a plan, and end its request, in one transaction."""
        message = claim.message
        try:
            jobs = jobs_of(message, [d for d in result.drafts if d.type == QUEUES[JOBS]])
            others = tuple(draft for draft in result.drafts if draft.type != QUEUES[JOBS])
            may_begin = bool(jobs) and not jobs[0].depends_on  # who is idle now may be gone later
            worker = self._picked(heart) if may_begin and self._settings.picks_worker else None
            if worker is not None:
                jobs[0] = replace(jobs[0], for_worker=worker)
            assert result.outcome is not None
            whole = AttemptResult(result.outcome, result.payload, result.headers, others)
            with self._bus.transaction():
                self._tasks.plan(
                    jobs,
                    agent=self._settings.planner,
                    in_reply_to=message.id,
                    correlation_id=message.conversation,
                )
                self._end(claim, whole)
        except (InvalidInput, TaskExists) as error:
            self._end(claim, failed_plan(error))
        except ClaimLost:
            raise
        except Refused as error:
            self._end(claim, not_storable(result, error))

    def _end(self, claim: Claim, result: AttemptResult) -> None:
        assert result.outcome is not None
        self._queue.end(claim, result.outcome, self._answers.to(claim.message, result))

    def _picked(self, heart: Heart) -> str | None:
        """Return an idle worker; if there is none, ask the crew for another, and wait for it."""
        return pick_worker(
            self._workers.list,
            start=lambda: heart.update(WANTS_WORKER, task="waits for a worker"),
            wait=self._wait,
            wait_s=self._settings.wait_s,
        )

    def _wait(self, is_there: Callable[[], bool], wait_s: float) -> None:
        wait_for(self._bus, is_there, timeout_s=wait_s, recheck_s=_LOOK_S, stop=self._stop)

    def _lose(self, why: str) -> None:
        if self._at is not None:
            self._at[0].stop(self._at[1], GRACE_S)


def jobs_of(request: Message, drafts: Sequence[Draft]) -> list[NewJob]:
    """Return the jobs of a plan, checked.

    Raises:
        InvalidInput: a field of a job is wrong; the error names the job and the field.
    """
    jobs = []
    for number, draft in enumerate(drafts, 1):
        try:
            jobs.append(_job(request, draft.payload, number))
        except InvalidInput as error:
            raise InvalidInput(f"job {number} of the plan: {error}") from error
    return jobs


def _job(request: Message, payload: object, number: int) -> NewJob:
    if not isinstance(payload, dict):
        raise InvalidInput(f"the payload must be an object, not {shown(payload)}")
    kind, params = payload.get("kind", "task.execute"), payload.get("params", {})
    if not isinstance(kind, str) or not kind:
        raise InvalidInput(f"kind must be text, not {shown(kind)}")
    if not isinstance(params, dict):
        raise InvalidInput(f"params must be an object, not {shown(params)}")
    check_job(kind, params)
    task = payload.get("task", f"{request.id}-{number}")
    if not isinstance(task, str):
        raise InvalidInput(f"task must be text, not {shown(task)}")
    depends_on = payload.get("depends_on", [])
    if not isinstance(depends_on, list) or not all(isinstance(name, str) for name in depends_on):
        raise InvalidInput(f"depends_on must be a list of tasks, not {shown(depends_on)}")
    priority = payload.get("priority", request.priority)
    if isinstance(priority, str):
        priority = _PRIORITIES.get(priority)
    if priority not in (0, 1, 2) or isinstance(priority, bool):
        text = shown(payload["priority"])
        raise InvalidInput(f"priority must be {', '.join(_PRIORITIES)}, not {text}")
    return NewJob(
        task=task,
        payload=_of_session(request, payload),
        depends_on=tuple(depends_on),
        priority=int(priority),
    )


def _of_session(request: Message, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a job with the session of its request, unless it names a session."""
    fields = request.payload if isinstance(request.payload, dict) else {}
    session = fields.get("sessionId")
    return {"sessionId": session, **payload} if isinstance(session, str) and session else payload


def failed_plan(error: AckbusError) -> AttemptResult:
    """Return the result of a plan that can't be taken."""
    return AttemptResult(Outcome(status="failed", error=str(error)), payload=str(error))
