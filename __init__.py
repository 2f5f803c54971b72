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
    from .bus.errors import SegmentMissing as SegmentMissing
    from .bus.heartbeat_thread import Heart as Heart
    from .bus.heartbeats import Heartbeat as Heartbeat
    from .bus.heartbeats import Heartbeats as Heartbeats
    from .bus.heartbeats import Liveness as Liveness
    from .bus.leases import Lease as Lease
    from .bus.leases import Leases as Leases
    from .bus.log.log import Stats as Stats
    from .bus.options import BusOptions as BusOptions
    from .bus.options import LimitKind as LimitKind
    from .bus.options import ReadFilters as ReadFilters
    from .bus.options import ReservationMode as ReservationMode
    from .bus.options import SearchFilters as SearchFilters
    from .bus.reservations.reservations import Conflict as Conflict
    from .bus.reservations.reservations import Reservation as Reservation
    from .bus.reservations.reservations import Reservations as Reservations
    from .bus.reservations.reservations import ReserveResult as ReserveResult
    from .bus.search.search import Found as Found
    from .bus.verification import Chain as Chain
    from .bus.verification import Link as Link
    from .bus.waiting_limits import WaitingLimit as WaitingLimit
    from .bus.waiting_limits import WaitingLimits as WaitingLimits
    from .export.jsonl.exporter import Exporter as Exporter
    from .export.jsonl.exporter import ExporterRunning as ExporterRunning
    from .export.jsonl.importer import FieldMap as FieldMap
    from .export.jsonl.importer import ImportReport as ImportReport
    from .export.jsonl.importer import import_jsonl as import_jsonl
    from .export.jsonl.replaced_file import ConflictMarkers as ConflictMarkers
    from .export.jsonl.replaced_file import NotImported as NotImported
    from .git.repository import GitFailed as GitFailed
    from .git.trusted import NotTrusted as NotTrusted
    from .schema.errors import AckbusError as AckbusError
    from .schema.errors import AckPastEnd as AckPastEnd
    from .schema.errors import AnsweredAgainWarning as AnsweredAgainWarning
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
    from .schema.errors import MailArchived as MailArchived
    from .schema.errors import NotActedUponWarning as NotActedUponWarning
    from .schema.errors import NotFound as NotFound
    from .schema.errors import ReadOnlyBackup as ReadOnlyBackup
    from .schema.errors import Refused as Refused
    from .schema.errors import RowDamaged as RowDamaged
    from .schema.errors import SecondLoopWarning as SecondLoopWarning
    from .schema.errors import TimedOut as TimedOut
    from .schema.errors import UnknownParent as UnknownParent
    from .schema.errors import UnknownRecipient as UnknownRecipient
    from .schema.errors import UnknownRecipientWarning as UnknownRecipientWarning
    from .schema.errors import WrongProcess as WrongProcess
    from .schema.message.draft import ABSENT as ABSENT
    from .schema.message.draft import Draft as Draft
    from .schema.message.fields import Durability as Durability
    from .schema.message.fields import MessageFields as MessageFields
    from .schema.message.message import Message as Message
    from .schema.message.message import Receipt as Receipt
    from .schema.message.priority import Priority as Priority
    from .schema.message.reply_types import ReplyTypes as ReplyTypes
    from .schema.sqlite.settings import Settings as Settings
    from .subscribers.conversations.answers import Answer as Answer
    from .subscribers.conversations.answers import check as check
    from .subscribers.inboxes.failed_deliveries import Parked as Parked
    from .subscribers.inboxes.inbox import Inbox as Inbox
    from .subscribers.inboxes.session import Session as Session
    from .subscribers.jobs.claims import Claim as Claim
    from .subscribers.jobs.claims import ClaimRecord as ClaimRecord
    from .subscribers.jobs.claims import Outcome as Outcome
    from .subscribers.jobs.errors import ClaimLost as ClaimLost
    from .subscribers.jobs.errors import HopsWarning as HopsWarning
    from .subscribers.jobs.errors import JobNotFound as JobNotFound
    from .subscribers.jobs.errors import NeverRetry as NeverRetry
    from .subscribers.jobs.errors import QueueMismatch as QueueMismatch
    from .subscribers.jobs.errors import QueueNotFound as QueueNotFound
    from .subscribers.jobs.errors import QueueStuck as QueueStuck
    from .subscribers.jobs.errors import RetryLater as RetryLater
    from .subscribers.jobs.errors import TooManyHops as TooManyHops
    from .subscribers.jobs.errors import UnservedRequestWarning as UnservedRequestWarning
    from .subscribers.jobs.errors import WrongJobState as WrongJobState
    from .subscribers.jobs.jobs import Job as Job
    from .subscribers.jobs.manual_acts import Act as Act
    from .subscribers.jobs.policy import Policy as Policy
    from .subscribers.jobs.policy import work_headers as work_headers
    from .subscribers.options import AnswerState as AnswerState
    from .subscribers.options import ClaimStatus as ClaimStatus
    from .subscribers.options import EndStatus as EndStatus
    from .subscribers.options import InboxOptions as InboxOptions
    from .subscribers.options import JobGate as JobGate
    from .subscribers.options import JobState as JobState
    from .subscribers.options import PolicyRules as PolicyRules
    from .subscribers.options import ReadState as ReadState
    from .subscribers.options import Start as Start
    from .subscribers.overview.trace import ReadReceipt as ReadReceipt
    from .subscribers.overview.trace import Step as Step
    from .subscribers.overview.trace import Trace as Trace
    from .subscribers.overview.trace import Work as Work
    from .subscribers.overview.trace import read_receipts as read_receipts
    from .subscribers.queues.job_control import DeadLetters as DeadLetters
    from .subscribers.queues.job_control import JobControl as JobControl
    from .subscribers.queues.queue import Queue as Queue
    from .subscribers.queues.queues import QueueInfo as QueueInfo
    from .subscribers.queues.statistics import QueueStats as QueueStats
    from .subscribers.queues.statistics import Spread as Spread
    from .subscribers.requests import Request as Request
    from .subscribers.requests import as_completed as as_completed
    from .subscribers.requests import as_completed_async as as_completed_async
    from .subscribers.requests import request as request
    from .subscribers.requests import request_async as request_async
    from .subscribers.requests import wait_all as wait_all
    from .subscribers.requests import wait_all_async as wait_all_async
    from .tasks.finish import Clean as Clean
    from .tasks.finish import Cleaned as Cleaned
    from .tasks.finish import NothingDone as NothingDone
    from .tasks.finish import finish_task as finish_task
    from .tasks.options import OnLost as OnLost
    from .tasks.options import Review as Review
    from .tasks.options import TaskState as TaskState
    from .tasks.records.task import Blocked as Blocked
    from .tasks.records.task import NewTask as NewTask
    from .tasks.records.task import Task as Task
    from .tasks.records.task_table import PlannedJob as PlannedJob
    from .tasks.spawn import Spawn as Spawn
    from .tasks.spawn import TaskSpec as TaskSpec
    from .tasks.steps.messages import TaskBlocked as TaskBlocked
    from .tasks.steps.messages import TaskExists as TaskExists
    from .tasks.steps.messages import TaskNotFound as TaskNotFound
    from .tasks.steps.messages import WrongTaskState as WrongTaskState
    from .tasks.steps.planning import NewJob as NewJob
    from .tasks.steps.planning import TaskJob as TaskJob
    from .tasks.steps.tasks import Tasks as Tasks
    from .workers.commands.json_contract import JsonCommand as JsonCommand
    from .workers.commands.raw_contract import RawCommand as RawCommand
    from .workers.worker import Worker as Worker

