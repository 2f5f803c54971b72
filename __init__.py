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
    from .bus.presence.heartbeats import Heartbeat as Heartbeat
    from .bus.presence.heartbeats import Liveness as Liveness
    from .bus.presence.hearts import Heart as Heart
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
    from .schema.message.message import Priority as Priority
    from .schema.message.message import Receipt as Receipt
    from .subscribers.conversations.answers import Answer as Answer
    from .subscribers.conversations.answers import check as check
    from .subscribers.inboxes.delivery_rules import Rules as Rules
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

#: The public names, by the room that they live in.
_ROOMS = {
    "blobs": ("BlobStore",),
    "bus": (
        "Bus",
        "Heart",
        "Heartbeat",
        "Lease",
        "Listener",
        "Liveness",
        "Reservation",
        "Stats",
    ),
    "export": ("Exporter", "ExporterRunning", "FieldMap", "ImportReport", "import_jsonl"),
    "schema": (
        "ABSENT",
        "AckPastEnd",
        "AckbusError",
        "BlobAltered",
        "BlobMissing",
        "BusBusy",
        "BusMoved",
        "BusNotFound",
        "BusUnusable",
        "Draft",
        "IdConflict",
        "InvalidInput",
        "LeaseLost",
        "LimitReached",
        "Message",
        "NotFound",
        "Priority",
        "ReadOnlyBackup",
        "Receipt",
        "Refused",
        "SecondLoopWarning",
        "TimedOut",
        "UnknownParent",
        "UnknownRecipient",
        "UnknownRecipientWarning",
        "WrongProcess",
    ),
    "subscribers": (
        "Answer",
        "Claim",
        "ClaimLost",
        "DeadLetters",
        "HopsWarning",
        "Inbox",
        "Job",
        "JobControl",
        "JobNotFound",
        "NeverRetry",
        "Pace",
        "Parked",
        "Policy",
        "Queue",
        "QueueMismatch",
        "QueueNotFound",
        "QueueStats",
        "Request",
        "RetryLater",
        "Rules",
        "Session",
        "TooManyHops",
        "Trace",
        "UnservedRequestWarning",
        "WrongJobState",
        "check",
        "request",
        "work_headers",
    ),
    "workers": ("JsonCommand", "RawCommand", "Worker"),
}

_HOMES = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted([*_HOMES, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    """Load a public name from its room."""
    room = _HOMES.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{room}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
