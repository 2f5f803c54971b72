"""Landing a batch: candidates, checks, and the move of the target; a batch that fails is halved."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from ...git.branches.candidates import (
    CandidateConflict,
    Candidates,
    NotSigned,
    contains,
    is_part,
    is_whole,
    last_changes,
    merge_bases,
    patch_id,
    way,
)
from ...git.repository import CommandFailed, GitFailed
from ...git.target_refs import TargetBusy, TargetMoved, TargetRefused
from ...git.trees.rescue import DoneHeads
from .checks import CheckResult, propose, run_check
from .entries import LandingEntry, MergedEntry, Ownership
from .landing_store import Stale

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...bus.local_bus import LocalBus
    from ...git.branches.candidates import Candidate, Strategy
    from ...git.branches.repositories import RepositoryPlace
    from ...git.remote_target import CheckTree
    from ...git.repository import Repository
    from ...git.target_refs import LocalTarget
    from ...workers.processes.own_child import StopSwitch
    from ...workers.processes.supervisors import Supervisors
    from ..records.task_table import Landing, Landings
    from .entries import LandingResult
    from .integrator import IntegratorRules
    from .landing_store import LandingStore

# The candidates of a batch: each is made onto the one before it.

#: For how many of the files that conflict the task that changed them last is looked up.
_MOST_FILES = 20


@dataclass
class CandidateStack:
    """A batch, sorted: what can be tested together, and what can't.

    Attributes:
        merged: the candidates, each made onto the one before it; the last contains all.
        contained: those of which the target has everything already.
        postponed: those that conflict with others of the batch alone.
        refused: those that can't land, each with the reason.
        unsigned: those whose candidate can't be signed now, each with the signer's words.
    """

    merged: list[MergedEntry] = field(default_factory=list)
    contained: list[MergedEntry] = field(default_factory=list)
    postponed: list[LandingEntry] = field(default_factory=list)
    refused: list[tuple[LandingEntry, CandidateConflict]] = field(default_factory=list)
    unsigned: list[tuple[LandingEntry, str]] = field(default_factory=list)


def stack_up(
    candidates: Candidates, entries: Iterable[LandingEntry], onto: str, strategy: Strategy
) -> CandidateStack:
    """Make the candidates of entries, in order.

    Args:
        candidates: makes them.
        entries: what is to land.
        onto: the commit that the target is at.
        strategy: how a head becomes a candidate.
    """
    stack, git, tip = CandidateStack(), candidates.git, onto
    for entry in entries:
        head = None if entry.head is None else git.commit(entry.head)
        if head is None:
            stack.refused.append(
                (entry, CandidateConflict((), f"there is no commit {entry.head or 'named'}"))
            )
            continue
        try:
            tip = _put_on(stack, candidates, entry, head, (onto, tip), strategy)
        except NotSigned as error:
            stack.unsigned.append((entry, str(error)))
        except CommandFailed as error:
            if is_whole(git, head, onto):
                raise  # not the entry's fault, but the machine's or the target's
            stack.refused.append(
                (entry, CandidateConflict((), f"git can't read all of it: {error.reason}"))
            )
    return stack


def _put_on(
    stack: CandidateStack,
    candidates: Candidates,
    entry: LandingEntry,
    head: str,
    bottom_and_tip: tuple[str, str],
    strategy: Strategy,
) -> str:
    """Make the candidate of an entry onto the tip of a stack; return the new tip."""
    onto, tip = bottom_and_tip
    git = candidates.git
    candidate = candidates.make(head, tip, strategy, entry.words, onto)
    if isinstance(candidate, CandidateConflict):
        _sort_out(stack, entry, candidate, is_first=tip == onto)
    elif candidate.commit == tip != onto:
        stack.postponed.append(entry)
    elif candidate.commit == tip:
        landed = _landed_as(candidate, git, head)
        stack.contained.append(MergedEntry(entry, head, landed, ""))
    elif (id := _approved_id(git, head, candidate)) is None:
        words = "the merge would change more than what was approved: rebase it onto the target"
        stack.refused.append((entry, CandidateConflict((), words)))
    else:
        stack.merged.append(MergedEntry(entry, head, candidate, id))
        return candidate.commit
    return tip


def _sort_out(
    stack: CandidateStack, entry: LandingEntry, conflict: CandidateConflict, *, is_first: bool
) -> None:
    if is_first:
        stack.refused.append((entry, conflict))
    else:
        stack.postponed.append(entry)


def _landed_as(candidate: Candidate, git: Repository, head: str) -> Candidate:
    """Return what an entry has landed as: the target has all of it."""
    if contains(git, candidate.commit, head):
        tree = git.run("rev-parse", f"{head}^{{tree}}").decode().strip()
        return type(candidate)(head, tree, candidate.onto)
    return candidate


def _approved_id(git: Repository, head: str, candidate: Candidate) -> str | None:
    """Return git's id of what a candidate changes; None: it is not what was approved.

    What the head changed since it left the target was approved. A candidate with a part of this
    change is fine: the target has the rest. The results of the user's merge drivers are trusted.
    """
    id = patch_id(git, candidate.onto, candidate.commit)
    bases = merge_bases(git, candidate.onto, head)
    pair = (candidate.onto, candidate.commit)
    if any(
        patch_id(git, base, head) == id or is_part(git, pair, (base, head), candidate.by_drivers)
        for base in bases
    ):
        return id
    return None


def authors_of(
    git: Repository,
    landings: Landings,
    where: tuple[str, str],
    pair: tuple[str, str],
    files: Sequence[str],
) -> dict[str, str]:
    """Return for files that conflict the task, or the branch, that last changed each.

    Args:
        git: the repository.
        landings: what has landed.
        where: the repository, and the target.
        pair: the commit of the target, and the head that conflicts with it.
        files: the files.
    """
    bases = merge_bases(git, *pair)
    if not bases:
        return {}
    authors: dict[str, str] = {}
    changed = last_changes(git, bases[0], pair[0], list(files[:_MOST_FILES]))
    for commit in set(changed.values()):
        path = way(git, commit, pair[0])
        landed = {
            landing.candidate: landing.task or landing.branch
            for landing in landings.of_commits(*where, path)
        }
        name = next((landed[ancestor] for ancestor in path if ancestor in landed), None)
        if name is not None:
            authors |= {file: name for file, last in changed.items() if last == commit}
    return authors


#: How often an entry is tried whose candidate can't be signed.
_SIGNING_TRIES = 2

#: How often the target may move while candidates are checked, before the integrator rests.
MOVES = 3


class Stopped(Exception):
    """The integrator was stopped; what it had not landed stays in the queue."""


class Lander:
    """Lands the entries of one target, which its integrator holds.

    Args:
        bus, place, rules, store, target, tree, supervisors: of the integrator.
        stop: ends a check early.
        tell: called with each result.
    """

    def __init__(
        self,
        bus: LocalBus,
        place: RepositoryPlace,
        rules: IntegratorRules,
        store: LandingStore,
        target: LocalTarget,
        tree: CheckTree,
        supervisors: Supervisors,
        stop: StopSwitch,
        tell: Callable[[LandingResult], None],
    ) -> None:
        self._bus = bus
        self._place = place
        self._rules = rules
        self._store = store
        self._target = target
        self._tree = tree
        self._supervisors = supervisors
        self._stop = stop
        self._tell = tell
        self._candidates = Candidates(place, check_out=tree.put)
        self._heads = DoneHeads(place)
        self._ownership = Ownership(bus, place)
        self._started: set[int] = set()
        self._failed: set[str] = set()  # the trees of batches that failed a check
        self._moves = 0  # how often others moved the target, one after another

    def check_free(self) -> None:
        """Check that the target could be moved now.

        Raises:
            TargetBusy: it can't be moved at present.
            Refused: there is no such branch.
        """
        self._target.check_free()

    def recover(self) -> None:
        """Find out what became of intended landings, and of proposed ones."""
        landings = self._store.landings.open(self._place.common_dir, self._rules.target)
        if not landings:
            return
        target_commit = self._target.pin()
        for landing in landings:
            has_landed = self._target.contains(target_commit, landing.candidate) or (
                landing.state == "proposed" and self._target.contains(target_commit, landing.head)
            )
            if has_landed:
                self._target.follow(landing.candidate)
                self._finish(landing)
            elif landing.state == "intended":
                self._target.mend(landing.candidate, landing.onto)
                self._store.abandon([landing])

    def _finish(self, landing: Landing) -> None:
        message = self._bus.get(landing.completion_seq)
        if message is not None:
            self._tell(self._landed(LandingEntry.of(message), landing))

    def _landed(self, entry: LandingEntry, landing: Landing, reason: str = "") -> LandingResult:
        """Record that an entry has landed; its head needs no ref of its own any more."""
        result = self._store.landed(entry, landing, reason)
        self._heads.landed(entry.task, self._rules.target, landing.head)
        return result

    def land(self, entries: Sequence[LandingEntry]) -> None:
        """Land what can land of some entries; each of them has its end, or stays in the queue.

        Raises:
            Stopped: the integrator was stopped.
            TargetBusy: the target can't be moved at present.
            RemoteUnreachable: the remote does not answer.
            LeaseLost: the target is not held any more.
        """
        entries = [entry for entry in entries if not self._is_over(entry)]
        while entries:
            onto = self._target.pin()
            self._start(entries, onto)
            rules = self._rules
            stack = stack_up(self._candidates, entries, onto, rules.strategy)
            for entry, conflict in stack.refused:
                self._tell(self._send_back(entry, conflict, onto))
            for entry, why in stack.unsigned:
                self._tell(self._store.retry(entry, why, most=_SIGNING_TRIES))
            self._close_contained(stack)
            if stack.merged:
                self._land_stack(stack.merged)
            entries = stack.postponed

    def _start(self, entries: Sequence[LandingEntry], onto: str) -> None:
        new = [entry for entry in entries if entry.message.seq not in self._started]
        self._started.update(entry.message.seq for entry in new)
        if new:
            self._store.start(new, onto)

    def _is_over(self, entry: LandingEntry) -> bool:
        """End an entry that has landed, or may not land any more; return whether it has ended."""
        for landing in self._landings_of(entry):
            if landing.completion_seq == entry.message.seq and (
                landing.state == "landed"
                or self._target.contains(self._target.pin(), landing.candidate)
            ):
                is_new = landing.state != "landed"
                result = self._landed(entry, landing)
                if is_new:
                    self._tell(result)
                return True
        reason = self._store.obstacle(entry)
        reason = reason or self._ownership.obstacle(entry, self._target.pin())
        if reason is not None:
            self._tell(self._store.refuse(entry, "rejected", reason))
        return reason is not None

    def _landings_of(self, entry: LandingEntry) -> list[Landing]:
        head = None if entry.head is None else self._place.git.commit(entry.head)
        if head is None:
            return []
        return self._store.landings.of_head(self._place.common_dir, self._rules.target, head)

    def _close_contained(self, stack: CandidateStack) -> None:
        """End the entries that the target has already."""
        for merged in stack.contained:
            (landing,) = self._store.intend([merged], ())
            reason = f"{self._rules.target} had it already: nothing was moved, or checked"
            self._tell(self._landed(merged.entry, landing, reason))

    def _send_back(
        self, entry: LandingEntry, conflict: CandidateConflict, onto: str
    ) -> LandingResult:
        """End the attempt of an entry that has no candidate, unless the target moved meanwhile."""
        if self._target.pin() != onto:
            return self._store.requeue(entry, f"{self._rules.target} was moved meanwhile")
        return self._store.refuse(
            entry,
            "conflict" if conflict.is_conflict else "rejected",
            conflict.reason,
            conflict.files,
            self._authors(entry, conflict, onto),
        )

    def _authors(
        self, entry: LandingEntry, conflict: CandidateConflict, onto: str
    ) -> dict[str, str]:
        if not conflict.files or entry.head is None:
            return {}
        where = (self._place.common_dir, self._rules.target)
        pair = (onto, entry.head)
        return authors_of(self._place.git, self._store.landings, where, pair, conflict.files)

    def _land_stack(self, batch: Sequence[MergedEntry]) -> None:
        tree = batch[-1].candidate.tree
        if len(batch) > 1 and tree in self._failed:
            # The same files failed in a larger batch, of which the first half has landed meanwhile.
            self._halve(batch)
            return
        results = self._check(batch)
        failed = next((result for result in results if not result.has_passed), None)
        if failed is None:
            self._move(batch, results)
        elif len(batch) == 1:
            words = f"check {failed.command!r} failed: {failed.reason}"
            last_line = f": {failed.last_line[:300]}" if failed.last_line else ""
            self._tell(self._store.refuse(batch[0].entry, "check_failed", words + last_line))
        else:
            self._failed.add(tree)
            self._halve(batch)

    def _halve(self, batch: Sequence[MergedEntry]) -> None:
        half = len(batch) // 2
        self.land([merged.entry for merged in batch[:half]])
        self.land([merged.entry for merged in batch[half:]])

    def _check(self, batch: Sequence[MergedEntry]) -> list[CheckResult]:
        """Check the last candidate, which contains all; no check runs after one that fails."""
        results: list[CheckResult] = []
        if not self._rules.checks:
            return results
        candidate = batch[-1].candidate
        try:
            folder = self._tree.put(candidate.commit)
        except GitFailed as error:
            self._tree.put(batch[0].candidate.onto)  # raises if no entry is to blame
            failed = CheckResult("git checkout", None, 0, str(error), "", 1)
            self._store.tell_check(batch, candidate.commit, failed)
            return [failed]
        restore = partial(self._tree.restore, candidate.commit)
        for check in self._rules.checks:
            if results:
                restore()
            result = run_check(
                check,
                folder,
                self._environment(batch[-1]),
                timeout_s=self._rules.check_timeout_s,
                stop=self._stop,
                supervisors=self._supervisors,
                restore=restore,
            )
            if result.was_stopped:
                raise Stopped
            self._store.tell_check(batch, candidate.commit, result)
            results.append(result)
            if not result.has_passed:
                break
        return results

    def _environment(self, merged: MergedEntry) -> dict[str, str]:
        return {
            "BUS_DIR": self._bus.directory,
            "BUS_TASK": merged.entry.task or "",
            "BUS_BRANCH": merged.entry.branch,
            "BUS_HEAD": merged.head,
            "BUS_CANDIDATE": merged.candidate.commit,
            "BUS_ONTO": merged.candidate.onto,
            "BUS_TARGET": self._rules.target,
        }

    def _move(self, batch: Sequence[MergedEntry], results: Sequence[CheckResult]) -> None:
        """Move the target to the last candidate, and tell what came of it."""
        if self._stop.is_set:
            raise Stopped
        first, last = batch[0].candidate, batch[-1].candidate
        try:
            landings = self._store.intend(batch, results)
        except Stale as stale:
            stale_seqs = {entry.message.seq for entry, _ in stale.entries}
            for entry, reason in stale.entries:
                self._tell(self._store.refuse(entry, "rejected", reason))
            self.land(
                [merged.entry for merged in batch if merged.entry.message.seq not in stale_seqs]
            )
            return
        if self._rules.propose is not None:
            self._propose(batch[0], landings[0])
            return
        names = ", ".join(merged.entry.name for merged in batch)
        try:
            self._target.move(last.commit, first.onto, f"bus integrate: {names}")
        except TargetMoved as error:
            self._store.abandon(landings)
            for merged in batch:
                self._tell(self._store.requeue(merged.entry, str(error)))
            self._rest_if_it_moves_on(str(error))
        except TargetBusy:
            self._store.abandon(landings)
            raise
        except TargetRefused as error:
            self._store.abandon(landings)
            if len(batch) > 1:
                self._halve(batch)
            else:
                self._tell(self._store.refuse(batch[0].entry, "rejected", str(error)))
        else:
            self._moves = 0
            for merged, landing in zip(batch, landings, strict=True):
                self._tell(self._landed(merged.entry, landing))

    def _rest_if_it_moves_on(self, reason: str) -> None:
        """Pause while others move the target faster than candidates are checked.

        Raises:
            TargetBusy: it was moved `MOVES` times in a row; the entries wait in the queue.
        """
        self._moves += 1
        if self._moves >= MOVES:
            self._moves = 0
            raise TargetBusy(f"{reason}, {MOVES} times in a row; it is tried again")

    def _propose(self, merged: MergedEntry, landing: Landing) -> None:
        assert self._rules.propose is not None, merged
        refused = propose(
            self._rules.propose,
            self._place.main,
            self._environment(merged) | {"BUS_TITLE": merged.entry.words.partition("\n")[0]},
            stop=self._stop,
            supervisors=self._supervisors,
        )
        if refused is None:
            self._tell(self._store.propose(landing, merged.entry))
            return
        self._store.abandon([landing])
        if self._stop.is_set:
            raise Stopped
        self._tell(self._store.refuse(merged.entry, "rejected", refused))
