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
    from .blobs import BlobStore as BlobStore
    from .bus import Bus as Bus
    from .bus import Heart as Heart
    from .bus import Heartbeat as Heartbeat
    from .bus import Lease as Lease
    from .bus import Listener as Listener
    from .bus import Liveness as Liveness
    from .bus import Reservation as Reservation
    from .bus import Stats as Stats
    from .export import Exporter as Exporter
    from .export import ExporterRunning as ExporterRunning
    from .export import FieldMap as FieldMap
    from .export import ImportReport as ImportReport
    from .export import import_jsonl as import_jsonl
    from .schema import ABSENT as ABSENT
    from .schema import AckbusError as AckbusError
    from .schema import AckPastEnd as AckPastEnd
    from .schema import BlobAltered as BlobAltered
    from .schema import BlobMissing as BlobMissing
    from .schema import BusBusy as BusBusy
    from .schema import BusMoved as BusMoved
    from .schema import BusNotFound as BusNotFound
    from .schema import BusUnusable as BusUnusable
    from .schema import Draft as Draft
    from .schema import IdConflict as IdConflict
    from .schema import InvalidInput as InvalidInput
    from .schema import LeaseLost as LeaseLost
    from .schema import LimitReached as LimitReached
    from .schema import Message as Message
    from .schema import NotFound as NotFound
    from .schema import Priority as Priority
    from .schema import ReadOnlyBackup as ReadOnlyBackup
    from .schema import Receipt as Receipt
    from .schema import Refused as Refused
    from .schema import SecondLoopWarning as SecondLoopWarning
    from .schema import TimedOut as TimedOut
    from .schema import UnknownParent as UnknownParent
    from .schema import UnknownRecipient as UnknownRecipient
    from .schema import UnknownRecipientWarning as UnknownRecipientWarning
    from .schema import WrongProcess as WrongProcess
    from .subscribers import Answer as Answer
    from .subscribers import Claim as Claim
    from .subscribers import ClaimLost as ClaimLost
    from .subscribers import DeadLetters as DeadLetters
    from .subscribers import HopsWarning as HopsWarning
    from .subscribers import Inbox as Inbox
    from .subscribers import Job as Job
    from .subscribers import JobControl as JobControl
    from .subscribers import JobNotFound as JobNotFound
    from .subscribers import NeverRetry as NeverRetry
    from .subscribers import Pace as Pace
    from .subscribers import Parked as Parked
    from .subscribers import Policy as Policy
    from .subscribers import Queue as Queue
    from .subscribers import QueueMismatch as QueueMismatch
    from .subscribers import QueueNotFound as QueueNotFound
    from .subscribers import QueueStats as QueueStats
    from .subscribers import Request as Request
    from .subscribers import RetryLater as RetryLater
    from .subscribers import Rules as Rules
    from .subscribers import Session as Session
    from .subscribers import TooManyHops as TooManyHops
    from .subscribers import Trace as Trace
    from .subscribers import UnservedRequestWarning as UnservedRequestWarning
    from .subscribers import WrongJobState as WrongJobState
    from .subscribers import check as check
    from .subscribers import request as request
    from .subscribers import work_headers as work_headers
    from .workers import JsonCommand as JsonCommand
    from .workers import RawCommand as RawCommand
    from .workers import Worker as Worker

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
