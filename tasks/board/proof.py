"""The past of tasks: the board at an earlier time, and the proof of a landing.

A proof is made of the messages of the log up to COMPLETED, and of git, so that it can be made again
at any time and compared.
"""

from __future__ import annotations

import hashlib
import heapq
import hmac
from dataclasses import dataclass, replace
from operator import attrgetter

from ...bus.log.append import Imports
from ...bus.signing import Keyring, sign
from ...bus.verification import SignatureCheck, VerificationCounts
from ...git.repository import CommandFailed, GitFailed
from ...git.sealed import TrustedRepositories, sealed_around
from ...schema.errors import NotFound, Refused
from ...schema.message.canonical_json import encode
from ...schema.message.times import format_ts
from ..records.task_table import Landings, TaskTable
from ..steps.messages import FOLDED, QUEUES, REQUESTS, STATE_CHANGE, Fold, TaskNotFound, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...bus.local_bus import LocalBus
    from ...git.repository import Repository
    from ...schema.message.message import Message
    from ..records.task import Task

# The tasks as they were at any place of the log: the sum of the messages up to it.


def fold_at(bus: LocalBus, seq: int | None = None) -> Fold:
    """Return the tasks as they were when a message was the newest; None: as they are.

    Raises:
        SegmentMissing: a part of the archive that is needed can't be read.
    """
    return Fold().add_all(messages_of_tasks(bus, seq))


def seq_at(bus: LocalBus, at_ms: int) -> int:
    """Return the seq of the newest change of a task at a time, in epoch milliseconds; 0: none.

    Raises:
        NotFound: that time has yet to come.
    """
    if at_ms > bus.now_ms():
        raise NotFound("that time has yet to come; give a seq or a time of the past")
    seqs = [message.seq for message in messages_of_tasks(bus) if message.ts_ms <= at_ms]
    return max(seqs, default=0)


def messages_of_tasks(bus: LocalBus, upto_seq: int | None = None) -> Iterator[Message]:
    """Yield the messages that make the tasks, in order."""
    return heapq.merge(
        *(bus.read(type=type, upto_seq=upto_seq) for type in FOLDED), key=attrgetter("seq")
    )


# The table of tasks against what the log says: a row that is there is never made of messages.
#
# Anybody can publish a message of any form. So the log only shows: rows that are lost come back
# from it as unproven, until a person confirms each.

