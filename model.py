"""The records that calls return, and the words and options that they take, for annotations.

Each is loaded when it is first used.
"""

from __future__ import annotations

from . import loader_of, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .bus.heartbeats import Heartbeat as Heartbeat
    from .bus.heartbeats import Liveness as Liveness
    from .bus.log.records import Stats as Stats
    from .bus.options import BusOptions as BusOptions
    from .bus.options import LimitKind as LimitKind
    from .bus.options import ReadFilters as ReadFilters
    from .bus.options import ReservationMode as ReservationMode
    from .bus.options import SearchFilters as SearchFilters
    from .bus.reservations.reservations import Conflict as Conflict
    from .bus.reservations.reservations import Reservation as Reservation
    from .bus.reservations.reservations import ReserveResult as ReserveResult
    from .bus.search.search import Found as Found
    from .bus.verification import Link as Link
    from .bus.waiting_limits import WaitingLimit as WaitingLimit
    from .export.jsonl.importer import ImportReport as ImportReport
    from .schema.message.fields import Durability as Durability
    from .schema.message.fields import MessageFields as MessageFields
    from .schema.sqlite.settings import Settings as Settings
    from .subscribers.answers import Answer as Answer
    from .subscribers.inboxes.failed_deliveries import Parked as Parked
    from .subscribers.jobs.claims import ClaimRecord as ClaimRecord
    from .subscribers.jobs.outcomes import Act as Act
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
    from .subscribers.queues.queues import QueueInfo as QueueInfo
    from .subscribers.queues.statistics import QueueStats as QueueStats
    from .subscribers.queues.statistics import Spread as Spread
    from .tasks.finish import Cleaned as Cleaned
    from .tasks.records.task import Blocked as Blocked
    from .tasks.records.task import OnLost as OnLost
    from .tasks.records.task import Review as Review
    from .tasks.records.task import TaskState as TaskState
    from .tasks.records.task_table import PlannedJob as PlannedJob
    from .tasks.steps.planning import TaskJob as TaskJob

#: The names by heading, each with the module that defines it.
_NAMES = {
    "Records of the log": {
        "bus.search.search": "Found",
        "bus.log.records": "Stats",
        "schema.sqlite.settings": "Settings",
        "bus.verification": "Link",
        "export.jsonl.importer": "ImportReport",
    },
    "Records of inboxes and requests": {
        "subscribers.inboxes.failed_deliveries": "Parked",
        "subscribers.overview.trace": "ReadReceipt Step Trace Work",
        "subscribers.answers": "Answer",
    },
    "Records of queues": {
        "subscribers.queues.queues": "QueueInfo",
        "subscribers.jobs.claims": "ClaimRecord",
        "subscribers.jobs.outcomes": "Act",
        "subscribers.queues.statistics": "QueueStats Spread",
    },
    "Records of agents and leases": {
        "bus.heartbeats": "Heartbeat Liveness",
        "bus.reservations.reservations": "Conflict Reservation ReserveResult",
        "bus.waiting_limits": "WaitingLimit",
    },
    "Records of tasks": {
        "tasks.records.task": "Blocked",
        "tasks.steps.planning": "TaskJob",
        "tasks.records.task_table": "PlannedJob",
        "tasks.finish": "Cleaned",
    },
    "Types of arguments": {
        "bus.options": "BusOptions ReadFilters SearchFilters",
        "schema.message.fields": "MessageFields",
        "subscribers.options": "InboxOptions PolicyRules WorkerOptions",
    },
    "Words of arguments and states": {
        "schema.message.fields": "Durability",
        "bus.options": "LimitKind ReservationMode",
        "subscribers.options": "AnswerState ClaimStatus EndStatus JobGate JobState ReadState Start",
        "tasks.records.task": "OnLost Review TaskState",
    },
}

__all__ = names_in(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = loader_of(_NAMES, globals())
