"""The errors and warnings of the package. Each is loaded when it is first used."""

from __future__ import annotations

from . import loader_of, names_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .bus.errors import SegmentMissing as SegmentMissing
    from .export.jsonl.exporter import ExporterRunning as ExporterRunning
    from .export.jsonl.parts import ConflictMarkers as ConflictMarkers
    from .export.jsonl.parts import NotImported as NotImported
    from .git.repository import GitFailed as GitFailed
    from .git.sealed import NotTrusted as NotTrusted
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
    from .subscribers.jobs.errors import ClaimLost as ClaimLost
    from .subscribers.jobs.errors import HopsWarning as HopsWarning
    from .subscribers.jobs.errors import JobNotFound as JobNotFound
    from .subscribers.jobs.errors import QueueMismatch as QueueMismatch
    from .subscribers.jobs.errors import QueueNotFound as QueueNotFound
    from .subscribers.jobs.errors import QueueStuck as QueueStuck
    from .subscribers.jobs.errors import TooManyHops as TooManyHops
    from .subscribers.jobs.errors import UnservedRequestWarning as UnservedRequestWarning
    from .subscribers.jobs.errors import WrongJobState as WrongJobState
    from .tasks.finish import NothingDone as NothingDone
    from .tasks.steps.messages import TaskBlocked as TaskBlocked
    from .tasks.steps.messages import TaskExists as TaskExists
    from .tasks.steps.messages import TaskNotFound as TaskNotFound
    from .tasks.steps.messages import WrongTaskState as WrongTaskState

#: The errors by heading, each with the module that defines it.
_NAMES = {
    "Errors": {
        "bus.errors": "SegmentMissing",
        "schema.errors": (
            "AckPastEnd AckbusError BlobAltered BlobMissing BusBusy BusMoved BusNotFound "
            "BusUnusable IdConflict InvalidInput LeaseLost LimitReached MailArchived NotFound "
            "ReadOnlyBackup Refused RowDamaged TimedOut UnknownParent UnknownRecipient "
            "WrongProcess"
        ),
        "subscribers.jobs.errors": (
            "ClaimLost JobNotFound QueueMismatch QueueNotFound QueueStuck TooManyHops WrongJobState"
        ),
        "tasks.steps.messages": "TaskBlocked TaskExists TaskNotFound WrongTaskState",
        "tasks.finish": "NothingDone",
        "git.repository": "GitFailed",
        "git.sealed": "NotTrusted",
        "export.jsonl.exporter": "ExporterRunning",
        "export.jsonl.parts": "ConflictMarkers NotImported",
    },
    "Warnings": {
        "schema.errors": (
            "AnsweredAgainWarning NotActedUponWarning SecondLoopWarning UnknownRecipientWarning"
        ),
        "subscribers.jobs.errors": "HopsWarning UnservedRequestWarning",
    },
}

__all__ = names_in(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = loader_of(_NAMES, globals())
