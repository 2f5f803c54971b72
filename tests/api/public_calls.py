"""Public calls, each with right arguments, and the wrong values of each of their parameters."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import datetime
from inspect import Parameter, signature
from typing import Any, get_type_hints

import ackbus
from ackbus import (
    BlobStore,
    Bus,
    Draft,
    Exporter,
    FieldMap,
    Heart,
    Inbox,
    JsonCommand,
    NewTask,
    Outcome,
    Policy,
    Queue,
    RawCommand,
    ReplyTypes,
    Request,
    Session,
    Tasks,
    TaskSpec,
    Worker,
)
from ackbus.model import Trace

NEW_TASK = NewTask(
    task="t",
    worker="a",
    branch="a/t",
    path="/trees/t",
    repository="/repository/.git",
    base_ref="main",
    base="1" * 40,
    target="main",
)

SPEC = TaskSpec(task="t", worker="a", folder="/repository")

#: Values that a program may hand over by mistake, one of each type.
VALUES: tuple[object, ...] = (
    None,
    True,
    7,
    1.5,
    float("nan"),
    "words",
    b"bytes",
    ["words", 7, None],
    {"key": 7},
    datetime(2026, 1, 1),  # noqa: DTZ001
    object(),
)

#: Which of these values fit a name in an annotation; no other name fits any.
FITS: dict[str, Callable[[object], bool]] = {
    "None": lambda value: value is None,
    "object": lambda value: True,
    "str": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) is int or value == 1.5,
    "bool": lambda value: isinstance(value, bool),
    "Mapping": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "dict": lambda value: isinstance(value, dict),
    "Start": lambda value: type(value) is int,
}


def wrong_values(annotation: str) -> list[object]:
    """Return the values that fit no alternative of an annotation."""
    annotation = re.sub(r"Optional\[(.*)\]", r"\1 | None", annotation)
    while "[" in annotation:
        annotation = re.sub(r"\[[^\[\]]*\]", "", annotation)
    names = [name.strip() for name in annotation.split("|")]
    fits = [FITS[name] for name in names if name in FITS]
    return [value for value in VALUES if not any(each(value) for each in fits)]


def parameters(call: Callable[..., object]) -> dict[str, str]:
    """Return the annotations of a call's parameters, and of the options that it passes on."""
    found: dict[str, str] = {}
    for parameter in signature(call).parameters.values():
        annotation = str(parameter.annotation)
        if parameter.kind is not Parameter.VAR_KEYWORD:
            found[parameter.name] = annotation
            continue
        options = getattr(ackbus.model, annotation.removeprefix("Unpack[").removesuffix("]"))
        for name, kind in get_type_hints(options).items():
            text = kind.__name__ if isinstance(kind, type) else str(kind)
            found[name] = re.sub(r"collections\.abc\.|typing\.", "", text).replace(
                "NoneType", "None"
            )
    return found


#: A call, and its right arguments by name; those before it by place stand under "".
Calls = dict[str, tuple[Callable[..., Any], dict[str, Any]]]


