"""Landing a batch: candidates, checks, and the move of the target; halved where one is at fault."""

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
from .book import Stale
from .checks import CheckResult, propose, run_check
from .entries import Entry, Made, Ownership

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...bus.bus import Bus
    from ...git.branches.candidates import Candidate, Strategy
    from ...git.branches.repositories import RepositoryPlace
    from ...git.remote_target import CheckTree
    from ...git.repository import Repository
    from ...git.target_refs import LocalTarget
    from ...workers.processes.stop_switch import StopSwitch
    from ...workers.processes.supervisors import Supervisors
    from ..records.task_table import Landing, Landings
    from .book import Book
    from .entries import Result
    from .integrator import Rules

# The candidates of a batch: each is made onto the one before it.

#: Of how many files that conflict it is looked up which task changed them last.
_MOST_FILES = 20


@dataclass
class Stack:
    """A batch, sorted: what can be tested together, and what can't.

    Attributes:
        made: the candidates, each made onto the one before it; the last contains all.
        there: those of which the target has everything already.
        later: those that conflict with others of the batch alone.
        wrong: those that can't land, each with the reason.
        unsigned: those whose candidate can't be signed now, each with the signer's words.
    """

    made: list[Made] = field(default_factory=list)
    there: list[Made] = field(default_factory=list)
    later: list[Entry] = field(default_factory=list)
    wrong: list[tuple[Entry, CandidateConflict]] = field(default_factory=list)
    unsigned: list[tuple[Entry, str]] = field(default_factory=list)


def stack_up(
    candidates: Candidates, entries: Iterable[Entry], onto: str, strategy: Strategy
) -> Stack:
    """Make the candidates of entries, in order.

    Args:
        candidates: makes them.
        entries: what is to land.
        onto: the commit that the target is at.
        strategy: how a head becomes a candidate.
    """
    stack, git, tip = Stack(), candidates.git, onto
    for entry in entries:
        head = None if entry.head is None else git.commit(entry.head)
        if head is None:
            stack.wrong.append(
                (entry, CandidateConflict((), f"there is no commit {entry.head or 'named'}"))
            )
            continue
        try:
            tip = _put_on(stack, candidates, entry, head, (onto, tip), strategy)
        except NotSigned as error:
            stack.unsigned.append((entry, str(error)))
        except CommandFailed as error:
            if is_whole(git, head, onto):
                raise  # the machine's trouble, or the target's
            stack.wrong.append(
                (entry, CandidateConflict((), f"git can't read all of it: {error.reason}"))
            )
    return stack


def _put_on(
    stack: Stack,
    candidates: Candidates,
    entry: Entry,
    head: str,
    bottom_and_tip: tuple[str, str],
    strategy: Strategy,
) -> str:
    """Make the candidate of an entry onto the tip of a stack; return the tip then."""
    onto, tip = bottom_and_tip
    git = candidates.git
    made = candidates.make(head, tip, strategy, entry.words, onto)
    if isinstance(made, CandidateConflict):
        _sort_out(stack, entry, made, is_first=tip == onto)
    elif made.commit == tip != onto:
        stack.later.append(entry)
    elif made.commit == tip:
        stack.there.append(Made(entry, head, _at(made, git, head), ""))
    elif (id := _approved_id(git, head, made)) is None:
        words = "the merge would change more than what was approved: rebase it onto the target"
        stack.wrong.append((entry, CandidateConflict((), words)))
    else:
        stack.made.append(Made(entry, head, made, id))
        return made.commit
    return tip


def _sort_out(stack: Stack, entry: Entry, conflict: CandidateConflict, *, is_first: bool) -> None:
    if is_first:
        stack.wrong.append((entry, conflict))
    else:
        stack.later.append(entry)


def _at(candidate: Candidate, git: Repository, head: str) -> Candidate:
    """Return what an entry has landed as, where the target has all of it."""
    if contains(git, candidate.commit, head):
        tree = git.run("rev-parse", f"{head}^{{tree}}").decode().strip()
        return type(candidate)(head, tree, candidate.onto)
    return candidate


