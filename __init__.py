"""ackbus: a local-first message bus for coding agents. One SQLite file, no server.

    from ackbus import Bus

    with Bus.init(".worker-state") as bus:
        bus.publish("task_assign", {"path": "a.py"}, from_agent="lead", to_agent="worker-1")
        for message in bus.inbox("worker-1").poll():
            print(message.seq, message.type, message.payload)

Errors and warnings are in `ackbus.errors`, records and types for annotations in `ackbus.model`.
Every name is loaded when it is first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from . import errors as errors
    from . import model as model
    from .api import Bus as Bus
    from .blobs.store import BlobStore as BlobStore
    from .bus.heartbeat_thread import Heart as Heart
    from .bus.heartbeats import Heartbeats as Heartbeats
    from .bus.leases import Lease as Lease
    from .bus.leases import Leases as Leases
    from .bus.reservations.reservations import Reservations as Reservations
    from .bus.verification import Chain as Chain
    from .bus.waiting_limits import WaitingLimits as WaitingLimits
    from .export.jsonl.exporter import Exporter as Exporter
    from .export.jsonl.importer import FieldMap as FieldMap
    from .schema.message.draft import ABSENT as ABSENT
    from .schema.message.draft import Draft as Draft
    from .schema.message.draft import Priority as Priority
    from .schema.message.message import Message as Message
    from .schema.message.message import Receipt as Receipt
    from .schema.message.reply_types import ReplyTypes as ReplyTypes
    from .subscribers.inboxes.inbox import Inbox as Inbox
    from .subscribers.inboxes.session import Session as Session
    from .subscribers.jobs.claims import Claim as Claim
    from .subscribers.jobs.claims import Outcome as Outcome
    from .subscribers.jobs.errors import NeverRetry as NeverRetry
    from .subscribers.jobs.errors import RetryLater as RetryLater
    from .subscribers.jobs.jobs import Job as Job
    from .subscribers.jobs.policy import Policy as Policy
    from .subscribers.jobs.policy import work_headers as work_headers
    from .subscribers.queues.job_control import DeadLetters as DeadLetters
    from .subscribers.queues.job_control import JobControl as JobControl
    from .subscribers.queues.queue import Queue as Queue
    from .subscribers.requests import Request as Request
    from .subscribers.requests import as_completed as as_completed
    from .subscribers.requests import as_completed_async as as_completed_async
    from .subscribers.requests import wait_all as wait_all
    from .subscribers.requests import wait_all_async as wait_all_async
    from .tasks.records.task import NewTask as NewTask
    from .tasks.records.task import Task as Task
    from .tasks.spawn import TaskSpec as TaskSpec
    from .tasks.steps.planning import NewJob as NewJob
    from .tasks.steps.tasks import Tasks as Tasks
    from .workers.json_contract import JsonCommand as JsonCommand
    from .workers.raw_contract import RawCommand as RawCommand
    from .workers.worker import Worker as Worker

__version__ = "0.1.0"

#: The public names by heading, each with the module that defines it.
_NAMES = {
    "A bus and its messages": {
        "api": "Bus",
        "schema.message.draft": "ABSENT Draft Priority",
        "schema.message.message": "Message Receipt",
        "blobs.store": "BlobStore",
        "bus.verification": "Chain",
    },
    "Reading with acknowledgement": {
        "subscribers.inboxes.inbox": "Inbox",
        "subscribers.inboxes.session": "Session",
    },
    "Requests and their answers": {
        "subscribers.requests": "Request as_completed as_completed_async wait_all wait_all_async",
        "schema.message.reply_types": "ReplyTypes",
    },
    "Queues and workers": {
        "subscribers.queues.queue": "Queue",
        "subscribers.jobs.policy": "Policy work_headers",
        "subscribers.jobs.claims": "Claim Outcome",
        "subscribers.jobs.jobs": "Job",
        "subscribers.queues.job_control": "JobControl DeadLetters",
        "workers.worker": "Worker",
        "workers.json_contract": "JsonCommand",
        "workers.raw_contract": "RawCommand",
    },
    "Agents, leases, reservations and limits": {
        "bus.heartbeats": "Heartbeats",
        "bus.heartbeat_thread": "Heart",
        "bus.leases": "Lease Leases",
        "bus.reservations.reservations": "Reservations",
        "bus.waiting_limits": "WaitingLimits",
    },
    "Tasks on git branches": {
        "tasks.steps.tasks": "Tasks",
        "tasks.records.task": "NewTask Task",
        "tasks.steps.planning": "NewJob",
        "tasks.spawn": "TaskSpec",
    },
    "Export and import": {
        "export.jsonl.exporter": "Exporter",
        "export.jsonl.importer": "FieldMap",
    },
    "What a handler raises": {
        "subscribers.jobs.errors": "NeverRetry RetryLater",
    },
}

#: Modules of further public names.
_MODULES = {"errors", "model"}


def names_in(names: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the public names of a table like `_NAMES`, sorted."""
    modules = [texts for by_module in names.values() for texts in by_module.values()]
    return sorted(name for text in modules for name in text.split())


def loader_of(
    names: Mapping[str, Mapping[str, str]], module: dict[str, Any]
) -> Callable[[str], object]:
    """Return the function that loads a public name of a module when it is first used.

    Args:
        names: a table like `_NAMES`.
        module: the globals of the module, where the names are kept.
    """
    homes = {
        name: home
        for by_module in names.values()
        for home, text in by_module.items()
        for name in text.split()
    }

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        from importlib import import_module

        module[name] = getattr(import_module(f".{home}", __name__), name)
        return module[name]

    return load


__all__ = sorted([*names_in(_NAMES), "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]

_load = loader_of(_NAMES, globals())


def __getattr__(name: str) -> object:
    """Load a public name from its module, or a module of further names."""
    if name in _MODULES:
        from importlib import import_module

        return import_module(f".{name}", __name__)
    return _load(name)


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_MODULES]