#: The errors of reading a row that no program of ours has stored.
_NONSENSE = (LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class TableDifference:
    """The difference between the table and the messages.

    Attributes:
        count: how many tasks there are.
        lost: the tasks of the log whose rows are missing or can't be read, as their messages make
            them: unproven.
        unknown: the names of rows of which the log lacks the beginning, or the newest messages.
        differs: the names of rows that say something else than the messages.
        foreign: the messages that are no step of a task: its row stands without them.
    """

    count: int
    lost: tuple[Task, ...]
    unknown: tuple[str, ...]
    differs: tuple[str, ...]
    foreign: tuple[Message, ...]


def difference(bus: LocalBus) -> TableDifference:
    """Compare the whole table with all messages.

    The tasks of another bus, whose log was imported, have no rows here, and are left out.

    Raises:
        SegmentMissing: a part of the archive can't be read.
    """
    messages = list(messages_of_tasks(bus))
    of_this_bus, of_all = fold(_without_imports(bus, messages)), fold(messages)
    table, newest = TaskTable.of(bus), bus.log.newest_seq()
    names = table.names()
    lost, unknown, differs = [], [], []
    foreign = {message.seq: message for message in of_this_bus.foreign}
    for name in sorted({*names, *of_this_bus.tasks}):
        stored = _stored(table, name)
        sums = [folded.tasks[name] for folded in (of_this_bus, of_all) if name in folded.tasks]
        if stored is None:
            lost += [replace(task, unproven=True) for task in sums[:1]]
            unknown += [] if sums else [name]
        elif not any(is_same(stored, task) for task in sums):
            if (contrary := _contrary(stored, messages)) is not None:
                foreign |= {message.seq: message for message in contrary}
            elif not sums or sums[-1].last_seq < stored.last_seq <= newest:
                unknown.append(name)
            else:
                differs.append(name)
    in_order = tuple(foreign[seq] for seq in sorted(foreign))
    return TableDifference(len(names), tuple(lost), tuple(unknown), tuple(differs), in_order)


def is_same(stored: Task, from_log: Task) -> bool:
    """Whether a row equals its task as messages make it, but for fields that no message carries."""
    as_logged = replace(from_log, cleaned_at_ms=stored.cleaned_at_ms, unproven=stored.unproven)
    return as_logged == stored


def _contrary(stored: Task, messages: list[Message]) -> list[Message] | None:
    """Return the messages of a task to leave out so that the log agrees with its row, or None.

    Messages after the newest step are no steps; one of the messages before it may be forged. None:
    whichever message is left out, they don't agree, and the real steps are unknown.
    """
    of_task = [message for message in messages if task_of(message) == stored.task]
    later = [m for m in of_task if m.seq > stored.last_seq and m.type == STATE_CHANGE]
    rest = [message for message in of_task if message not in later]
    for forged in (None, *rest[1:]):
        steps = fold(message for message in rest if message is not forged)
        from_log = steps.tasks.get(stored.task)
        if from_log is not None and is_same(stored, from_log):
            return [*steps.foreign, *([] if forged is None else [forged]), *later]
    return None


def task_of(message: Message) -> object:
    """Return the task that a message names, or None."""
    return message.payload.get("task") if isinstance(message.payload, dict) else None


def _without_imports(bus: LocalBus, messages: list[Message]) -> list[Message]:
    spans = Imports.of(bus).spans()
    return [
        message
        for message in messages
        if not any(first <= message.seq <= last for first, last in spans)
    ]


def store_unproven(bus: LocalBus, lost: tuple[Task, ...]) -> None:
    """Store tasks whose rows are lost, as their messages make them, for people to confirm.

    The triggers of the table refuse that: it is for repairs, which switch them off.
    """
    table = TaskTable.of(bus)
    for task in lost:
        table.put(replace(task, unproven=True))


def _stored(table: TaskTable, name: str) -> Task | None:
    try:
        return table.get(name)
    except _NONSENSE:
        return None


# The checks of a landing: whether log, table and git agree about it.


def problems_of(bus: LocalBus, evidence: LandingEvidence) -> list[str]:
    """Return what does not agree about a landing; empty where all does."""
    return [
        *_with_table(evidence),
        *_with_landings(bus, evidence),
        *_with_review(evidence),
        *_with_integration(evidence),
        *_with_git(bus, evidence),
        *_with_signatures(evidence),
    ]


def _with_table(evidence: LandingEvidence) -> Iterator[str]:
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


def _with_landings(bus: LocalBus, evidence: LandingEvidence) -> Iterator[str]:
    """Check that the integrator's landing row exists: it is stored with the messages.

    Anybody can publish messages of their types.
    """
    task = evidence.task
    rows = [
        landing
        for landing in Landings.of(bus).of_task(task.task)
        if (landing.attempt, landing.candidate, landing.state)
        == (task.attempt, task.commit_id, "landed")
    ]
    if not rows:
        yield "no integrator has recorded that this commit landed"
    intents = {message.seq for message in _of_last(evidence, "integration_intent")}
    if rows and not any(landing.seq in intents for landing in rows):
        yield "the log does not have the intent that the integrator recorded"


def _with_review(evidence: LandingEvidence) -> Iterator[str]:
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
        or all(approval.from_agent == task.worker for approval in approvals)
    ):
        yield f"only its worker {task.worker} has approved it"


def _approvers(evidence: LandingEvidence) -> set[str]:
    """Return the agents that approved the last attempt, by its steps and not by reviews."""
    foreign = {message.seq for message in fold(evidence.messages).foreign}
    return {
        message.from_agent
        for message in _of_last(evidence, STATE_CHANGE)
        if message.payload.get("to") == "APPROVED" and message.seq not in foreign
    }