__version__ = "0.1.0"

#: The public names by heading, each with the module that defines it.
_NAMES = {
    "A bus and its messages": {
        "bus.bus": "Bus",
        "schema.message.draft": "ABSENT Draft",
        "schema.message.message": "Message Receipt",
        "schema.message.priority": "Priority",
        "blobs.store": "BlobStore",
        "bus.search.search": "Found",
        "bus.log.log": "Stats",
        "schema.sqlite.settings": "Settings",
        "bus.verification": "Chain Link",
    },
    "Reading with acknowledgement": {
        "subscribers.inboxes.inbox": "Inbox",
        "subscribers.inboxes.session": "Session",
        "subscribers.inboxes.failed_deliveries": "Parked",
        "subscribers.overview.trace": "ReadReceipt read_receipts",
    },
    "Requests and their answers": {
        "subscribers.requests": (
            "Request as_completed as_completed_async request request_async wait_all wait_all_async "
        ),
        "subscribers.conversations.answers": "Answer check",
        "schema.message.reply_types": "ReplyTypes",
        "subscribers.overview.trace": "Step Trace Work",
    },
    "Queues and workers": {
        "subscribers.queues.queue": "Queue",
        "subscribers.queues.queues": "QueueInfo",
        "subscribers.jobs.policy": "Policy work_headers",
        "subscribers.jobs.claims": "Claim ClaimRecord Outcome",
        "subscribers.jobs.jobs": "Job",
        "subscribers.jobs.manual_acts": "Act",
        "subscribers.queues.job_control": "JobControl DeadLetters",
        "subscribers.queues.statistics": "QueueStats Spread",
        "workers.worker": "Worker",
        "workers.commands.json_contract": "JsonCommand",
        "workers.commands.raw_contract": "RawCommand",
    },
    "Agents, leases, reservations and limits": {
        "bus.heartbeats": "Heartbeat Heartbeats Liveness",
        "bus.heartbeat_thread": "Heart",
        "bus.leases": "Lease Leases",
        "bus.reservations.reservations": "Conflict Reservation Reservations ReserveResult",
        "bus.waiting_limits": "WaitingLimit WaitingLimits",
    },
    "Tasks on git branches": {
        "tasks.steps.tasks": "Tasks",
        "tasks.records.task": "Blocked NewTask Task",
        "tasks.steps.planning": "NewJob TaskJob",
        "tasks.records.task_table": "PlannedJob",
        "tasks.spawn": "Spawn TaskSpec",
        "tasks.finish": "finish_task Clean Cleaned",
    },
    "Export and import": {
        "export.jsonl.exporter": "Exporter",
        "export.jsonl.importer": "FieldMap ImportReport import_jsonl",
    },
    "Types of arguments": {
        "bus.options": "BusOptions ReadFilters SearchFilters",
        "schema.message.fields": "MessageFields",
        "subscribers.options": "InboxOptions PolicyRules",
    },
    "Words of arguments and states": {
        "schema.message.fields": "Durability",
        "bus.options": "LimitKind ReservationMode",
        "subscribers.options": "AnswerState ClaimStatus EndStatus JobGate JobState ReadState Start",
        "tasks.options": "OnLost Review TaskState",
    },
    "What a handler raises": {
        "subscribers.jobs.errors": "NeverRetry RetryLater",
    },
    "Errors": {
        "bus.errors": "SegmentMissing",
        "schema.errors": (
            "AckPastEnd AckbusError BlobAltered BlobMissing BusBusy BusMoved BusNotFound "
            "BusUnusable IdConflict InvalidInput LeaseLost LimitReached MailArchived NotFound "
            "ReadOnlyBackup Refused RowDamaged TimedOut UnknownParent UnknownRecipient "
            "WrongProcess "
        ),
        "subscribers.jobs.errors": (
            "ClaimLost JobNotFound QueueMismatch QueueNotFound QueueStuck TooManyHops "
            "WrongJobState "
        ),
        "tasks.steps.messages": "TaskBlocked TaskExists TaskNotFound WrongTaskState",
        "tasks.finish": "NothingDone",
        "git.repository": "GitFailed",
        "git.trusted": "NotTrusted",
        "export.jsonl.exporter": "ExporterRunning",
        "export.jsonl.replaced_file": "ConflictMarkers NotImported",
    },
    "Warnings": {
        "schema.errors": (
            "AnsweredAgainWarning NotActedUponWarning SecondLoopWarning UnknownRecipientWarning "
        ),
        "subscribers.jobs.errors": "HopsWarning UnservedRequestWarning",
    },
}

_HOMES = {
    name: module
    for group in _NAMES.values()
    for module, names in group.items()
    for name in names.split()
}

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
