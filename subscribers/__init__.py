"""Reading with acknowledgement: inboxes, parked messages, queues of work, conversations."""

from ..schema import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .acts import SHOWN_ACTS, Act, Acts
    from .answers import CONTEXT, answer_to, carried_on, last_words
    from .claim_lookup import claim_of
    from .claims import Claim, ClaimRecord, Claims, Outcome
    from .conversations import Answer, check, receive
    from .cursors import Cursors
    from .dead_letters import DeadLetters
    from .deliveries import Deliveries, Parked
    from .errors import (
        ClaimLost,
        ClaimNotFound,
        HopsWarning,
        JobNotFound,
        NeverRetry,
        QueueMismatch,
        QueueNotFound,
        QueueStuck,
        RetryLater,
        TooManyHops,
        UnservedRequestWarning,
        WrongJobState,
    )
    from .health import checks
    from .hops import MAX_HOPS, WARN_HOPS, hops_of
    from .inbox import MAX_DELIVERIES, POLL_LIMIT, Inbox
    from .job_control import JobControl
    from .job_lists import list_jobs
    from .jobs import ENDED_BADLY, STATES, Job, Jobs
    from .mending import mend
    from .notices import Notices
    from .pace import Pace
    from .policy import POLICY_FIELDS, Policy
    from .queue import DEFAULT_LEASE_S, MAX_CLAIMS, MAX_LEASE_S, Queue
    from .queue_stats import DEFAULT_WINDOW_S, QueueStats, Spread
    from .queue_workers import QueueWorkers
    from .queues import QueueInfo, Queues
    from .records import claim_record, job_record, queue_record, state_of, stats_record
    from .reply_types import ReplyTypes
    from .requests import Request, request
    from .retention import IDLE_AFTER_S, Hold, Plan, Retention
    from .rules import Rules
    from .session import Session
    from .shown import Shown
    from .statements import SESSION_NEWS
    from .trace import Step, Trace, Work, WorkHistory, find_message
    from .unread import unread_in
    from .views import Views
    from .wishes import DEDUPE_KEY, WorkHeaders, work_headers

__all__ = [
    "CONTEXT",
    "DEDUPE_KEY",
    "DEFAULT_LEASE_S",
    "DEFAULT_WINDOW_S",
    "ENDED_BADLY",
    "IDLE_AFTER_S",
    "MAX_CLAIMS",
    "MAX_DELIVERIES",
    "MAX_HOPS",
    "MAX_LEASE_S",
    "POLICY_FIELDS",
    "POLL_LIMIT",
    "SESSION_NEWS",
    "SHOWN_ACTS",
    "STATES",
    "WARN_HOPS",
    "Act",
    "Acts",
    "Answer",
    "Claim",
    "ClaimLost",
    "ClaimNotFound",
    "ClaimRecord",
    "Claims",
    "Cursors",
    "DeadLetters",
    "Deliveries",
    "Hold",
    "HopsWarning",
    "Inbox",
    "Job",
    "JobControl",
    "JobNotFound",
    "Jobs",
    "NeverRetry",
    "Notices",
    "Outcome",
    "Pace",
    "Parked",
    "Plan",
    "Policy",
    "Queue",
    "QueueInfo",
    "QueueMismatch",
    "QueueNotFound",
    "QueueStats",
    "QueueStuck",
    "QueueWorkers",
    "Queues",
    "ReplyTypes",
    "Request",
    "Retention",
    "RetryLater",
    "Rules",
    "Session",
    "Shown",
    "Spread",
    "Step",
    "TooManyHops",
    "Trace",
    "UnservedRequestWarning",
    "Views",
    "Work",
    "WorkHeaders",
    "WorkHistory",
    "WrongJobState",
    "answer_to",
    "carried_on",
    "check",
    "checks",
    "claim_of",
    "claim_record",
    "find_message",
    "hops_of",
    "job_record",
    "last_words",
    "list_jobs",
    "mend",
    "queue_record",
    "receive",
    "request",
    "state_of",
    "stats_record",
    "unread_in",
    "work_headers",
]

#: The names that are loaded on first use, by module.
_NAMES = {
    "acts": "SHOWN_ACTS Act Acts",
    "answers": "CONTEXT answer_to carried_on last_words",
    "claim_lookup": "claim_of",
    "claims": "Claim ClaimRecord Claims Outcome",
    "conversations": "Answer check receive",
    "cursors": "Cursors",
    "dead_letters": "DeadLetters",
    "deliveries": "Deliveries Parked",
    "errors": (
        "ClaimLost ClaimNotFound HopsWarning JobNotFound NeverRetry QueueMismatch "
        "QueueNotFound QueueStuck RetryLater TooManyHops UnservedRequestWarning WrongJobState"
    ),
    "health": "checks",
    "hops": "MAX_HOPS WARN_HOPS hops_of",
    "inbox": "MAX_DELIVERIES POLL_LIMIT Inbox",
    "job_control": "JobControl",
    "job_lists": "list_jobs",
    "jobs": "ENDED_BADLY STATES Job Jobs",
    "mending": "mend",
    "notices": "Notices",
    "pace": "Pace",
    "policy": "POLICY_FIELDS Policy",
    "queue": "DEFAULT_LEASE_S MAX_CLAIMS MAX_LEASE_S Queue",
    "queue_stats": "DEFAULT_WINDOW_S QueueStats Spread",
    "queue_workers": "QueueWorkers",
    "queues": "QueueInfo Queues",
    "records": "claim_record job_record queue_record state_of stats_record",
    "reply_types": "ReplyTypes",
    "requests": "Request request",
    "retention": "IDLE_AFTER_S Hold Plan Retention",
    "rules": "Rules",
    "session": "Session",
    "shown": "Shown",
    "statements": "SESSION_NEWS",
    "trace": "Step Trace Work WorkHistory find_message",
    "unread": "unread_in",
    "views": "Views",
    "wishes": "DEDUPE_KEY WorkHeaders work_headers",
}

__getattr__ = on_first_use(__name__, _NAMES)
