"""ackbus: a local-first message bus for coding agents. One SQLite file, no server.

    from ackbus import Bus, Inbox

    with Bus.init(".worker-state") as bus:
        bus.publish("task.assign", {"path": "a.py"}, from_agent="lead", to_agent="worker-1")
        for message in Inbox(bus, "worker-1").poll():
            print(message.seq, message.type, message.payload)

Every name is loaded when it is first used, so importing the package costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .blobs.store import BlobStore as BlobStore
    from .bus.bus import Bus as Bus
    from .bus.doorbell import Listener as Listener
    from .bus.leases import Lease as Lease
    from .bus.presence.heartbeat_thread import Heart as Heart
    from .bus.presence.heartbeats import Heartbeat as Heartbeat
    from .bus.presence.heartbeats import Liveness as Liveness
    from .bus.reservations.reservations import Reservation as Reservation
    from .bus.stats import Stats as Stats
    from .export.jsonl.exporter import Exporter as Exporter
    from .export.jsonl.exporter import ExporterRunning as ExporterRunning
    from .export.jsonl.field_map import FieldMap as FieldMap
    from .export.jsonl.importer import ImportReport as ImportReport
    from .export.jsonl.importer import import_jsonl as import_jsonl
    from .schema.errors import AckbusError as AckbusError
    from .schema.errors import AckPastEnd as AckPastEnd
    from .schema.errors import BlobAltered as BlobAltered
    from .schema.errors import BlobMissing as BlobMissing
    from .schema.errors import BusBusy as BusBusy
    from .schema.errors import BusMoved as BusMoved
    from .schema.errors import BusNotFound as BusNotFound
    from .schema.errors import BusUnusable as BusUnusable
    from .schema.errors import IdConflict as IdConflict
    from .schema.errors import InvalidInput as InvalidInput
    from .schema.errors import LeaseLost as LeaseLost
    from .schema.errors import LimitReached as LimitReached
    from .schema.errors import NotFound as NotFound
    from .schema.errors import ReadOnlyBackup as ReadOnlyBackup
    from .schema.errors import Refused as Refused
    from .schema.errors import SecondLoopWarning as SecondLoopWarning
    from .schema.errors import TimedOut as TimedOut
    from .schema.errors import UnknownParent as UnknownParent
    from .schema.errors import UnknownRecipient as UnknownRecipient
    from .schema.errors import UnknownRecipientWarning as UnknownRecipientWarning
    from .schema.errors import WrongProcess as WrongProcess
    from .schema.message.draft import ABSENT as ABSENT
    from .schema.message.draft import Draft as Draft
    from .schema.message.message import Message as Message
    from .schema.message.message import Receipt as Receipt
    from .schema.message.priority import Priority as Priority
    from .subscribers.conversations.answers import Answer as Answer
    from .subscribers.conversations.answers import check as check
    from .subscribers.inboxes.failed_deliveries import Parked as Parked
    from .subscribers.inboxes.inbox import Inbox as Inbox
    from .subscribers.inboxes.polling_pace import Pace as Pace
    from .subscribers.inboxes.session import Session as Session
    from .subscribers.jobs.claims import Claim as Claim
    from .subscribers.jobs.errors import ClaimLost as ClaimLost
    from .subscribers.jobs.errors import HopsWarning as HopsWarning
    from .subscribers.jobs.errors import JobNotFound as JobNotFound
    from .subscribers.jobs.errors import NeverRetry as NeverRetry
    from .subscribers.jobs.errors import QueueMismatch as QueueMismatch
    from .subscribers.jobs.errors import QueueNotFound as QueueNotFound
    from .subscribers.jobs.errors import RetryLater as RetryLater
    from .subscribers.jobs.errors import TooManyHops as TooManyHops
    from .subscribers.jobs.errors import UnservedRequestWarning as UnservedRequestWarning
    from .subscribers.jobs.errors import WrongJobState as WrongJobState
    from .subscribers.jobs.jobs import Job as Job
    from .subscribers.jobs.policy import Policy as Policy
    from .subscribers.jobs.work_headers import work_headers as work_headers
    from .subscribers.overview.trace import Trace as Trace
    from .subscribers.queues.dead_letters import DeadLetters as DeadLetters
    from .subscribers.queues.job_control import JobControl as JobControl
    from .subscribers.queues.queue import Queue as Queue
    from .subscribers.queues.statistics import QueueStats as QueueStats
    from .subscribers.requests import Request as Request
    from .subscribers.requests import request as request
    from .workers.commands.json_contract import JsonCommand as JsonCommand
    from .workers.commands.raw_contract import RawCommand as RawCommand
    from .workers.worker import Worker as Worker

__version__ = "0.1.0"

#: The public names, by the module that defines them.
_NAMES = {
    "blobs.store": "BlobStore",
    "bus.bus": "Bus",
    "bus.doorbell": "Listener",
    "bus.leases": "Lease",
    "bus.presence.heartbeat_thread": "Heart",
    "bus.presence.heartbeats": "Heartbeat Liveness",
    "bus.reservations.reservations": "Reservation",
    "bus.stats": "Stats",
    "export.jsonl.exporter": "Exporter ExporterRunning",
    "export.jsonl.field_map": "FieldMap",
    "export.jsonl.importer": "ImportReport import_jsonl",
    "schema.errors": (
        "AckPastEnd AckbusError BlobAltered BlobMissing BusBusy BusMoved BusNotFound "
        "BusUnusable IdConflict InvalidInput LeaseLost LimitReached NotFound ReadOnlyBackup "
        "Refused SecondLoopWarning TimedOut UnknownParent UnknownRecipient "
        "UnknownRecipientWarning WrongProcess"
    ),
    "schema.message.draft": "ABSENT Draft",
    "schema.message.message": "Message Receipt",
    "schema.message.priority": "Priority",
    "subscribers.conversations.answers": "Answer check",
    "subscribers.inboxes.failed_deliveries": "Parked",
    "subscribers.inboxes.inbox": "Inbox",
    "subscribers.inboxes.polling_pace": "Pace",
    "subscribers.inboxes.session": "Session",
    "subscribers.jobs.claims": "Claim",
    "subscribers.jobs.errors": (
        "ClaimLost HopsWarning JobNotFound NeverRetry QueueMismatch QueueNotFound RetryLater "
        "TooManyHops UnservedRequestWarning WrongJobState"
    ),
    "subscribers.jobs.jobs": "Job",
    "subscribers.jobs.policy": "Policy",
    "subscribers.jobs.work_headers": "work_headers",
    "subscribers.overview.trace": "Trace",
    "subscribers.queues.dead_letters": "DeadLetters",
    "subscribers.queues.job_control": "JobControl",
    "subscribers.queues.queue": "Queue",
    "subscribers.queues.statistics": "QueueStats",
    "subscribers.requests": "Request request",
    "workers.commands.json_contract": "JsonCommand",
    "workers.commands.raw_contract": "RawCommand",
    "workers.worker": "Worker",
}

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_HOMES, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
