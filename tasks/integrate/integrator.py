"""The integrator: the one process that lands the entries of a target."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from time import monotonic

from ...bus.doorbell import listen
from ...git.targets.check_tree import CheckTree
from ...git.targets.pushing import RemoteUnreachable
from ...git.targets.refs import TargetBusy
from ...git.trees.done_heads import DoneHeads
from ...git.trees.tree_locks import TreeBusy, TreeLocks
from ...git.trees.work_trees import WorkTrees
from ...git.trusted import named_repository
from ...schema.errors import BusBusy, LeaseLost, Refused, shown
from ...subscribers.queues.clock_back import ClockBack
from ...subscribers.queues.queue import Queue
from ...workers.processes.stop_switch import StopSwitch
from ...workers.processes.supervisors import Supervisors
from ..programs.bounded_attempts import COOLDOWN_MS, JOB, WARM_UP, AttemptRule, BoundedAttempts
from ..steps.changes import Changes
from ..steps.messages import COMPLETIONS, integrators_of
from ..steps.tasks import Tasks
from .book import Book
from .checks import NotStarted
from .desk import Desk
from .holding import LEASE_S, Holding
from .lander import Lander

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ...bus.doorbell import Listener
    from .entries import Result
    from .rules import Rules

#: How long the lock of another integrator is waited for, in seconds: one may be about to end.
_PATIENCE_S = 0.5

#: How long a run that is to end waits for a git that a killed integrator has left, in seconds.
_LEFT_S = 120.0

#: The longest wait for news, and how often what was lost is looked for, in seconds.
_LOOK_S, _SETTLE_S = 1.0, 5.0

#: Errors that pass by themselves, and say nothing about an entry.
_TRANSIENT = (RemoteUnreachable, BusBusy, TreeBusy, NotStarted)


class Integrator:
    """Integrates into one target, as the only one of its repository.

    Args:
        bus: the bus.
        folder: in the repository.
        rules: how.
        tell: called with each result.
        warn: called with what a person should know.
        lease_s: how long its lease lasts unless it is renewed.
        warm_up, retries: how often something is tried that fails for the moment: before the first
            entry that was integrated, and after it.
        cooldown_ms: the rest after the last attempt, in milliseconds.
    """

    def __init__(
        self,
        bus: Bus,
        folder: str,
        rules: Rules,
        *,
        tell: Callable[[Result], None] = lambda result: None,
        warn: Callable[[str], None] = lambda words: None,
        lease_s: float = LEASE_S,
        warm_up: AttemptRule = WARM_UP,
        retries: AttemptRule = JOB,
        cooldown_ms: int = COOLDOWN_MS,
    ) -> None:
        self._bus = bus
        self._rules = rules
        self._tell = tell
        self._warn = warn
        self._lease_s = lease_s
        self._place = named_repository(folder)
        self._stop = StopSwitch()
        self._attempts = BoundedAttempts(warm_up, cooldown_ms)
        self._later_attempts = BoundedAttempts(retries, cooldown_ms)
        self._warned = ""
        self._settle_at = 0.0
        self._clock = ClockBack(bus)

    def stop(self, grace_s: float = 5.0) -> None:
        """End soon, from any thread or a signal handler: a check is stopped, and nothing lands."""
        self._stop.stop(grace_s)

    def run(self, *, once: bool = False) -> None:
        """Integrate what is in the queue; without `once` also what comes, until it is stopped.

        Raises:
            Refused: another integrator works on the target, or there is no such branch; or, with
                `once`, a git that a killed one left works there for two minutes still.
            TargetBusy: with `once`: a work tree of the target is not clean.
            RemoteUnreachable, BusBusy, TreeBusy, NotStarted: with `once`: what failed for the
                moment, after the last attempt.
        """
        Changes(self._bus).create_queues()
        with ExitStack() as stack:
            held = self._lock(stack, once)
            if held is None:
                return
            supervisors = stack.enter_context(Supervisors())
            tree = CheckTree(WorkTrees(self._place), self._rules.target)
            stack.callback(tree.remove)
            while not self._stop.is_thrown:
                try:
                    self._run_held(held, supervisors, tree, once)
                    return
                except LeaseLost as error:  # the machine slept, or somebody ended it
                    self._warn(f"{error}; beginning again")

    def _lock(self, stack: ExitStack, once: bool) -> int | None:
        """Take the lock of the target; None: it was stopped before a git that was left had ended.

        A killed integrator leaves one that is at work, with a hook of the repository perhaps.
        """
        locks = TreeLocks(self._place.common_dir, wait_s=_PATIENCE_S)
        ends = monotonic() + (_LEFT_S if once else inf)
        while True:
            try:
                return stack.enter_context(locks.of_target(self._rules.target))
            except TreeBusy as error:
                if not error.is_left or monotonic() > ends:
                    raise Refused(
                        f"another integrator works on {shown(self._rules.target)} of"
                        f" {self._place.main}, or a git that it started: {error}"
                    ) from error
                if self._stop.is_thrown:
                    return None
                self._warn_once(f"a killed integrator has left a git that is at work: {error}")

    def _run_held(self, held: int, supervisors: Supervisors, tree: CheckTree, once: bool) -> None:
        rules, repository = self._rules, self._place.common_dir
        target = rules.target_in(self._place, held)
        group = integrators_of(repository, rules.target)
        queue = Queue.open(self._bus, COMPLETIONS)
        with (
            Holding(
                *(self._bus, queue, repository, rules.target),
                group=group,
                agent=rules.agent,
                lease_s=self._lease_s,
            ) as holding,
            self._bus.heart(rules.agent) as heart,
            listen(self._bus) as listener,
        ):
            Tasks(self._bus).enter_again(repository, rules.target, agent=rules.agent)
            self._keep_heads(repository)
            book = Book(self._bus, queue, holding, repository, rules.target, rules.agent)
            lander = Lander(
                *(self._bus, self._place, rules, book, target, tree, supervisors),
                stop=self._stop,
                tell=self._tell,
            )
            desk = Desk(queue, group, rules, holding, book, heart)
            self._serve(desk, lander, listener, once)

    def _keep_heads(self, repository: str) -> None:
        """Keep approved heads that were done where nobody could: away from the repository."""
        approved = Tasks(self._bus).list(states=["APPROVED"])
        heads = [(task.task, task.head) for task in approved if task.repository == repository]
        DoneHeads(self._place).keep_missing((name, head) for name, head in heads if head)

    def _serve(self, desk: Desk, lander: Lander, listener: Listener, once: bool) -> None:
        self._settle_at = 0.0
        while not self._stop.is_thrown:
            wait_s = _LOOK_S
            try:
                self._look_after(lander)
                lander.check_free()
                was_there = desk.turn(lander)
                self._attempts.end()
                if was_there:
                    self._attempts = self._later_attempts
                    self._warned = ""
                    continue
                if once:
                    return
            except (TargetBusy, *_TRANSIENT) as error:
                wait_s = self._pause(error, desk)
                if once and not self._attempts.attempt:
                    raise
                self._warn_once(str(error))
                self._settle_at = 0.0
            self._wait(listener, wait_s)

    def _wait(self, listener: Listener, wait_s: float) -> None:
        """Wait for news, or for the end of a pause."""
        ends = monotonic() + wait_s
        while not self._stop.is_thrown and (left_s := ends - monotonic()) > 0:
            listener.wait(min(left_s, _LOOK_S))
            if wait_s <= _LOOK_S:
                return

    def _look_after(self, lander: Lander) -> None:
        """Settle what was lost, now and then: holders, questions, and what was intended."""
        if monotonic() < self._settle_at:
            return
        self._clock.look()
        lander.recover()
        tasks = Tasks(self._bus)
        tasks.settle_lost()
        tasks.settle_deadlines()
        self._settle_at = monotonic() + _SETTLE_S

    def _warn_once(self, words: str) -> None:
        """Tell what is in the way, unless that was the last that was told."""
        if words != self._warned:
            self._warned = words
            self._warn(words)

    def _pause(self, error: Exception, desk: Desk) -> float:
        """Return how long to wait before the next attempt."""
        if isinstance(error, TargetBusy):
            return _LOOK_S
        if not self._attempts.attempt:
            self._attempts.begin()
        now_ms = self._bus.now_ms()
        pause_ms = self._attempts.failed(now_ms)
        if pause_ms is not None:
            self._attempts.begin()
            return pause_ms / 1000
        desk.tell_offline()
        return self._attempts.offline_ms(now_ms) / 1000
