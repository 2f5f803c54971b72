"""Agents and their heartbeats, and the status of the bus as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from ...bus.log.log import Stats
from ...schema.message.names import MAX_SEQ
from ...subscribers.inboxes.failed_deliveries import Deliveries
from ...subscribers.jobs.json_records import stats_record
from ...subscribers.overview.agents import agent_records
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.queues.statistics import QueueStats
from ..access.access import TheClient
from ..records import RequestBody, with_fields_of
from .common import AgentName, QueueStatsRecord, TheBus, new_router, problems

router = new_router("agents")


class AgentRecord(BaseModel):
    """An agent that the bus knows: it sent, acknowledged, or beat its heart."""

    agent: str
    liveness: str | None = Field(None, description="alive, warn, stale, dead or stopped.")
    status: str | None = None
    task: str | None = None
    progress: float | None = None
    pid: int | None = None
    beat: str | None = Field(None, description="When its heart beat last.")
    age_s: float | None = Field(None, description="How long ago that was, in seconds.")
    cursor: int = Field(description="The last seq that it acknowledged.")
    unread: int | None = Field(None, description="How many messages wait, counted up to 1,000.")
    session_of: str | None = Field(None, description="Of a session: the name that was set up.")


class AgentList(BaseModel):
    """The agents that the bus knows, by name."""

    agents: list[AgentRecord]


class HeartbeatBody(RequestBody):
    """A heartbeat of an agent."""

    status: str = Field("idle", min_length=1, max_length=64, description="idle, working, …")
    task: str | None = Field(None, max_length=512, description="Its current task.")
    progress: float | None = Field(None, description="Progress of the task, 0 to 1.")
    pid: int | None = Field(None, ge=1, lt=2**31, description="Its process, where that is known.")


@with_fields_of(Stats)
class StatsRecord(BaseModel):
    """The number of messages in the log, by type and by sender."""


class StatusRecord(BaseModel):
    """The status of the bus: agents, queues, and failed messages."""

    newest_seq: int
    agents: dict[str, int] = Field(description="How many agents there are, by liveness.")
    parked: int = Field(description="How many messages failed too often in inboxes.")
    dead: int = Field(description="How many jobs used up their attempts.")
    queues: list[QueueStatsRecord]


class ChainRecord(BaseModel):
    """The hash chain over the log; `bus verify` checks it."""

    on: bool
    seq: int | None = Field(None, description="The last message that is in it.")
    digest: str | None = Field(None, description="Of that message and all before it, in hex.")
    behind: int = Field(description="How many messages are not in it yet.")


@router.get("/agents", response_model_exclude_none=True, responses=problems())
def list_agents(bus: TheBus) -> AgentList:
    """List the agents that the bus knows, and whether they are alive."""
    return AgentList(agents=[AgentRecord(**record) for record in agent_records(bus)])


@router.post("/agents/{agent:path}/heartbeat", status_code=204, responses=problems())
def beat_heart(agent: AgentName, beat: HeartbeatBody, bus: TheBus, writer: TheClient) -> None:
    """Record one heartbeat of an agent; repeat it every 10 s. `stopped` announces the end."""
    bus.heartbeats.beat(
        writer.act_as(agent),
        beat.status,
        task=beat.task,
        progress=beat.progress,
        pid=beat.pid,
        is_here=False,
    )


@router.get("/stats", responses=problems())
def count_messages(bus: TheBus) -> StatsRecord:
    """Count the messages by type and by sender."""
    return StatsRecord(**asdict(bus.stats()))


@router.get(
    "/status",
    response_model=StatusRecord,
    response_model_exclude_unset=True,
    responses=problems(),
)
def show_status(
    bus: TheBus,
) -> dict[str, Any]:
    """Return the status of the bus: agents by liveness, queues with statistics of a day."""
    stats = [QueueStats.of(Queue(bus, info)) for info in Queues(bus).list()]
    return {
        "newest_seq": bus.log.newest_seq(),
        "agents": Counter(beat.liveness.value for beat in bus.heartbeats.list()),
        "parked": Deliveries.of(bus).count_parked(MAX_SEQ),
        "dead": sum(queue_stats.dead for queue_stats in stats),
        "queues": [stats_record(queue_stats) for queue_stats in stats],
    }


@router.get("/chain", response_model_exclude_none=True, responses=problems())
def show_chain(bus: TheBus) -> ChainRecord:
    """Show whether the log has a hash chain, and where the chain ends."""
    head = bus.chain.head()
    return ChainRecord(
        on=bus.chain.is_on(),
        seq=head.seq if head else None,
        digest=head.digest.hex() if head else None,
        behind=bus.chain.behind(),
    )
