"""Reading with acknowledgement: inboxes, parked messages, queues of work, conversations."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .acts import SHOWN_ACTS as SHOWN_ACTS
    from .acts import Act as Act
    from .acts import Acts as Acts
    from .answers import CONTEXT as CONTEXT
    from .answers import answer_to as answer_to
    from .answers import carried_on as carried_on
    from .answers import last_words as last_words
    from .claim_lookup import claim_of as claim_of
    from .claims import Claim as Claim
    from .claims import ClaimRecord as ClaimRecord
    from .claims import Claims as Claims
    from .claims import Outcome as Outcome
    from .conversations import Answer as Answer
    from .conversations import check as check
    from .cursors import Cursors as Cursors
    from .dead_letters import DeadLetters as DeadLetters
    from .deliveries import Deliveries as Deliveries
    from .deliveries import Parked as Parked
    from .errors import ClaimLost as ClaimLost
    from .errors import ClaimNotFound as ClaimNotFound
    from .errors import HopsWarning as HopsWarning
    from .errors import JobNotFound as JobNotFound
    from .errors import NeverRetry as NeverRetry
    from .errors import QueueMismatch as QueueMismatch
    from .errors import QueueNotFound as QueueNotFound
    from .errors import QueueStuck as QueueStuck
    from .errors import RetryLater as RetryLater
    from .errors import TooManyHops as TooManyHops
    from .errors import UnservedRequestWarning as UnservedRequestWarning
    from .errors import WrongJobState as WrongJobState
    from .health import checks as checks
    from .hops import MAX_HOPS as MAX_HOPS
    from .hops import WARN_HOPS as WARN_HOPS
    from .hops import hops_of as hops_of
    from .inbox import MAX_DELIVERIES as MAX_DELIVERIES
    from .inbox import POLL_LIMIT as POLL_LIMIT
    from .inbox import Inbox as Inbox
    from .job_control import JobControl as JobControl
    from .job_lists import list_jobs as list_jobs
    from .jobs import ENDED_BADLY as ENDED_BADLY
    from .jobs import STATES as STATES
    from .jobs import Job as Job
    from .jobs import Jobs as Jobs
    from .mending import mend as mend
    from .notices import Notices as Notices
    from .pace import Pace as Pace
    from .policy import POLICY_FIELDS as POLICY_FIELDS
    from .policy import Policy as Policy
    from .queue import DEFAULT_LEASE_S as DEFAULT_LEASE_S
    from .queue import MAX_CLAIMS as MAX_CLAIMS
    from .queue import MAX_LEASE_S as MAX_LEASE_S
    from .queue import Queue as Queue
    from .queue_stats import DEFAULT_WINDOW_S as DEFAULT_WINDOW_S
    from .queue_stats import QueueStats as QueueStats
    from .queue_stats import Spread as Spread
    from .queue_workers import QueueWorkers as QueueWorkers
    from .queues import QueueInfo as QueueInfo
    from .queues import Queues as Queues
    from .records import claim_record as claim_record
    from .records import job_record as job_record
    from .records import queue_record as queue_record
    from .records import state_of as state_of
    from .records import stats_record as stats_record
    from .reply_types import ReplyTypes as ReplyTypes
    from .requests import Request as Request
    from .requests import request as request
    from .retention import IDLE_AFTER_S as IDLE_AFTER_S
    from .retention import Hold as Hold
    from .retention import Plan as Plan
    from .retention import Retention as Retention
    from .rules import Rules as Rules
    from .session import SESSION_NEWS as SESSION_NEWS
    from .session import Session as Session
    from .shown import Shown as Shown
    from .trace import Step as Step
    from .trace import Trace as Trace
    from .trace import Work as Work
    from .trace import WorkHistory as WorkHistory
    from .trace import find_message as find_message
    from .unread import count_unread as count_unread
    from .wishes import DEDUPE_KEY as DEDUPE_KEY
    from .wishes import WorkHeaders as WorkHeaders
    from .wishes import work_headers as work_headers

__all__ = [
    # inboxes
    "MAX_DELIVERIES",
    "POLL_LIMIT",
    "Cursors",
    "Deliveries",
    "Inbox",
    "Pace",
    "Parked",
    "Rules",
    "SESSION_NEWS",
    "Session",
    "Shown",
    "count_unread",
    # queues
    "DEDUPE_KEY",
    "DEFAULT_LEASE_S",
    "DEFAULT_WINDOW_S",
    "ENDED_BADLY",
    "MAX_CLAIMS",
    "MAX_HOPS",
    "MAX_LEASE_S",
    "POLICY_FIELDS",
    "SHOWN_ACTS",
    "Act",
    "Acts",
    "STATES",
    "Claim",
    "ClaimLost",
    "ClaimNotFound",
    "ClaimRecord",
    "Claims",
    "DeadLetters",
    "Job",
    "JobControl",
    "JobNotFound",
    "Jobs",
    "HopsWarning",
    "NeverRetry",
    "Outcome",
    "Policy",
    "Queue",
    "QueueInfo",
    "QueueMismatch",
    "QueueNotFound",
    "QueueStats",
    "QueueStuck",
    "TooManyHops",
    "UnservedRequestWarning",
    "QueueWorkers",
    "WARN_HOPS",
    "Queues",
    "ReplyTypes",
    "RetryLater",
    "Spread",
    "WorkHeaders",
    "WrongJobState",
    "list_jobs",
    "claim_of",
    "claim_record",
    "job_record",
    "queue_record",
    "state_of",
    "stats_record",
    "work_headers",
    # health
    "checks",
    # retention
    "IDLE_AFTER_S",
    "Hold",
    "Plan",
    "Retention",
    # conversations
    "CONTEXT",
    "Answer",
    "Notices",
    "Request",
    "Step",
    "Trace",
    "Work",
    "WorkHistory",
    "answer_to",
    "carried_on",
    "check",
    "find_message",
    "hops_of",
    "last_words",
    "request",
]

#: Where each name is: no command needs them all.
_HOMES = {
    "SHOWN_ACTS": "acts",
    "Act": "acts",
    "Acts": "acts",
    "Answer": "conversations",
    "CONTEXT": "answers",
    "Claim": "claims",
    "ClaimLost": "errors",
    "ClaimNotFound": "errors",
    "ClaimRecord": "claims",
    "Claims": "claims",
    "Cursors": "cursors",
    "DEDUPE_KEY": "wishes",
    "DEFAULT_LEASE_S": "queue",
    "DEFAULT_WINDOW_S": "queue_stats",
    "DeadLetters": "dead_letters",
    "Deliveries": "deliveries",
    "ENDED_BADLY": "jobs",
    "Hold": "retention",
    "HopsWarning": "errors",
    "IDLE_AFTER_S": "retention",
    "Inbox": "inbox",
    "Job": "jobs",
    "JobControl": "job_control",
    "JobNotFound": "errors",
    "Jobs": "jobs",
    "MAX_CLAIMS": "queue",
    "MAX_DELIVERIES": "inbox",
    "MAX_HOPS": "hops",
    "MAX_LEASE_S": "queue",
    "NeverRetry": "errors",
    "Notices": "notices",
    "mend": "mending",
    "Outcome": "claims",
    "POLICY_FIELDS": "policy",
    "POLL_LIMIT": "inbox",
    "Pace": "pace",
    "Parked": "deliveries",
    "Plan": "retention",
    "Policy": "policy",
    "Queue": "queue",
    "QueueInfo": "queues",
    "QueueMismatch": "errors",
    "QueueNotFound": "errors",
    "QueueStuck": "errors",
    "QueueStats": "queue_stats",
    "Queues": "queues",
    "ReplyTypes": "reply_types",
    "Request": "requests",
    "Retention": "retention",
    "RetryLater": "errors",
    "Rules": "rules",
    "STATES": "jobs",
    "SESSION_NEWS": "session",
    "Session": "session",
    "Shown": "shown",
    "Spread": "queue_stats",
    "Step": "trace",
    "TooManyHops": "errors",
    "QueueWorkers": "queue_workers",
    "UnservedRequestWarning": "errors",
    "Trace": "trace",
    "WARN_HOPS": "hops",
    "Work": "trace",
    "WorkHeaders": "wishes",
    "WorkHistory": "trace",
    "WrongJobState": "errors",
    "answer_to": "answers",
    "carried_on": "answers",
    "check": "conversations",
    "checks": "health",
    "claim_of": "claim_lookup",
    "claim_record": "records",
    "count_unread": "unread",
    "find_message": "trace",
    "hops_of": "hops",
    "last_words": "answers",
    "job_record": "records",
    "list_jobs": "job_lists",
    "queue_record": "records",
    "request": "requests",
    "state_of": "records",
    "stats_record": "records",
    "work_headers": "wishes",
}


def __getattr__(name: str) -> object:
    """Load a name from its module when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
