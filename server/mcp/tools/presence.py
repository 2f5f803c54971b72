"""Tools about present agents, and an agent's own status."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus.heartbeats import Heartbeat, Liveness
from ....bus.local_bus import LocalBus
from ....schema.process_table import is_running
from ....subscribers.inboxes.inbox import Inbox
from ....subscribers.inboxes.session import inbox_of
from ..session import NAMES, McpSession
from .common import MAX_PAGE, READ_IT, Next, counted, fitted, next_page, unread_of
from .reservations import first_of
from .tool import NOTICE, Arguments, Reply, Tool, ToolResult, barred, exact, named

JOIN = "bus_join"

# bus_join, bus_status ------------------------------------------------------------------------


class JoinArguments(Arguments):
    """The arguments of `bus_join`."""

    name: Annotated[str | None, Field(description="Yours, like reviewer-1.")] = None
    task: Annotated[str | None, Field(description="What you do, for others.")] = None
    wants: Annotated[
        list[str] | None,
        Field(
            description="Types of broadcasts you want, like review.>; [] for all.", max_length=100
        ),
    ] = None


class NoArguments(Arguments):
    """The arguments of a tool without any."""


class StatusResult(ToolResult):
    """The status of an agent."""

    agent: str
    unread: int
    parked: int
    acknowledged: int
    reserved: list[str]
    others_alive: int

    def text(self) -> str:
        """Return it for reading."""
        parked = f", {self.parked} parked after failures" if self.parked else ""
        reserved = (
            f" You have reserved {', '.join(map(exact, self.reserved))}." if self.reserved else ""
        )
        others = "1 other agent is" if self.others_alive == 1 else f"{self.others_alive} others are"
        return self.lines(
            f"You are {named(self.agent)}: {counted(self.unread)} unread{parked}; acknowledged up"
            f" to {self.acknowledged}; {others} alive.{reserved}"
        )


def _join(session: McpSession, arguments: JoinArguments) -> Reply:
    bus = session.bus
    name = session.join(arguments.name)
    session.home.beat(name, task=arguments.task)
    if arguments.wants is not None:
        Inbox(bus, name).want(*arguments.wants)
    warning = _held_elsewhere(session.home.beat_before(name)) or _is_another(session, name)
    keep = f"Give {NAMES}={name!r} to every later call: this connection forgets it."
    return _status_reply(session, name, warning, keep if session.forgets else None)


def _held_elsewhere(beat: Heartbeat | None) -> str | None:
    if beat is None or beat.liveness is not Liveness.ALIVE:
        return None
    if beat.pid is not None and not is_running(beat.pid):
        return None  # it was killed
    return (
        f"another process was beating for {beat.agent} when this one began: unless that was you,"
        " join under a name of your own, or you take each other's mail"
    )


def _is_another(session: McpSession, name: str) -> str | None:
    """Return a note for a session whose base name another one has."""
    if name == session.base:
        return None
    return f"another session is {session.base}, so you are {name}: act under that name"


def _status(session: McpSession, arguments: NoArguments) -> Reply:
    return _status_reply(session, session.agent())


def _status_reply(
    session: McpSession, agent: str, warning: str | None = None, advice: str | None = None
) -> Reply:
    """Return the status of an agent, after a warning and advice."""
    bus = session.bus
    inbox = inbox_of(bus, agent)
    alive = [beat for beat in bus.heartbeats.list() if beat.liveness is Liveness.ALIVE]
    paths = [reservation.path for reservation in bus.reservations.list(agent=agent)]
    standing = StatusResult(
        agent=agent,
        unread=unread_of(bus, agent),
        parked=len(inbox.parked()),
        acknowledged=inbox.position,
        reserved=[],
        others_alive=sum(beat.agent != agent for beat in alive),
    )
    ended = _ended(bus, agent)
    steps = (advice, READ_IT if standing.unread else None)
    standing.next = " ".join(step for step in steps if step) or None

    def reply(number: int) -> Reply:
        unnamed = len(paths) - number
        more = f"{unnamed} more files are reserved, and not named here" if unnamed else None
        warnings = "; ".join(sentence for sentence in (warning, ended, more) if sentence) or None
        record = standing.model_copy(update={"reserved": paths[:number], "warning": warnings})
        return Reply(record, record.text())

    return fitted(len(paths), reply, session.room)[0]


def _ended(bus: LocalBus, agent: str) -> str | None:
    """Return a warning about reservations of this name that ended with the last session of it."""
    ended = bus.reservations.ended_with_sessions(agent)
    if not ended:
        return None
    paths = first_of([reservation.path for reservation in ended])
    return f"your reservations of {paths} ended with the program that made them"


# bus_agents ----------------------------------------------------------------------------------


class AgentsArguments(Arguments):
    """The arguments of `bus_agents`."""

    cursor: Next = None


class KnownAgent(BaseModel):
    """An agent that the bus knows."""

    agent: str
    liveness: str | None = None
    status: str | None = None
    task: str | None = None
    age_s: float | None = None
    untrusted: Literal[True]

    def text(self) -> str:
        """Return the agent as text: one line of the bus, and the agent's own words behind a bar."""
        status = None if self.status == self.liveness else self.status
        says = ": ".join(part for part in (status, self.task) if part)
        head = f"{named(self.agent)}: {self.liveness or 'never beat'}"
        return f"{head}\n{barred(says)}" if says else head


class AgentsResult(ToolResult):
    """The result of `bus_agents`."""

    agents: list[KnownAgent]
    next_cursor: str | None = None


def _agents(session: McpSession, arguments: AgentsArguments) -> Reply:
    return agents(session, arguments.cursor)


def agents(session: McpSession, cursor: str | None = None) -> Reply:
    """Return a page of the agents that the bus knows, by name; the cursor is a name."""
    bus = session.bus
    beats = {beat.agent: beat.record() for beat in bus.heartbeats.list()}
    names = [name for name in bus.agents.names() if name > (cursor or "")]
    records = [beats.get(name, {"agent": name}) for name in names[:MAX_PAGE]]
    known_agents = [KnownAgent(**fields, untrusted=True) for fields in records]

    def reply(number: int) -> Reply:
        page = known_agents[:number]
        last = page[-1].agent if number < len(names) else None
        record = AgentsResult(agents=page, next_cursor=last, next=next_page(last), notice=NOTICE)
        return Reply(record, record.lines(f"{number} agents.", *(agent.text() for agent in page)))

    return fitted(len(known_agents), reply, session.room)[0]


TOOLS = (
    Tool(
        JOIN,
        "Do this first: say who you are.",
        JoinArguments,
        StatusResult,
        _join,
        spells=(ToolResult,),
    ),
    Tool(
        "bus_status",
        "Your status: unread, reserved, who is alive.",
        NoArguments,
        StatusResult,
        _status,
        only_reads=True,
        gives_as=JOIN,
    ),
    Tool(
        "bus_agents",
        "List the agents and their tasks.",
        AgentsArguments,
        AgentsResult,
        _agents,
        only_reads=True,
    ),
)
