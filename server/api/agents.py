"""Agents: their heartbeats, their inboxes, and the status of the bus as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import BaseModel, Field

from ...bus import tracing
from ...bus.local_bus import LocalBus
from ...bus.log.records import Stats
from ...schema.errors import NotFound
from ...schema.message.canonical_json import encode
from ...schema.message.message import Message
from ...schema.message.names import MAX_SEQ, check_agent
from ...schema.message.patterns import TypePattern
from ...subscribers.inboxes.failed_deliveries import Deliveries
from ...subscribers.inboxes.inbox import Inbox
from ...subscribers.inboxes.mail import InboxView
from ...subscribers.inboxes.session import inbox_of
from ...subscribers.jobs.json_records import stats_record
from ...subscribers.overview.agents import agent_records
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from ...subscribers.queues.statistics import QueueStats
from ..access.access import TheClient
from ..records import (
    MAX_ENTRIES,
    MessageList,
    ReceiptRecord,
    ReplyBody,
    RequestBody,
    Seq,
    Seqs,
    reply_drafts,
    with_fields_of,
)
from .common import (
    PAGE,
    AgentName,
    Limit,
    OfType,
    QueueStatsRecord,
    TheBus,
    TheKey,
    TheTrace,
    TheWaiter,
    json_array,
    json_response,
    new_router,
    problems,
)

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


# Inboxes: an agent's unread mail, acknowledgement, and parked messages.

inboxes_router = new_router("inboxes")


class AckBody(RequestBody):
    """The last message that an agent has handled."""

    seq: Seq = Field(description="The last seq that is done.")


class CursorRecord(BaseModel):
    """The cursor of an agent."""

    agent: str
    cursor: int = Field(description="The last seq that the agent acknowledged.")


class InboxRecord(CursorRecord):
    """An inbox, and how far its agent is behind."""

    unread: int | None = Field(description="How many messages wait, counted up to 1,000.")
    parked: int = Field(description="How many wait for a person.")


class WantsBody(RequestBody):
    """The broadcasts that an agent wants."""

    types: list[str] | None = Field(
        max_length=MAX_ENTRIES, min_length=1, description="Patterns, like `review.>`; null for all."
    )


class WantsRecord(BaseModel):
    """The broadcasts that are delivered to an agent."""

    agent: str
    types: list[str] | None = Field(description="Patterns; null for all.")


class InboxList(BaseModel):
    """The inboxes of all agents that the bus knows, by name."""

    inboxes: list[InboxRecord]


class UnreadMail(MessageList, CursorRecord):
    """The unread mail of an agent, in order, and its cursor."""


class CompletionBody(RequestBody):
    """A handled message, and the replies to it."""

    seq: Seq
    replies: list[ReplyBody] = Field(default=[], max_length=MAX_ENTRIES)


class CompletionRecord(CursorRecord):
    """The result of completing a message."""

    first: bool = Field(description="False: it was completed before, and nothing was published.")
    receipts: list[ReceiptRecord] = Field(description="Of the replies, in their order.")


class DeliveryFailureBody(RequestBody):
    """A message that could not be handled."""

    seq: Seq
    error: str = Field(max_length=2000, description="Why, for people.")


class FailureRecord(CursorRecord):
    """The state of a message after a failed delivery."""

    attempts: int = Field(description="How many of its deliveries have failed.")
    parked: bool = Field(description="It is parked now, and the cursor past it.")


class ParkedRecord(BaseModel):
    """A message set aside after too many failed deliveries, for a person to decide."""

    agent: str
    seq: int
    attempts: int
    parked_at: str
    error: str


class ParkedList(BaseModel):
    """Parked messages, by agent."""

    parked: list[ParkedRecord]


class ParkedMessagesBody(RequestBody):
    """The messages of an operation that changes all of them, or none."""

    seqs: Seqs


@inboxes_router.get("/inboxes", responses=problems())
def list_inboxes(bus: TheBus) -> InboxList:
    """List the inboxes, and how far each agent is behind."""
    parked = Counter(item.agent for item in Deliveries.of(bus).parked())
    records = agent_records(bus)
    return InboxList(
        inboxes=[InboxRecord(**record, parked=parked[record["agent"]]) for record in records]
    )


@inboxes_router.get("/parked", responses=problems())
def list_parked(
    bus: TheBus,
    reader: TheClient,
    agent: Annotated[str | None, Query(description="Only those of this agent.")] = None,
) -> ParkedList:
    """List the parked messages, and why they failed."""
    deliveries = Deliveries.of(bus).parked(reader.own(agent))
    return ParkedList(parked=[ParkedRecord(**item.record()) for item in deliveries])


@inboxes_router.post("/inboxes/{agent:path}/parked/requeue", status_code=204, responses=problems())
def requeue_parked(
    agent: AgentName, chosen: ParkedMessagesBody, bus: TheBus, writer: TheClient
) -> None:
    """Requeue parked messages: they are delivered again."""
    box = Inbox(bus, writer.act_as(agent))
    _change_all(box, box.requeue, chosen.seqs)


@inboxes_router.post("/inboxes/{agent:path}/parked/drop", status_code=204, responses=problems())
def drop_parked(
    agent: AgentName, chosen: ParkedMessagesBody, bus: TheBus, writer: TheClient
) -> None:
    """Drop parked messages of this agent; they stay in the log."""
    box = Inbox(bus, writer.act_as(agent))
    _change_all(box, box.drop, chosen.seqs)


def _change_all(box: Inbox, change: Callable[[int], None], seqs: list[int]) -> None:
    with box.bus.transaction():
        for seq in dict.fromkeys(seqs):
            change(seq)


@inboxes_router.post("/inboxes/{agent:path}/ack", responses=problems(409))
def acknowledge(agent: AgentName, done: AckBody, bus: TheBus, writer: TheClient) -> CursorRecord:
    """Acknowledge a message and all before it. Safe to repeat: a cursor never moves back."""
    box = inbox_of(bus, writer.act_as(agent))
    return CursorRecord(agent=agent, cursor=box.ack(done.seq))


@inboxes_router.post("/inboxes/{agent:path}/want", responses=problems())
def want_broadcasts(
    agent: AgentName, wants: WantsBody, bus: TheBus, writer: TheClient
) -> WantsRecord:
    """Set which broadcasts an agent receives from now on: those of some types, or all."""
    box = Inbox(bus, writer.act_as(agent))
    box.want(*wants.types or ())
    return WantsRecord(agent=agent, types=box.wants)


@inboxes_router.post("/inboxes/{agent:path}/complete", responses=problems(409, 413))
def complete_message(
    agent: AgentName,
    done: CompletionBody,
    bus: TheBus,
    writer: TheClient,
    trace: TheTrace,
    key: TheKey,
) -> CompletionRecord:
    """Acknowledge a message and publish the replies to it, in one transaction, once.

    All messages before it are acknowledged too, as by `ack`: complete messages in order. A reply
    goes to the message's sender, in its conversation. Repeating this publishes no reply twice.
    """
    box = inbox_of(bus, writer.act_as(agent))
    message = _message(bus, done.seq)
    drafts = reply_drafts(done.replies, message, agent, writer, key)
    receipts = box.complete(message, *tracing.traced(drafts, trace))
    return CompletionRecord(
        agent=agent,
        cursor=box.position,
        first=receipts is not None,
        receipts=[ReceiptRecord.of(receipt, None) for receipt in receipts or []],
    )


@inboxes_router.post("/inboxes/{agent:path}/fail", responses=problems(409))
def fail_message(
    agent: AgentName, failed: DeliveryFailureBody, bus: TheBus, writer: TheClient
) -> FailureRecord:
    """Record a failed delivery (nack); after five failures the message is parked.

    It is parked only when it is the first that waits: the cursor passes it then, and no other.
    """
    box = inbox_of(bus, writer.act_as(agent))
    message = _message(bus, failed.seq)
    is_parked = box.fail(message, failed.error)
    attempts = box.attempts(message)
    return FailureRecord(agent=agent, cursor=box.position, attempts=attempts, parked=is_parked)


def _message(bus: LocalBus, seq: int) -> Message:
    message = bus.get(seq)
    if message is None:
        raise NotFound(f"no message {seq}; see 'bus read'")
    return message


@inboxes_router.get("/inboxes/{agent:path}", response_model=UnreadMail, responses=problems(409))
async def poll_inbox(
    agent: AgentName,
    bus: TheBus,
    waiter: TheWaiter,
    reader: TheClient,
    limit: Limit = PAGE,
    type: OfType = None,
    with_work: Annotated[bool, Query(description="Show messages that queues hide, too.")] = False,
) -> Response:
    """Return the unread mail of an agent. This changes nothing: acknowledge it when handled.

    Use `type` to look, not to work: an acknowledgement covers the messages that it hid, too.
    """
    name, pattern = reader.act_as(agent), None if type is None else TypePattern(type)
    check_agent(name)

    def look() -> InboxView:  # at each one, since a session may claim its base name meanwhile
        return inbox_of(bus, name, with_work=with_work)._look(limit, pattern)

    to_it = None, name, name.rpartition("-")[0]  # to all, to it, and to its base name
    unread = await waiter.until(
        look, lambda mail: mail.messages, lambda message: message.to_agent in to_it
    )
    lines = json_array(message.to_line() for message in unread.messages)
    head = encode(agent), unread.cursor, lines
    return json_response(b'{"agent":%b,"cursor":%d,"messages":%b}' % head)
