"""A landing proof: one record of how a task became a commit, from the request to the outcome.

It is made of the messages of the log up to the one that says COMPLETED, and of git, so that it can
be made again at any time and compared.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from ...bus.trust.keys import Keyring
from ...bus.trust.signing import sign
from ...git.repository import GitFailed
from ...git.sealed import sealed_around
from ...schema.errors import Refused
from ...schema.message.canonical_json import encode
from ...schema.message.times import format_ts
from ..records.task_table import TaskTable
from ..steps.errors import TaskNotFound
from ..steps.messages import QUEUES, REQUESTS, STATE_CHANGE
from .proof_checks import problems_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..records.task import Task

#: The version of the form.
FORM = "ackbus-landing-proof-1"

#: The fields that tell of the making of a proof, and not of the landing.
_OF_MAKING = ("made_at", "made_by", "problems", "signature")


@dataclass(frozen=True, slots=True)
class Evidence:
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


def prove(bus: Bus, name: str, folder: str, *, agent: str | None = None) -> dict[str, Any]:
    """Return the landing proof of a task.

    Args:
        bus: an open bus.
        name: of the task, or of the commit as which it has landed.
        folder: in the repository that knows the commit.
        agent: who makes it; signed where there is a key of this agent.

    Raises:
        NotFound: there is no such task.
        Refused: it has not landed.
    """
    task = _find(bus, name, folder)
    evidence = Evidence(task, tuple(_messages_of(bus, task)))
    proof = _record(evidence)
    proof["problems"] = problems_of(bus, evidence)
    proof["made_at"], proof["made_by"] = format_ts(bus.now_ms()), agent
    key = None if agent is None else Keyring().newest(agent)
    proof["signature"] = None if key is None else sign(encode(proof), key)
    return proof


def verify(bus: Bus, proof: dict[str, Any]) -> list[str]:
    """Return what does not agree: with the signature, with the log, with git.

    A proof without a signature has nothing to say of who made it, and is compared all the same.
    """
    if proof.get("form") != FORM:
        return [f"this is no landing proof: its form is not {FORM}"]
    found = list(_wrong_signature(proof))
    try:
        again = prove(bus, str(proof.get("task")), ".")
    except (Refused, TaskNotFound) as error:
        return [*found, str(error)]
    for field in dict.fromkeys((*again, *proof)):
        if field not in _OF_MAKING and again.get(field) != proof.get(field):
            found.append(f"{field}: the proof does not say what the log and git say now")
    return [*found, *again["problems"]]


def _find(bus: Bus, name: str, folder: str) -> Task:
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


def _messages_of(bus: Bus, task: Task) -> Iterator[Message]:
    """Yield the messages about a task: those that name it, and all that they answer."""
    there = [
        message
        for message in bus.read(conversation=task.correlation_id, upto_seq=task.last_seq)
        if message.payload_error is None
    ]
    known = {message.id: message for message in there}
    wanted = {message.id for message in there if _task_of(message) == task.task}
    for message in there:  # what answers them, and is about no other task
        if message.in_reply_to in wanted and _task_of(message) is None:
            wanted.add(message.id)
    for id in list(wanted):
        parent = known[id].in_reply_to
        while parent in known and parent not in wanted:
            wanted.add(parent)
            parent = known[parent].in_reply_to
    request = QUEUES[REQUESTS]
    yield from (each for each in there if each.id in wanted or each.type == request)


def _task_of(message: Message) -> str | None:
    payload = message.payload
    named = payload.get("task") if isinstance(payload, dict) else None
    return named if isinstance(named, str) else None


def _record(evidence: Evidence) -> dict[str, Any]:
    task = evidence.task
    of = evidence.of_types
    last = [each for each in evidence.messages if _attempt_of(each) in (None, task.attempt)]
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
        "request": [_said(each) for each in of(QUEUES[REQUESTS])],
        "plan": [_said(each) for each in of(QUEUES["jobs"])],
        "attempts": [_said(each) for each in of(STATE_CHANGE)],
        "reviews": [_said(each) for each in of("review_request", "review_result")],
        "checks": [_said(each) for each in last if each.type == "check_result"],
        "intent": [_said(each) for each in last if each.type == "integration_intent"],
        "outcome": [_said(each) for each in last if each.type == "integration_outcome"],
        "messages": [
            {"seq": each.seq, "id": each.id, "type": each.type, "sha256": _digest(each)}
            for each in evidence.messages
        ],
    }


def _attempt_of(message: Message) -> int | None:
    payload = message.payload
    attempt = payload.get("attempt") if isinstance(payload, dict) else None
    return attempt if isinstance(attempt, int) else None


def _said(message: Message) -> dict[str, Any]:
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
    said = encode({name: value for name, value in proof.items() if name != "signature"})
    keys = Keyring().of(agent) if isinstance(agent, str) else []
    if not any(hmac.compare_digest(sign(said, key), str(signature)) for key in keys):
        yield f"signature: it is not one of {agent} over this proof, by the keys that are here"
