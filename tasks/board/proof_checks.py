"""The checks of a landing: whether log, table and git agree about it."""

from __future__ import annotations

from ...bus.trust.keys import Keyring
from ...bus.trust.verification_checks import Counts, SignatureCheck
from ...git.branches.repositories import repository_at
from ...git.repository import CommandFailed, GitFailed
from ..records.landings import Landings
from ..steps.fold import fold
from ..steps.messages import STATE_CHANGE
from .difference import is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...bus.bus import Bus
    from ...git.repository import Repository
    from ...schema.message.message import Message
    from ..records.task import Task
    from .proof import Evidence


def problems_of(bus: Bus, evidence: Evidence) -> list[str]:
    """Return what does not agree about a landing; empty where all does."""
    return [
        *_with_table(evidence),
        *_with_landings(bus, evidence),
        *_with_review(evidence),
        *_with_integration(evidence),
        *_with_git(evidence),
        *_with_signatures(bus, evidence),
    ]


def _with_table(evidence: Evidence) -> Iterator[str]:
    folded = fold(evidence.messages)
    for message in folded.foreign:
        yield f"message {message.seq} from {message.from_agent} is no step of this task"
    summed = folded.tasks.get(evidence.task.task)
    if summed is None:
        yield "the log does not have the beginning of this task"
    elif not is_same(evidence.task, summed):
        yield "the messages of this task do not add up to what the table says"
    if evidence.task.unproven:
        yield "the task is unproven: its row was made of messages, and nobody confirmed it"


def _with_landings(bus: Bus, evidence: Evidence) -> Iterator[str]:
    """The messages of an integrator are believed where its row, in the same transaction, is there.

    Anybody can publish messages of their types.
    """
    task = evidence.task
    rows = [
        each
        for each in Landings.of(bus).of_task(task.task)
        if (each.attempt, each.candidate, each.state) == (task.attempt, task.commit_id, "landed")
    ]
    if not rows:
        yield "no integrator has recorded that this commit landed"
    intents = {each.seq for each in _of_last(evidence, "integration_intent")}
    if rows and not any(each.seq in intents for each in rows):
        yield "the log does not have the intent that the integrator recorded"


def _with_review(evidence: Evidence) -> Iterator[str]:
    task = evidence.task
    if task.review == "none":
        return
    approvals = [
        message
        for message in _of_last(evidence, "review_result")
        if message.payload.get("result") == "approved"
    ]
    if not approvals:
        yield "no approval of the last attempt is on record"
    elif task.review == "other" and (
        task.worker in _approvers(evidence)
        or all(each.from_agent == task.worker for each in approvals)
    ):
        yield f"only its worker {task.worker} has approved it"


def _approvers(evidence: Evidence) -> set[str]:
    """Return who made the last attempt APPROVED: by the steps, whatever reviews say."""
    foreign = {message.seq for message in fold(evidence.messages).foreign}
    return {
        message.from_agent
        for message in _of_last(evidence, STATE_CHANGE)
        if message.payload.get("to") == "APPROVED" and message.seq not in foreign
    }


def _with_integration(evidence: Evidence) -> Iterator[str]:
    commit = evidence.task.commit_id
    intents = _of_last(evidence, "integration_intent")
    intent = next((each for each in intents if each.payload.get("candidate") == commit), None)
    if intent is None:
        yield "no intent of an integrator for this commit is on record"
        return
    outcomes = _of_last(evidence, "integration_outcome")
    if not any(
        each.seq > intent.seq
        and (each.payload.get("outcome"), each.payload.get("commit")) == ("landed", commit)
        for each in outcomes
    ):
        yield "no outcome says that this commit has landed"
    # Of a batch the last commit was checked; a check that is known to be flaky is run once more.
    checked = (commit, intent.payload.get("moves_to", commit))
    last: dict[str, Any] = {}
    for check in _of_last(evidence, "check_result"):
        if check.seq < intent.seq and check.payload.get("candidate", commit) in checked:
            last[str(check.payload.get("command"))] = check.payload.get("exit")
    for command, code in last.items():
        if code != 0:
            yield f"the check {command!r} ended with {code}, and the commit landed all the same"


def _with_git(evidence: Evidence) -> Iterator[str]:
    task = evidence.task
    try:
        yield from _with_repository(repository_at(task.repository), task, evidence)
    except GitFailed as error:
        yield f"git: {error}"


def _with_repository(repository: Repository, task: Task, evidence: Evidence) -> Iterator[str]:
    commit, target = task.commit_id or "", f"refs/heads/{task.target}"
    known, tip = repository.commits([commit, target])
    if known != commit:
        yield f"git has no commit {commit}"
        return
    tree = repository.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    for intent in _of_last(evidence, "integration_intent"):
        says = intent.payload
        if says.get("candidate") == commit and says.get("tree", tree) != tree:
            yield f"git has another tree at {commit} than the one that was checked"
    if tip is None:
        yield f"git has no branch {task.target}"
    elif not _contains(repository, tip, commit):
        yield f"branch {task.target} does not have {commit}"


def _contains(repository: Repository, tip: str, commit: str) -> bool:
    try:
        repository.run("merge-base", "--is-ancestor", commit, tip)
    except CommandFailed as error:
        if error.code != 1:
            raise
        return False
    return True


def _with_signatures(bus: Bus, evidence: Evidence) -> Iterator[str]:
    check = SignatureCheck(Keyring(), Counts(), strict=False, earlier=lambda agent: ())
    for message in evidence.messages:
        problem = check.of(message)
        if problem is not None:
            yield problem.text


def _of_last(evidence: Evidence, type: str) -> list[Message]:
    """Return the messages of a type about the last attempt."""
    return [
        message
        for message in evidence.of_types(type)
        if isinstance(message.payload, dict)
        and message.payload.get("attempt", evidence.task.attempt) == evidence.task.attempt
    ]
