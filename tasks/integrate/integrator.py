"""The integrator: the one process that holds a target and lands its entries."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import inf
from time import monotonic

from ...bus.doorbell import listen
from ...bus.heartbeats import OFFLINE
from ...git.branches.candidates import STRATEGIES
from ...git.remote_target import LIMIT_S, CheckTree, RemoteTarget, RemoteUnreachable
from ...git.sealed import named_repository
from ...git.target_refs import LocalTarget, TargetBusy
from ...git.trees.rescue import DoneHeads
from ...git.trees.tree_list import TreeBusy, TreeLocks
from ...git.trees.work_trees import WorkTrees
from ...schema.errors import BusBusy, InvalidInput, LeaseLost, Refused, shown
from ...schema.message.names import check_agent
from ...schema.message.times import format_ts
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ...subscribers.jobs.claims import Claims
from ...subscribers.jobs.errors import ClaimLost
from ...subscribers.queues.clock_back import ClockBack
from ...subscribers.queues.queue import Queue, claim_of
from ...workers.processes.own_child import StopSwitch
from ...workers.processes.supervisors import Supervisors
from ..agent_program import COOLDOWN_MS, JOB, WARM_UP, AttemptRule, BoundedAttempts
from ..records.task import lease_of_target
from ..roles.worker_name import StatusReporter
from ..steps.changes import Changes
from ..steps.messages import COMPLETIONS, integrators_of
from ..steps.tasks import Tasks
from .checks import CHECK_TIMEOUT_S, CheckCommand, NotStarted
from .entries import LandingEntry
from .lander import Lander, Stopped
from .landing_store import LandingStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from threading import Thread

    from ...bus.doorbell import Listener
    from ...bus.heartbeat_thread import Heart
    from ...bus.leases import Lease
    from ...bus.local_bus import LocalBus
    from ...git.branches.candidates import Strategy
    from ...git.branches.repositories import RepositoryPlace
    from ...subscribers.jobs.claims import Claim
    from .entries import LandingResult

# Holding a target: the lease of its one integrator, and the claims under it; a thread renews them.

#: How long the lease of an integrator, and its claims, last unless they are renewed, in seconds.
LEASE_S = 30.0


class TargetLease:
    """The lease of a target, and the claims of what is being integrated.

    Its creator holds the target's lock in the repository. So an earlier holder of the lease on this
    machine has ended, and its lease and claims are taken over at once.

    Args:
        bus: the bus.
        queue: the completions.
        repository, target: what the integrator works on.
        group: the worker group of the target's integrators.
        agent: the integrator.
        lease_s: how long lease and claims last, in seconds.
    """

    def __init__(
        self,
        bus: LocalBus,
        queue: Queue,
        repository: str,
        target: str,
        *,
        group: str,
        agent: str,
        lease_s: float = LEASE_S,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._name = lease_of_target(repository, target)
        self._group = group
        self._agent = agent
        self.lease_s = lease_s
        self._claims: dict[int, Claim] = {}
        self._lease: Lease | None = None
        self._done = threading.Event()
        self._thread: Thread | None = None

    def acquire(self) -> None:
        """Take the lease, and hand back the claims of an integrator that is gone.

        Raises:
            Refused: it is held on another machine.
        """
        lease = self._bus.leases.get(self._name)
        if lease is not None:
            with suppress(LeaseLost):
                self._bus.leases.release(lease)
        self._lease = self._bus.leases.acquire(self._name, self._agent, lease_s=self.lease_s)
        if self._lease is None:
            lease = self._bus.leases.get(self._name)
            until = "" if lease is None else f" by {lease.holder} until {format_ts(lease.until_ms)}"
            raise Refused(f"lease {self._name!r} is held{until}; wait, or end that integrator")
        self._sweep()

    def _sweep(self) -> None:
        """Hand back the jobs that a killed integrator had claimed: no attempt is counted."""
        for token, _ in Claims.of(self._bus).active(self._queue.info):
            queue, claim = claim_of(self._bus, token)
            if claim.group == self._group:
                with suppress(ClaimLost):  # it has run out: whoever claims next settles it
                    queue.release(claim, "its integrator was lost")

    def check(self) -> None:
        """Check that the target is still held; inside a transaction this fences its writes.

        Raises:
            LeaseLost: it is not.
        """
        assert self._lease is not None, self._name
        self._bus.leases.check(self._lease)

    def keep(self, claims: Sequence[Claim]) -> None:
        """Renew claims from now on."""
        self._claims.update((claim.token, claim) for claim in claims)

    def let_go(self, claim: Claim) -> None:
        """Stop renewing a claim; an unknown one is no error."""
        self._claims.pop(claim.token, None)

    def __enter__(self) -> TargetLease:
        self.acquire()
        self._thread = start_thread(self._run, f"keeper of {self._name}")
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if self._lease is not None:
            with suppress(LeaseLost):
                self._bus.leases.release(self._lease)

    def _run(self) -> None:
        try:
            while not self._done.wait(self.lease_s / 3):
                self._renew()
        finally:
            engine_of(self._bus).close_thread()

    def _renew(self) -> None:
        """Renew the lease and the claims; who uses one that is lost gets the error."""
        with suppress(LeaseLost, BusBusy):  # there is time for another try
            if self._lease is not None:
                self._bus.leases.renew(self._lease, lease_s=self.lease_s)
        for claim in list(self._claims.values()):
            with suppress(ClaimLost, BusBusy):
                self._queue.renew(claim, lease_s=self.lease_s)


# Claiming the next entries of an integrator, and handing back those without an end.


class EntryClaimer:
    """Claims entries of one target.

    Args:
        queue: the completions.
        group: the worker group of the target's integrators.
        rules, target_lease, store, heart: of the integrator.
    """

    def __init__(
        self,
        queue: Queue,
        group: str,
        rules: IntegratorRules,
        target_lease: TargetLease,
        store: LandingStore,
        heart: Heart,
    ) -> None:
        self._queue = queue
        self._group = group
        self._rules = rules
        self._target_lease = target_lease
        self._store = store
        self._report = StatusReporter(heart)

    def turn(self, lander: Lander) -> bool:
        """Integrate the next batch; return whether there was a batch."""
        claims = self._queue.claim(
            self._rules.agent,
            group=self._group,
            limit=self._rules.batch_size,
            lease_s=self._target_lease.lease_s,
        )
        if not claims:
            self._report("idle")
            return False
        self._target_lease.keep(claims)
        entries = [LandingEntry.of(claim.message, claim) for claim in claims]
        self._report("working", ", ".join(entry.name for entry in entries)[:200])
        try:
            lander.land(entries)
        except Stopped:
            return False
        finally:
            for claim in claims:
                self._target_lease.let_go(claim)
            self._hand_back(entries)
            self._report("idle")
        return True

    def _hand_back(self, entries: list[LandingEntry]) -> None:
        for entry in entries:
            if entry.claim is not None and self._queue.status(entry.claim) == "active":
                self._store.hand_back(entry, "its integrator could not go on")

    def tell_offline(self) -> None:
        """Tell that nothing is integrated for a while."""
        self._report(OFFLINE)


# The rules of one integrator.

#: The setting of git with the default checks; it may occur more than once.
CHECK_SETTING = "ackbus.check"

#: How many entries are tested together at most.
BATCH = 8

#: The default name of an integrator.
AGENT = "integrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegratorRules:
    """The rules of an integrator.

    Attributes:
        target: the branch that it integrates into.
        checks: the commands that must pass on each candidate.
        strategy: how a head becomes a candidate.
        check_timeout_s: how long each check may take.
        batch: how many entries are tested together at most.
        remote: the remote that the target is pushed to; None: the target is a branch here.
        push_timeout_s: how long a push with its hooks, and a fetch, may take.
        propose: a command that asks somebody else to move the target, instead of moving it.
        agent: the name of the integrator.
    """

    target: str = "main"
    checks: tuple[CheckCommand, ...] = ()
    strategy: Strategy = "merge"
    check_timeout_s: float = CHECK_TIMEOUT_S
    batch: int = BATCH
    remote: str | None = None
    push_timeout_s: float = LIMIT_S
    propose: str | None = None
    agent: str = AGENT

    def __post_init__(self) -> None:
        """Refuse what can be no rule."""
        check_agent(self.agent)
        if self.strategy not in STRATEGIES:
            raise InvalidInput(f"strategy must be {', '.join(STRATEGIES)}, not {self.strategy!r}")
        if not 1 <= self.batch <= 100:
            raise InvalidInput(f"a batch has 1 to 100 entries, not {self.batch}")
        if self.check_timeout_s <= 0:
            raise InvalidInput("the time limit of checks must be more than 0 s")
        if self.remote is not None and (not self.remote or self.remote.startswith("-")):
            raise InvalidInput(f"{shown(self.remote)} can be no remote")
        if any(not check.command.strip() for check in self.checks):
            raise InvalidInput("a check is empty")

    @property
    def batch_size(self) -> int:
        """The number of entries that are tested together: only the first can be a fast-forward."""
        return 1 if self.strategy == "ff" or self.propose is not None else self.batch

    def target_in(self, place: RepositoryPlace, lock_fd: int) -> LocalTarget:
        """Return the target in a repository; git's processes inherit the lock `lock_fd`.

        Raises:
            InvalidInput: git accepts no branch of this name.
        """
        place.branch_ref(self.target)
        if self.remote is None:
            return LocalTarget(place, self.target, (lock_fd,))
        return RemoteTarget(place, self.target, (lock_fd,), self.remote, self.push_timeout_s)


def checks_of(place: RepositoryPlace) -> tuple[CheckCommand, ...]:
    """Return the checks that the settings of a repository name; no commit can change them."""
    from ...git.repository import CommandFailed

    try:
        raw = place.git.run("config", "-z", "--get-all", CHECK_SETTING)
    except CommandFailed:  # not set
        return ()
    return tuple(CheckCommand(text) for text in raw.decode("utf-8", "replace").split("\0") if text)


#: How long the lock of another integrator is waited for, in seconds: it may be about to end.
_PATIENCE_S = 0.5

#: How long a run with `once` waits for a git process of a killed integrator, in seconds.
_LEFT_S = 120.0

#: The longest wait for news, and how often what was lost is looked for, in seconds.
_LOOK_S, _SETTLE_S = 1.0, 5.0

#: Errors that pass by themselves, and say nothing about an entry.
_TRANSIENT = (RemoteUnreachable, BusBusy, TreeBusy, NotStarted)


class Integrator:
    """Integrates into one target, as the only one of its repository.

    Args:
        bus: the bus.
        folder: a folder in the repository.
        rules: how it integrates.
        tell: called with each result.
        warn: called with what a person should know.
        lease_s: how long its lease lasts unless it is renewed, in seconds.
        warm_up, retries: how often something is tried that fails for the moment: before the first
            entry that was integrated, and after it.
        cooldown_ms: the rest after the last attempt, in milliseconds.
    """

    def __init__(
        self,
        bus: LocalBus,
        folder: str,
        rules: IntegratorRules,
        *,
        tell: Callable[[LandingResult], None] = lambda result: None,
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
                `once`, a git process that a killed integrator left still works after two minutes.
            TargetBusy: with `once`: a work tree of the target is not clean.
            RemoteUnreachable, BusBusy, TreeBusy, NotStarted: with `once`: what failed for the
                moment, after the last attempt.
        """
        Changes(self._bus).create_queues()
        with ExitStack() as stack:
            lock_fd = self._lock(stack, once)
            if lock_fd is None:
                return
            supervisors = stack.enter_context(Supervisors())
            tree = CheckTree(WorkTrees(self._place), self._rules.target)
            stack.callback(tree.remove)
            while not self._stop.is_set:
                try:
                    self._run_held(lock_fd, supervisors, tree, once)
                    return
                except LeaseLost as error:  # the machine slept, or somebody ended it
                    self._warn(f"{error}; beginning again")

    def _lock(self, stack: ExitStack, once: bool) -> int | None:
        """Take the lock of the target; None: the integrator was stopped while it waited.

        It waits for a git process that a killed integrator left, perhaps in a hook of the
        repository.
        """
        locks = TreeLocks(self._place.common_dir, wait_s=_PATIENCE_S)
        deadline = monotonic() + (_LEFT_S if once else inf)
        while True:
            try:
                return stack.enter_context(locks.of_target(self._rules.target))
            except TreeBusy as error:
                if not error.is_orphaned or monotonic() > deadline:
                    raise Refused(
                        f"another integrator works on {shown(self._rules.target)} of"
                        f" {self._place.main}, or a git that it started: {error}"
                    ) from error
                if self._stop.is_set:
                    return None
                self._warn_once(f"a killed integrator has left a git that is at work: {error}")

    def _run_held(
        self, lock_fd: int, supervisors: Supervisors, tree: CheckTree, once: bool
    ) -> None:
        rules, repository = self._rules, self._place.common_dir
        target = rules.target_in(self._place, lock_fd)
        group = integrators_of(repository, rules.target)
        queue = Queue.open(self._bus, COMPLETIONS)
        with (
            TargetLease(
                *(self._bus, queue, repository, rules.target),
                group=group,
                agent=rules.agent,
                lease_s=self._lease_s,
            ) as target_lease,
            self._bus.heart(rules.agent) as heart,
            listen(self._bus, self._stop) as listener,
        ):
            Tasks(self._bus).enter_again(repository, rules.target, agent=rules.agent)
            self._keep_heads(repository)
            store = LandingStore(
                self._bus, queue, target_lease, repository, rules.target, rules.agent
            )
            lander = Lander(
                *(self._bus, self._place, rules, store, target, tree, supervisors),
                stop=self._stop,
                tell=self._tell,
            )
            claimer = EntryClaimer(queue, group, rules, target_lease, store, heart)
            self._serve(claimer, lander, listener, once)

    def _keep_heads(self, repository: str) -> None:
        """Keep approved heads that were done away from the repository, where no ref was made."""
        approved = Tasks(self._bus).list(states=["APPROVED"])
        heads = [(task.task, task.head) for task in approved if task.repository == repository]
        DoneHeads(self._place).keep_missing((name, head) for name, head in heads if head)

    def _serve(self, claimer: EntryClaimer, lander: Lander, listener: Listener, once: bool) -> None:
        self._settle_at = 0.0
        while not self._stop.is_set:
            wait_s = _LOOK_S
            try:
                self._look_after(lander)
                lander.check_free()
                had_batch = claimer.turn(lander)
                self._attempts.end()
                if had_batch:
                    self._attempts = self._later_attempts
                    self._warned = ""
                    continue
                if once:
                    return
            except (TargetBusy, *_TRANSIENT) as error:
                wait_s = self._pause(error, claimer)
                if once and not self._attempts.attempt:
                    raise
                self._warn_once(str(error))
                self._settle_at = 0.0
            (listener.wait if wait_s <= _LOOK_S else listener.pause)(wait_s)

    def _look_after(self, lander: Lander) -> None:
        """Settle lost holders, overdue questions and intended landings, now and then."""
        if monotonic() < self._settle_at:
            return
        self._clock.look()
        lander.recover()
        tasks = Tasks(self._bus)
        tasks.settle_lost()
        tasks.settle_deadlines()
        self._settle_at = monotonic() + _SETTLE_S

    def _warn_once(self, words: str) -> None:
        """Warn of an obstacle, unless it was the last warning."""
        if words != self._warned:
            self._warned = words
            self._warn(words)

    def _pause(self, error: Exception, claimer: EntryClaimer) -> float:
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
        claimer.tell_offline()
        return self._attempts.offline_ms(now_ms) / 1000