def _with_integration(evidence: LandingEvidence) -> Iterator[str]:
    commit = evidence.task.commit_id
    intents = _of_last(evidence, "integration_intent")
    intent = next(
        (message for message in intents if message.payload.get("candidate") == commit), None
    )
    if intent is None:
        yield "no intent of an integrator for this commit is on record"
        return
    outcomes = _of_last(evidence, "integration_outcome")
    if not any(
        outcome.seq > intent.seq
        and (outcome.payload.get("outcome"), outcome.payload.get("commit")) == ("landed", commit)
        for outcome in outcomes
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


def _with_git(bus: LocalBus, evidence: LandingEvidence) -> Iterator[str]:
    task = evidence.task
    try:
        git = TrustedRepositories(bus.layout.directory).sealed(task.repository)
        yield from _with_repository(git, task, evidence)
    except GitFailed as error:
        yield f"git: {error}"


def _with_repository(
    repository: Repository, task: Task, evidence: LandingEvidence
) -> Iterator[str]:
    commit, target = task.commit_id or "", f"refs/heads/{task.target}"
    resolved, tip = repository.commits([commit, target])
    if resolved != commit:
        yield f"git has no commit {commit}"
        return
    tree = repository.run("rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()
    for intent in _of_last(evidence, "integration_intent"):
        intended = intent.payload
        if intended.get("candidate") == commit and intended.get("tree", tree) != tree:
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


def _with_signatures(evidence: LandingEvidence) -> Iterator[str]:
    check = SignatureCheck(Keyring(), VerificationCounts(), strict=False, earlier=lambda agent: ())
    for message in evidence.messages:
        problem = check.of(message)
        if problem is not None:
            yield problem.text


def _of_last(evidence: LandingEvidence, type: str) -> list[Message]:
    """Return the messages of a type about the last attempt."""
    return [
        message
        for message in evidence.of_types(type)
        if isinstance(message.payload, dict)
        and message.payload.get("attempt", evidence.task.attempt) == evidence.task.attempt
    ]


#: The version of the form.
FORM = "ackbus-landing-proof-1"

#: The fields about the making of a proof, and not about the landing.
_OF_MAKING = ("made_at", "made_by", "problems", "signature")


@dataclass(frozen=True, slots=True)
class LandingEvidence:
    """All that a proof of a task is made of.

    Attributes:
        task: the task, as the table has it.
        messages: those about it, up to the one that says COMPLETED.
    """

    task: Task
    messages: tuple[Message, ...]

    def of_types(self, *types: str) -> list[Message]:
        """Return the messages of these types."""
        return [message for message in self.messages if message.type in types]


def prove(bus: LocalBus, name: str, folder: str, *, agent: str | None = None) -> dict[str, Any]:
    """Return the landing proof of a task.

    Args:
        bus: an open bus.
        name: of the task, or of the commit as which it has landed.
        folder: in the repository that knows the commit.
        agent: its maker; it is signed if this agent has a key.

    Raises:
        NotFound: there is no such task.
        Refused: it has not landed.
    """
    task = _find(bus, name, folder)
    evidence = LandingEvidence(task, tuple(_messages_of(bus, task)))
    proof = _record(evidence)
    proof["problems"] = problems_of(bus, evidence)
    proof["made_at"], proof["made_by"] = format_ts(bus.now_ms()), agent
    key = None if agent is None else Keyring().newest(agent)
    proof["signature"] = None if key is None else sign(encode(proof), key)
    return proof


def verify(bus: LocalBus, proof: dict[str, Any]) -> list[str]:
    """Return what disagrees with the signature, the log or git.

    A proof without a signature does not show who made it, and is compared all the same.
    """
    if proof.get("form") != FORM:
        return [f"this is no landing proof: its form is not {FORM}"]
    problems = list(_wrong_signature(proof))
    try:
        current = prove(bus, str(proof.get("task")), ".")
    except (Refused, TaskNotFound) as error:
        return [*problems, str(error)]
    for field in dict.fromkeys((*current, *proof)):
        if field not in _OF_MAKING and current.get(field) != proof.get(field):
            problems.append(f"{field}: the proof does not say what the log and git say now")
    return [*problems, *current["problems"]]


def _find(bus: LocalBus, name: str, folder: str) -> Task:
    table = TaskTable.of(bus)
    task = table.get(name)
    if task is None:
        commit: str | None
        try:
            commit = sealed_around(folder).commits([name])[0]
        except GitFailed:
            commit = name
        task = None if commit is None else table.landed_as(commit)
    if task is None:
        raise TaskNotFound(
            f"no task is named {name!r}, or has landed as such a commit; see 'bus task list --all'"
        )
    if task.state != "COMPLETED":
        raise Refused(f"task {task.task!r} is {task.state}: it has not landed")
    return task


def _messages_of(bus: LocalBus, task: Task) -> Iterator[Message]:
    """Yield the messages about a task: those that name it, their answers, and what they answer."""
    messages = [
        message
        for message in bus.read(conversation=task.correlation_id, upto_seq=task.last_seq)
        if message.payload_error is None
    ]
    by_id = {message.id: message for message in messages}
    ids = {message.id for message in messages if _task_of(message) == task.task}
    for message in messages:  # answers to these, unless they are about another task
        if message.in_reply_to in ids and _task_of(message) is None:
            ids.add(message.id)
    for id in list(ids):
        parent = by_id[id].in_reply_to
        while parent in by_id and parent not in ids:
            ids.add(parent)
            parent = by_id[parent].in_reply_to
    request = QUEUES[REQUESTS]
    yield from (message for message in messages if message.id in ids or message.type == request)


def _task_of(message: Message) -> str | None:
    payload = message.payload
    named = payload.get("task") if isinstance(payload, dict) else None
    return named if isinstance(named, str) else None


def _record(evidence: LandingEvidence) -> dict[str, Any]:
    task = evidence.task
    of = evidence.of_types
    last = [
        message for message in evidence.messages if _attempt_of(message) in (None, task.attempt)
    ]
    return {
        "form": FORM,
        "task": task.task,
        "commit": task.commit_id,
        "target": task.target,
        "branch": task.branch,
        "base": task.base,
        "head": task.head,
        "worker": task.worker,
        "requester": task.requester,
        "attempt": task.attempt,
        "prompt": task.prompt,
        "request": [_message_record(message) for message in of(QUEUES[REQUESTS])],
        "plan": [_message_record(message) for message in of(QUEUES["jobs"])],
        "attempts": [_message_record(message) for message in of(STATE_CHANGE)],
        "reviews": [_message_record(message) for message in of("review_request", "review_result")],
        "checks": [_message_record(message) for message in last if message.type == "check_result"],
        "intent": [
            _message_record(message) for message in last if message.type == "integration_intent"
        ],
        "outcome": [
            _message_record(message) for message in last if message.type == "integration_outcome"
        ],
        "messages": [
            {"seq": message.seq, "id": message.id, "type": message.type, "sha256": _digest(message)}
            for message in evidence.messages
        ],
    }


def _attempt_of(message: Message) -> int | None:
    payload = message.payload
    attempt = payload.get("attempt") if isinstance(payload, dict) else None
    return attempt if isinstance(attempt, int) else None


def _message_record(message: Message) -> dict[str, Any]:
    return {
        "seq": message.seq,
        "at": format_ts(message.ts_ms),
        "by": message.from_agent,
        "to": message.to_agent,
        "type": message.type,
        "says": message.payload,
    }


def _digest(message: Message) -> str:
    return hashlib.sha256(message.to_line()).hexdigest()


def _wrong_signature(proof: dict[str, Any]) -> Iterator[str]:
    signature, agent = proof.get("signature"), proof.get("made_by")
    if signature is None:
        return
    signed = encode({name: value for name, value in proof.items() if name != "signature"})
    keys = Keyring().of(agent) if isinstance(agent, str) else []
    if not any(hmac.compare_digest(sign(signed, key), str(signature)) for key in keys):
        yield f"signature: it is not one of {agent} over this proof, by the keys that are here"
