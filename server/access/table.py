"""The table of the doors: which scopes each operation needs, and under which name it acts.

Every door asks this table, and an operation without a row here fails at start. A scope is that of
the data: `work:ro` reads facts of queues, `messages:ro` what people and agents wrote. `doc.py`
renders the table for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .tokens import Scope

# The rows of the tables of access.


class ActsAs(StrEnum):
    """The name under which an operation acts. A token that is bound to an agent has that alone."""

    NONE = "the request names no agent"
    ANY = "as the agent that the request names; a bound token as its own"
    HOLDER = "as the agent that has the job or the lease; a bound token has to be it"


class FurtherDemand(StrEnum):
    """A further demand of an operation, by what the request is about."""

    NOTHING = "nothing"
    SENT = "the scope of each type that is acted upon, and that it sends"
    FILLED = "the scope of each type that is acted upon, and that its queue takes in"
    TAKEN = "the same, but not for a queue of `task.request` or `task.job` alone"
    LEASED = "`tasks:rw` for leases on tasks and targets"
    COMMANDED = "`plugin:rw`, unless the command is of the type `read`"
    DECIDED = "`tasks:rw` for a person's word: to answer, approve, reject or deny"


@dataclass(frozen=True, slots=True)
class AccessRule:
    """The demands of one operation on the client that shows a token.

    Attributes:
        scopes: the scopes that it needs, all of them; None: it needs no token at all.
        names: under which name it acts.
        also: what else it asks, by what the request is about.
        under_claim: a scope that is enough for what comes under a claim of the client's own, which
            the operation looks for; None: there is nothing of that kind.
    """

    scopes: frozenset[Scope] | None
    names: ActsAs = ActsAs.NONE
    also: FurtherDemand = FurtherDemand.NOTHING
    under_claim: Scope | None = None


#: The operations of one door: `METHOD /path`, `WS /path`, or the name of a tool or a resource.
AccessTable = Mapping[str, AccessRule]


def needs_all(
    *scopes: Scope,
    names: ActsAs = ActsAs.NONE,
    also: FurtherDemand = FurtherDemand.NOTHING,
    under_claim: Scope | None = None,
) -> AccessRule:
    """Return the row of an operation that needs a token with all these scopes."""
    return AccessRule(frozenset(scopes), names, also, under_claim)


#: The row of an operation that needs no token.
OPEN = AccessRule(None)

_READ, _WRITE = Scope.MESSAGES_RO, Scope.MESSAGES_RW
_FACTS, _WORK = Scope.WORK_RO, Scope.WORK_RW
_TASKS, _ADMIN = Scope.TASKS_RW, Scope.ADMIN
_ANY, _HOLDER = ActsAs.ANY, ActsAs.HOLDER

#: The rows that many operations have: reading what was written, and facts of queues.
_READS, _SEES = needs_all(_READ), needs_all(_FACTS)
_SEES_BODIES = needs_all(_FACTS, _READ)
_READS_OWN, _WRITES = needs_all(_READ, names=_ANY), needs_all(_WRITE, names=_ANY)
_SENDS = needs_all(_WRITE, names=_ANY, also=FurtherDemand.SENT)
_MANAGES = needs_all(_WORK, also=FurtherDemand.FILLED)
_ENDS = needs_all(_WORK, names=_HOLDER, also=FurtherDemand.TAKEN)
_RESERVES, _KEEPS = needs_all(_WORK, names=_ANY), needs_all(_WORK, names=_HOLDER)
_LEASES = needs_all(_WORK, names=_ANY, also=FurtherDemand.LEASED)
_KEEPS_LEASE = needs_all(_WORK, names=_HOLDER, also=FurtherDemand.LEASED)
_ADMINISTERS = needs_all(_ADMIN)

#: `bus serve`: the API, its streams, the page and the metrics.
SERVER: AccessTable = {
    "GET /": OPEN,
    "GET /page/{name}": OPEN,
    "GET /page/bus": OPEN,
    "GET /page/project": needs_all(),
    "GET /healthz": OPEN,
    "HEAD /healthz": OPEN,
    "GET /metrics": _SEES,
    "GET /v1/messages": _READS,
    "POST /v1/messages": _SENDS,
    "POST /v1/messages/batch": _SENDS,
    "GET /v1/messages/{key}": _READS,
    "GET /v1/newest": _READS,
    "GET /v1/search": _READS,
    "GET /v1/receipts/{key}": _READS,
    "GET /v1/inboxes": _READS,
    "GET /v1/inboxes/{agent}": _READS_OWN,
    "POST /v1/inboxes/{agent}/ack": _WRITES,
    "POST /v1/inboxes/{agent}/want": _WRITES,
    "POST /v1/inboxes/{agent}/complete": _SENDS,
    "POST /v1/inboxes/{agent}/fail": _WRITES,
    "POST /v1/inboxes/{agent}/parked/requeue": _WRITES,
    "POST /v1/inboxes/{agent}/parked/drop": _WRITES,
    "GET /v1/parked": _READS_OWN,
    "GET /v1/conversations/{conversation}/messages": _READS,
    "GET /v1/conversations/{conversation}/answer": _READS_OWN,
    "GET /v1/trace/{key}": _SEES_BODIES,
    "POST /v1/requests": _SENDS,
    "GET /v1/requests/{id}/answer": _READS_OWN,
    "GET /v1/jobs": _SEES,
    "GET /v1/queues/{queue}/jobs/{seq}": _SEES_BODIES,
    "POST /v1/queues/{queue}/jobs/{seq}/retry": _MANAGES,
    "POST /v1/queues/{queue}/jobs/{seq}/cancel": _MANAGES,
    "GET /v1/dead-letters": _SEES,
    "GET /v1/dead-letters/{queue}/{seq}": _SEES_BODIES,
    "POST /v1/dead-letters/{queue}/requeue": _MANAGES,
    "POST /v1/dead-letters/{queue}/drop": _MANAGES,
    "POST /v1/queues/{queue}/claims": needs_all(_WORK, names=_ANY, also=FurtherDemand.TAKEN),
    "GET /v1/claims/{token}": _SEES_BODIES,
    "POST /v1/claims/{token}/renew": _ENDS,
    "POST /v1/claims/{token}/complete": _ENDS,
    "POST /v1/claims/{token}/fail": _ENDS,
    "POST /v1/claims/{token}/release": _ENDS,
    "GET /v1/queues": _SEES,
    "GET /v1/queues/{queue}": _SEES,
    "PUT /v1/queues/{queue}": needs_all(_WORK, _READ, names=_ANY, also=FurtherDemand.FILLED),
    "PATCH /v1/queues/{queue}": _ADMINISTERS,
    "POST /v1/queues/{queue}/pause": _MANAGES,
    "POST /v1/queues/{queue}/resume": _MANAGES,
    "POST /v1/queues/{queue}/purge": _ADMINISTERS,
    "POST /v1/queues/{queue}/skip": _ADMINISTERS,
    "GET /v1/limits": _SEES,
    "PUT /v1/limits/{kind}/{name}": _ADMINISTERS,
    "DELETE /v1/limits/{kind}/{name}": _ADMINISTERS,
    "GET /v1/leases": _SEES,
    "POST /v1/leases": _LEASES,
    "POST /v1/leases/{token}/renew": _KEEPS_LEASE,
    "POST /v1/leases/{token}/release": _KEEPS_LEASE,
    "GET /v1/reservations": _SEES,
    "POST /v1/reservations": _RESERVES,
    "POST /v1/reservations/{token}/renew": _KEEPS,
    "POST /v1/reservations/{token}/release": _KEEPS,
    "GET /v1/agents": _READS,
    "POST /v1/agents/{agent}/heartbeat": _WRITES,
    "GET /v1/stats": _READS,
    "GET /v1/status": _SEES_BODIES,
    "GET /v1/chain": _READS,
    "POST /v1/blobs": needs_all(_WRITE),
    "GET /v1/blobs/{ref}": _READS,
    "HEAD /v1/blobs/{ref}": _READS,
    "GET /v1/events": _READS,
    "GET /v1/sessions/{session}/events": _READS,
    "POST /v1/sessions/{session}/message": _WRITES,
    "WS /v1/ws": _READS,
    "WS /v1/sessions/{session}/ws": _READS,
}

#: The tools and resources of MCP over HTTP; over stdio they have the rights of their user.
TOOLS: AccessTable = {
    "bus_join": _WRITES,
    "bus_send": _SENDS,
    "bus_inbox": _WRITES,
    "bus_ack": _WRITES,
    "bus_status": _WRITES,
    "bus_receipts": _READS,
    "bus_thread": _READS,
    "bus_search": _READS,
    "bus_agents": _READS,
    "bus_check": _READS_OWN,
    "bus_request": _SENDS,
    "bus_reserve": _RESERVES,
    "bus_task": needs_all(_WORK, _WRITE, names=_ANY, also=FurtherDemand.DECIDED),
    "bus_claim": needs_all(_WORK, names=_ANY, also=FurtherDemand.TAKEN),
    "bus_finish": _ENDS,
    "bus://agents": _READS,
    "bus://inbox/{agent}": _READS_OWN,
    "bus://conversation/{id}": _READS,
}

_FILES_REQUEST, _LANDS = needs_all(_TASKS, names=_ANY), needs_all(_WORK, _TASKS, names=_ANY)

#: `bus serve --pushpals`.
PUSHPALS: AccessTable = {
    "POST /message": needs_all(_WRITE, _TASKS),
    "POST /requests/enqueue": _FILES_REQUEST,
    "POST /requests/claim": _RESERVES,
    "POST /requests/{id}/complete": _KEEPS,
    "POST /requests/{id}/fail": _KEEPS,
    "GET /requests": _SEES_BODIES,
    "POST /jobs/enqueue": needs_all(_TASKS, names=_ANY, under_claim=_WORK),
    "POST /jobs/claim": _RESERVES,
    "POST /jobs/{id}/complete": _KEEPS,
    "POST /jobs/{id}/fail": _KEEPS,
    "POST /jobs/{id}/log": _KEEPS,
    "GET /jobs/{id}/logs": _SEES_BODIES,
    "GET /jobs": _SEES_BODIES,
    "POST /completions/enqueue": needs_all(_TASKS, names=_ANY, under_claim=_WORK),
    "POST /completions/claim": _LANDS,
    "POST /completions/{id}/processed": needs_all(_WORK, _TASKS, names=_HOLDER),
    "POST /completions/{id}/fail": needs_all(_WORK, _TASKS, names=_HOLDER),
    "GET /completions": _SEES_BODIES,
    "POST /workers/heartbeat": _RESERVES,
    "GET /workers": _SEES,
    "GET /system/status": _SEES,
    "POST /autonomy/lock/acquire": needs_all(_WORK),
    "POST /autonomy/lock/renew": needs_all(_WORK),
    "POST /autonomy/lock/release": needs_all(_WORK),
    "GET /autonomy/snapshot": needs_all(_WORK),
    "GET /autonomy/snapshots/{id}": _SEES,
    "POST /autonomy/state": needs_all(_WORK, _WRITE),
    "GET /autonomy/state": _SEES_BODIES,
    "POST /sessions": needs_all(_WRITE),
    "POST /sessions/{id}/message": needs_all(_WRITE),
    "POST /sessions/{id}/command": needs_all(_WRITE, names=_ANY, also=FurtherDemand.DECIDED),
    "POST /approvals/{id}": needs_all(_TASKS),
    "GET /sessions/{id}/events": _READS,
    "WS /sessions/{id}/ws": _READS,
}

_RUNS, _SEES_JOBS = needs_all(Scope.PLUGIN_RW), needs_all(Scope.JOBS_RO)

#: The API of `bus automation start`, for tokens of its configuration and of its bus.
AUTOMATION: AccessTable = {
    "GET /": OPEN,
    "GET /healthz": OPEN,
    "HEAD /healthz": OPEN,
    "GET /.well-known/ai-plugin.json": OPEN,
    "GET /openapi.json": OPEN,
    "GET /plugins": OPEN,
    "GET /skills": OPEN,
    "GET /plugin/{plugin}": needs_all(Scope.PLUGIN_RO),
    "GET /plugin/{plugin}/openapi.json": OPEN,
    "POST /plugin/{plugin}/{command}": needs_all(Scope.PLUGIN_RO, also=FurtherDemand.COMMANDED),
    "POST /pipeline/{pipeline}": _RUNS,
    "GET /job/{job_id}": _SEES_JOBS,
    "GET /job/{job_id}/tree": _SEES_JOBS,
    "POST /job/{job_id}/cancel": needs_all(Scope.JOBS_RW),
    "GET /jobs": _SEES_JOBS,
    "GET /job-logs": _SEES_JOBS,
    "GET /events": needs_all(Scope.EVENTS_RO),
    "GET /scheduler/jobs": _SEES_JOBS,
    "POST /scheduler/jobs/{plugin}/{schedule}/pause": _RUNS,
    "POST /scheduler/jobs/{plugin}/{schedule}/resume": _RUNS,
    "POST /scheduler/jobs/{plugin}/{schedule}/run": _RUNS,
    "POST /system/reload": _ADMINISTERS,
    "GET /config/view": _ADMINISTERS,
    "GET /analytics/queue": _ADMINISTERS,
    "GET /analytics/summary": _ADMINISTERS,
    "GET /breakers/{plugin}": _SEES_JOBS,
    "POST /breakers/{plugin}/reset": _ADMINISTERS,
}