def public_calls(bus: Bus) -> Calls:
    """Return every public call that takes arguments, with those that it needs."""
    directory = bus.layout.directory
    message = bus.get(bus.publish("note.request", [1], from_agent="a").seq)
    assert message is not None
    inbox, session, queue = Inbox(bus, "a"), Session(bus, "a"), Queue.create(bus, "q")
    bus.publish("q", from_agent="a")
    (claim,) = queue.claim("me")
    lease = bus.leases.acquire("l", "a")
    reservation = bus.reservations.reserve(["b"], "b").reservations[0]
    sent = Request.send(bus, "note.request", from_agent="a", to_agent="a")
    ref = bus.blobs.put(b"content")
    worker, outcome = Worker(bus, queue), Outcome()
    note = {"type": "note", "from_agent": "a"}
    job, letters = queue.jobs, queue.dead_letters
    exporter, heart = Exporter(bus), bus.heart("a")
    tasks, of_task = Tasks(bus), {"name": "t", "agent": "a"}
    task = tasks.assign(NEW_TASK, agent="a")
    held = of_task | {"token": task.token}

    def draft(**fields: Any) -> None:
        bus.publish_many([Draft(**fields)])  # the fields are checked when it is published

    draft.__qualname__ = "Draft"
    draft.__signature__ = signature(Draft)  # type: ignore[attr-defined]

    def handler(message: object) -> None:
        del message

    async def later(message: object) -> None:
        del message

    listed: dict[Callable[..., Any], dict[str, Any]] = {
        Bus.init: {"directory": directory},
        Bus.open: {"directory": directory},
        bus.publish: note,
        bus.publish_async: note,
        bus.publish_many: {"drafts": []},
        bus.read: {},
        bus.follow: {},
        bus.follow_async: {},
        bus.get: {"key": 1},
        bus.heart: {"agent": "a"},
        bus.search: {"words": "hello"},
        bus.collect_blobs: {},
        draft: {"type": "x", "from_agent": "a"},
        Draft("x", from_agent="a").to_each: {"recipients": ["a"]},
        message.reply: {"type": "x", "from_agent": "a"},
        BlobStore: {"directory": directory + "/blobs"},
        bus.blobs.put: {"content": b""},
        bus.blobs.put_all: {"contents": []},
        bus.blobs.read: {"ref": ref},
        bus.blobs.read_up_to: {"ref": ref, "max_bytes": 9},
        bus.blobs.copy: {"ref": ref, "out": io.BytesIO()},
        bus.blobs.copy_part: {"ref": ref, "out": io.BytesIO(), "first": 0, "count": 1},
        bus.blobs.require: {"ref": ref},
        bus.blobs.size: {"ref": ref},
        bus.blobs.verify: {"ref": ref},
        bus.blobs.remove: {"ref": ref},
        bus.blobs.older_than: {"age_s": 9},
        bus.blobs.sweep: {"age_s": 9},
        bus.settings.set_durability: {"durability": "normal"},
        bus.chain.head: {},
        bus.chain.extend: {},
        bus.chain.links: {"after_seq": 0, "upto_seq": 9},
        bus.chain.catch_up: {},
        bus.inbox: {"agent": "a"},
        bus.session: {"agent": "a"},
        bus.queue: {"name": "q"},
        bus.create_queue: {"name": "third"},
        bus.worker: {"queue": queue},
        Inbox: {"bus": bus, "agent": "a"},
        inbox.join: {},
        inbox.poll: {},
        inbox.poll_after: {"after_seq": 0},
        inbox.want: {},
        inbox.receive: {"message": message},
        inbox.unread: {},
        inbox.ack: {"message": message},
        inbox.complete: {"message": message},
        inbox.is_completed: {"message": message},
        inbox.attempts: {"message": message},
        inbox.fail: {"message": message, "error": "why"},
        inbox.park: {"message": message, "why": "why"},
        inbox.requeue: {"seq": 1},
        inbox.drop: {"seq": 1},
        inbox.run: {"handler": handler, "drain": True},
        inbox.run_async: {"handler": later, "drain": True},
        Session: {"bus": bus, "agent": "a"},
        session.publish: {"type": "note"},
        session.publish_async: {"type": "note"},
        session.reply: {"message": message, "type": "note"},
        session.reply_async: {"message": message, "type": "note"},
        session.run: {"handler": handler, "drain": True},
        session.run_async: {"handler": later, "drain": True},
        Request.send: {"bus": bus, "type": "x.request", "from_agent": "a"},
        Request.send_async: {"bus": bus, "type": "x.request", "from_agent": "a"},
        sent.until_answered: {"timeout_s": 0},
        sent.wait: {"timeout_s": 0},
        sent.wait_async: {"timeout_s": 0},
        ackbus.as_completed: {"requests": [], "timeout_s": 0},
        ackbus.as_completed_async: {"requests": [], "timeout_s": 0},
        ackbus.wait_all: {"requests": [], "timeout_s": 0},
        ackbus.wait_all_async: {"requests": [], "timeout_s": 0},
        bus.request: {"type": "x.request", "from_agent": "a", "timeout_s": 0},
        bus.request_async: {"type": "x.request", "from_agent": "a", "timeout_s": 0},
        bus.send_request: {"type": "x.request", "from_agent": "a"},
        bus.answer: {"conversation": "c"},
        ReplyTypes.of: {"request_type": "x.request"},
        Trace.of: {"bus": bus, "key": "1"},
        bus.read_receipts: {"key": "1"},
        Queue.create: {"bus": bus, "name": "other"},
        Queue.open: {"bus": bus, "name": "q"},
        queue.take_in: {"seqs": [1]},
        queue.take_in_done: {"seq": 1, "by": "bob", "result": None},
        queue.claim: {"instance": "me"},
        queue.renew: {"claim": claim},
        queue.complete: {"claim": claim},
        queue.fail: {"claim": claim, "error": "why"},
        queue.end: {"claim": claim, "outcome": outcome},
        queue.end_many: {"ends": []},
        queue.release: {"claim": claim},
        queue.cancel: {"claim": claim, "why": "why"},
        queue.status: {"claim": claim},
        queue.stats: {},
        ackbus.model.QueueStats.of: {"queue": queue},
        ackbus.model.Stats.of: {"bus": bus},
        Outcome: {},
        Policy: {},
        ackbus.work_headers: {},
        ackbus.JobControl: {"queue": queue},
        job.get: {"seq": 1},
        job.retry: {"seq": 1},
        job.cancel: {"seq": 1},
        job.bury: {"why": "why"},
        job.lose: {"seq": 1, "why": "why"},
        job.lose_running: {"why": "why"},
        job.limit: {"max_waiting": 5},
        job.list: {},
        ackbus.DeadLetters: {"queue": queue},
        letters.find: {},
        letters.requeue: {"found": []},
        letters.drop: {"found": []},
        Worker: {"bus": bus, "queue": queue},
        worker.run: {"handler": handler, "drain": True},
        worker.run_async: {"handler": later, "drain": True},
        worker.run_work: {"work": JsonCommand(bus, ["true"], group="g"), "drain": True},
        worker.stop_now: {},
        JsonCommand: {"bus": bus, "argv": ["true"], "group": "g"},
        RawCommand: {"bus": bus, "argv": ["true"], "group": "g"},
        bus.heartbeats.beat: {"agent": "a"},
        bus.heartbeats.get: {"agent": "a"},
        bus.heartbeats.mark: {"agent": "a", "status": "offline"},
        bus.heartbeats.forget: {"agent": "nobody"},
        bus.heartbeats.list: {},
        Heart: {"bus": bus, "agent": "a"},
        heart.update: {"status": "working"},
        bus.leases.acquire: {"name": "n", "holder": "a"},
        bus.leases.renew: {"lease": lease},
        bus.leases.release: {"lease": lease},
        bus.leases.check: {"lease": lease},
        bus.leases.get: {"name": "n"},
        bus.leases.forget_ended: {"first": "n", "last": "n"},
        bus.leases.follow_clock_back: {"now_ms": 1},
        bus.reservations.reserve: {"paths": ["a"], "agent": "a"},
        bus.reservations.renew: {"token": 1, "agent": "a"},
        bus.reservations.release: {"token": 1, "agent": "a"},
        bus.reservations.against: {"files": ["a"], "agent": "a"},
        bus.reservations.list: {},
        bus.reservations.ended_with_sessions: {"agent": "a"},
        bus.reservations.end: {"held": reservation},
        bus.limits.set_for_inbox: {"agent": "a", "max_waiting": 5},
        bus.limits.set_for_queue: {"name": "q", "pattern": "q", "max_waiting": 5, "waiting": 0},
        bus.limits.clear: {"kind": "queue", "name": "q"},
        bus.limits.reached_by: {"type": "q", "to_agent": None},
        tasks.assign: {"new": NEW_TASK, "agent": "a"},
        tasks.check_new: {"new": NEW_TASK, "agent": "a"},
        tasks.get: {"name": "t"},
        tasks.holder: {"task": task},
        tasks.list: {},
        tasks.start: held,
        tasks.heartbeat: held,
        tasks.block: held | {"question": "?"},
        tasks.answer: of_task | {"words": "!"},
        tasks.done: held | {"head": "1" * 40},
        tasks.fail: of_task | {"reason": "no"},
        tasks.approve: of_task,
        tasks.merge: {"name": "t", "agent": "a"},
        tasks.reject: of_task | {"words": "no"},
        tasks.send_back: of_task | {"attempt": 1, "reason": "no"},
        tasks.land: of_task | {"attempt": 1, "commit": "1" * 40},
        tasks.cancel: of_task,
        tasks.confirm: of_task,
        tasks.enter_again: {"repository": "/r", "target": "main", "agent": "a"},
        tasks.plan: {"jobs": [], "agent": "a"},
        tasks.mark_cleaned: {"name": "t"},
        bus.spawn_task: {"spec": SPEC, "agent": "a"},
        bus.mend_task_tree: {"task": task},
        bus.finish_task: held,
        bus.clean_tasks: {},
        exporter.export_once: {},
        exporter.rebuild: {},
        exporter.rotate: {"limit_bytes": 9_999},
        FieldMap: {},
        FieldMap().draft: {"record": {}},
        bus.import_jsonl: {"stream": io.BytesIO()},
    }
    return {call.__qualname__: (call, right) for call, right in listed.items()}