def _approved_id(git: Repository, head: str, candidate: Candidate) -> str | None:
    """Return git's id of what a candidate changes; None: it is not what was approved.

    Approved is what the head changed since it left the target. A part of it is all right: the
    target has the rest. What the user's drivers make of files is the user's word.
    """
    id = patch_id(git, candidate.onto, candidate.commit)
    bases = merge_bases(git, candidate.onto, head)
    made = (candidate.onto, candidate.commit)
    if any(
        patch_id(git, base, head) == id or is_part(git, made, (base, head), candidate.by_drivers)
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
    found: dict[str, str] = {}
    changed = last_changes(git, bases[0], pair[0], list(files[:_MOST_FILES]))
    for commit in set(changed.values()):
        path = way(git, commit, pair[0])
        there = {
            landing.candidate: landing.task or landing.branch
            for landing in landings.of_commits(*where, path)
        }
        name = next((there[each] for each in path if each in there), None)
        if name is not None:
            found |= {file: name for file, last in changed.items() if last == commit}
    return found


#: How often an entry is tried whose candidate can't be signed.
_SIGNING_TRIES = 2

#: How often the target may move while candidates are checked, before the integrator rests.
MOVES = 3


class Stopped(Exception):
    """The integrator was told to stop; what it had not landed stays in the queue."""


class Lander:
    """Lands the entries of one target, which its integrator holds.

    Args:
        bus, place, rules, book, target, tree, supervisors: of the integrator.
        stop: ends a check early.
        tell: called with each result.
    """

    def __init__(
        self,
        bus: Bus,
        place: RepositoryPlace,
        rules: Rules,
        book: Book,
        target: LocalTarget,
        tree: CheckTree,
        supervisors: Supervisors,
        stop: StopSwitch,
        tell: Callable[[Result], None],
    ) -> None:
        self._bus = bus
        self._place = place
        self._rules = rules
        self._book = book
        self._target = target
        self._tree = tree
        self._supervisors = supervisors
        self._stop = stop
        self._tell = tell
        self._candidates = Candidates(place, check_out=tree.put)
        self._heads = DoneHeads(place)
        self._ownership = Ownership(bus, place)
        self._started: set[int] = set()
        self._failed: set[str] = set()  # trees of batches
        self._moves = 0  # of the target by others, one after another

    def check_free(self) -> None:
        """Check that the target could be moved now.

        Raises:
            TargetBusy: it could not.
            Refused: there is no such branch.
        """
        self._target.check_free()

    def recover(self) -> None:
        """Find out what became of what was intended, and of what others were asked to land."""
        open_ones = self._book.landings.open(self._place.common_dir, self._rules.target)
        if not open_ones:
            return
        at = self._target.pin()
        for landing in open_ones:
            is_there = self._target.contains(at, landing.candidate) or (
                landing.state == "proposed" and self._target.contains(at, landing.head)
            )
            if is_there:
                self._target.follow(landing.candidate)
                self._finish(landing)
            elif landing.state == "intended":
                self._target.mend(landing.candidate, landing.onto)
                self._book.abandon([landing])

    def _finish(self, landing: Landing) -> None:
        message = self._bus.get(landing.completion_seq)
        if message is not None:
            self._tell(self._landed(Entry.of(message), landing))

    def _landed(self, entry: Entry, landing: Landing, reason: str = "") -> Result:
        """Record that an entry has landed; its head needs no ref of its own any more."""
        result = self._book.landed(entry, landing, reason)
        self._heads.landed(entry.task, self._rules.target, landing.head)
        return result

    def land(self, entries: Sequence[Entry]) -> None:
        """Land what can land of some entries; each of them has its end, or stays in the queue.

        Raises:
            Stopped: the integrator was told to stop.
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
            for entry, conflict in stack.wrong:
                self._tell(self._send_back(entry, conflict, onto))
            for entry, why in stack.unsigned:
                self._tell(self._book.retry(entry, why, most=_SIGNING_TRIES))
            self._close_there(stack)
            if stack.made:
                self._land_stack(stack.made)
            entries = stack.later

    def _start(self, entries: Sequence[Entry], onto: str) -> None:
        new = [entry for entry in entries if entry.message.seq not in self._started]
        self._started.update(entry.message.seq for entry in new)
        if new:
            self._book.start(new, onto)

    def _is_over(self, entry: Entry) -> bool:
        """End an entry that has landed before, or may not land any more; return whether it was."""
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
        reason = self._book.obstacle(entry)
        reason = reason or self._ownership.obstacle(entry, self._target.pin())
        if reason is not None:
            self._tell(self._book.refuse(entry, "rejected", reason))
        return reason is not None

    def _landings_of(self, entry: Entry) -> list[Landing]:
        head = None if entry.head is None else self._place.git.commit(entry.head)
        if head is None:
            return []
        return self._book.landings.of_head(self._place.common_dir, self._rules.target, head)

    def _close_there(self, stack: Stack) -> None:
        """End what the target has already."""
        for made in stack.there:
            (landing,) = self._book.intend([made], ())
            reason = f"{self._rules.target} had it already: nothing was moved, or checked"
            self._tell(self._landed(made.entry, landing, reason))

    def _send_back(self, entry: Entry, conflict: CandidateConflict, onto: str) -> Result:
        """End the attempt of an entry that has no candidate, unless the target moved meanwhile."""
        if self._target.pin() != onto:
            return self._book.requeue(entry, f"{self._rules.target} was moved meanwhile")
        return self._book.refuse(
            entry,
            "conflict" if conflict.is_conflict else "rejected",
            conflict.reason,
            conflict.files,
            self._authors(entry, conflict, onto),
        )

    def _authors(self, entry: Entry, conflict: CandidateConflict, onto: str) -> dict[str, str]:
        if not conflict.files or entry.head is None:
            return {}
        where = (self._place.common_dir, self._rules.target)
        pair = (onto, entry.head)
        return authors_of(self._place.git, self._book.landings, where, pair, conflict.files)

    def _land_stack(self, made: Sequence[Made]) -> None:
        tree = made[-1].candidate.tree
        if len(made) > 1 and tree in self._failed:  # the half before it has landed meanwhile
            self._halve(made)
            return
        results = self._check(made)
        failed = next((each for each in results if not each.has_passed), None)
        if failed is None:
            self._move(made, results)
        elif len(made) == 1:
            words = f"check {failed.command!r} failed: {failed.reason}"
            last = f": {failed.last_line[:300]}" if failed.last_line else ""
            self._tell(self._book.refuse(made[0].entry, "check_failed", words + last))
        else:
            self._failed.add(tree)
            self._halve(made)

    def _halve(self, made: Sequence[Made]) -> None:
        half = len(made) // 2
        self.land([each.entry for each in made[:half]])
        self.land([each.entry for each in made[half:]])

    def _check(self, made: Sequence[Made]) -> list[CheckResult]:
        """Check the last candidate, which contains all; the first check that fails ends it."""
        results: list[CheckResult] = []
        if not self._rules.checks:
            return results
        candidate = made[-1].candidate
        try:
            folder = self._tree.put(candidate.commit)
        except GitFailed as error:
            self._tree.put(made[0].candidate.onto)  # where it fails too, no entry is to blame
            failed = CheckResult("git checkout", None, 0, str(error), "", 1)
            self._book.tell_check(made, candidate.commit, failed)
            return [failed]
        restore = partial(self._tree.restore, candidate.commit)
        for check in self._rules.checks:
            if results:
                restore()
            result = run_check(
                check,
                folder,
                self._environment(made[-1]),
                timeout_s=self._rules.check_timeout_s,
                stop=self._stop,
                supervisors=self._supervisors,
                restore=restore,
            )
            if result.was_stopped:
                raise Stopped
            self._book.tell_check(made, candidate.commit, result)
            results.append(result)
            if not result.has_passed:
                break
        return results

    def _environment(self, made: Made) -> dict[str, str]:
        return {
            "BUS_DIR": self._bus.directory,
            "BUS_TASK": made.entry.task or "",
            "BUS_BRANCH": made.entry.branch,
            "BUS_HEAD": made.head,
            "BUS_CANDIDATE": made.candidate.commit,
            "BUS_ONTO": made.candidate.onto,
            "BUS_TARGET": self._rules.target,
        }

    def _move(self, made: Sequence[Made], results: Sequence[CheckResult]) -> None:
        """Move the target to the last candidate, and tell what came of it."""
        if self._stop.is_thrown:
            raise Stopped
        first, last = made[0].candidate, made[-1].candidate
        try:
            landings = self._book.intend(made, results)
        except Stale as stale:
            gone = {entry.message.seq for entry, _ in stale.entries}
            for entry, reason in stale.entries:
                self._tell(self._book.refuse(entry, "rejected", reason))
            self.land([each.entry for each in made if each.entry.message.seq not in gone])
            return
        if self._rules.propose is not None:
            self._propose(made[0], landings[0])
            return
        names = ", ".join(each.entry.name for each in made)
        try:
            self._target.move(last.commit, first.onto, f"bus integrate: {names}")
        except TargetMoved as error:
            self._book.abandon(landings)
            for each in made:
                self._tell(self._book.requeue(each.entry, str(error)))
            self._rest_if_it_moves_on(str(error))
        except TargetBusy:
            self._book.abandon(landings)
            raise
        except TargetRefused as error:
            self._book.abandon(landings)
            if len(made) > 1:
                self._halve(made)
            else:
                self._tell(self._book.refuse(made[0].entry, "rejected", str(error)))
        else:
            self._moves = 0
            for each, landing in zip(made, landings, strict=True):
                self._tell(self._landed(each.entry, landing))

    def _rest_if_it_moves_on(self, reason: str) -> None:
        """Leave a target alone for a moment that others move faster than it is checked.

        Raises:
            TargetBusy: it was moved `MOVES` times in a row; the entries wait in the queue.
        """
        self._moves += 1
        if self._moves >= MOVES:
            self._moves = 0
            raise TargetBusy(f"{reason}, {MOVES} times in a row; it is tried again")

    def _propose(self, made: Made, landing: Landing) -> None:
        assert self._rules.propose is not None, made
        refused = propose(
            self._rules.propose,
            self._place.main,
            self._environment(made) | {"BUS_TITLE": made.entry.words.partition("\n")[0]},
            stop=self._stop,
            supervisors=self._supervisors,
        )
        if refused is None:
            self._tell(self._book.propose(landing, made.entry))
            return
        self._book.abandon([landing])
        if self._stop.is_thrown:
            raise Stopped
        self._tell(self._book.refuse(made.entry, "rejected", refused))
