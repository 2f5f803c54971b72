"""Tools about present agents, an agent's own status, and the files that it reserves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus.heartbeats import Heartbeat, Liveness
from ....bus.local_bus import LocalBus
from ....bus.reservations.reservations import (
    DEFAULT_RESERVATION_S,
    Conflict,
    Reservation,
    paths_from_root,
)
from ....schema.errors import InvalidInput
from ....schema.process_table import is_running
from ....subscribers.inboxes.inbox import Inbox
from ....subscribers.inboxes.session import inbox_of
from ....subscribers.overview.agents import holder_of, take_over
from ..session import NAMES, McpSession
from .common import MAX_PAGE, READ_IT, Next, counted, fitted, next_page, unread_of
from .tool import NOTICE, Arguments, Reply, Tool, ToolResult, barred, exact, named

# Tools that reserve files, and release them.

#: How many conflicts are shown.
MAX_CONFLICTS = 10

#: How many paths that are held no more are named, and of how many characters.
MAX_NAMED, MAX_NAMED_CHARS = 20, 1_000

#: The next step with reserved files, and with those of others.
RELEASE = "When done: bus_reserve again with mode='release'."
WAIT = "Do not edit them now: work on something else, ask the holder with bus_send, or try later."
TAKE = "From a holder that is dead or silent for 5 min: mode='take-over', with a reason."


class ReserveArguments(Arguments):
    """The arguments of `bus_reserve`."""

    paths: Annotated[
        list[str], Field(min_length=1, description="Files, folders, globs, from the project root.")
    ]
    mode: Literal["exclusive", "shared", "release", "take-over"] = "exclusive"
    minutes: Annotated[float, Field(gt=0, le=1440)] = DEFAULT_RESERVATION_S / 60
    reason: Annotated[str | None, Field(description="For agents that want them too.")] = None


class ReservedFile(BaseModel):
    """A reservation."""

    path: str
    agent: str
    until: str
    token: int
    reason: str | None = None
    wanted: str | None = None
    holder: str | None = None

    def text(self) -> str:
        """Return what conflicts with a wanted path, with its holder's reason behind a bar."""
        prefix = f"{exact(self.wanted)}: " if self.wanted else ""
        about = f" ({self.holder})" if self.holder else ""
        head = f"{prefix}{named(self.agent)} has {exact(self.path)} until {self.until}{about}"
        return f"{head}\n{barred(self.reason)}" if self.reason else head


class ReservationsResult(ToolResult):
    """The result of `bus_reserve`: the agent's reservations, or the conflicts with others."""

    granted: bool
    reservations: list[ReservedFile]
    conflicts: list[ReservedFile]

    def listed(self) -> str:
        """Return the agent's reservations as text."""
        return ", ".join(f"{exact(file.path)} until {file.until}" for file in self.reservations)


def _reserve(session: McpSession, arguments: ReserveArguments) -> Reply:
    bus, agent = session.bus, session.agent()
    paths = [file for path in arguments.paths for file in _from_root(path, session)]
    if arguments.mode == "release":
        return _release(session, agent, paths)
    reserve = bus.reservations.reserve
    if arguments.mode == "take-over":
        if arguments.reason is None:
            raise InvalidInput("say in reason why you take over: the holder is told")
        reserve = partial(take_over, bus)
    outcome = reserve(
        paths,
        agent,
        shared=arguments.mode == "shared",
        lease_s=arguments.minutes * 60,
        reason=arguments.reason,
        session=session.process,
    )
    if not outcome.granted:
        return _refused(session, outcome.conflicts)

    def granted(number: int) -> Reply:
        unnamed = len(outcome.reservations) - number
        record = ReservationsResult(
            granted=True,
            reservations=_files(outcome.reservations[:number]),
            conflicts=[],
            warning=f"{unnamed} more are reserved, and not named here" if unnamed else None,
            next=RELEASE,
        )
        return Reply(record, record.lines(f"Reserved for {named(agent)}: {record.listed()}."))

    return fitted(len(outcome.reservations), granted, session.room)[0]


def _from_root(path: str, session: McpSession) -> list[str]:
    if path.split("/")[0] in (".", ".."):
        raise InvalidInput(f"path {path!r}: give it from the root of the project, or absolute")
    return paths_from_root(path, session.root())


def _files(reservations: Sequence[Reservation]) -> list[ReservedFile]:
    return [ReservedFile(**reservation.record()) for reservation in reservations]


def _refused(session: McpSession, conflicts: Sequence[Conflict]) -> Reply:
    holders = [holder_of(session.bus, conflict.held) for conflict in conflicts[:MAX_CONFLICTS]]
    against = [
        ReservedFile(
            **conflict.held.record(),
            wanted=None if conflict.path == conflict.held.path else conflict.path,
            holder=str(holder),
        )
        for conflict, holder in zip(conflicts, holders, strict=False)
    ]
    may_follow = any(holder.may_be_followed for holder in holders)

    def refused(number: int) -> Reply:
        more = len(conflicts) - number
        record = ReservationsResult(
            granted=False,
            reservations=[],
            conflicts=against[:number],
            warning=f"{more} more conflicts are not shown" if more else None,
            next=f"{WAIT} {TAKE}" if may_follow else WAIT,
            notice=NOTICE,
        )
        texts = (conflict.text() for conflict in record.conflicts)
        return Reply(record, record.lines("NOT reserved, none of them.", *texts), refused=True)

    return fitted(len(against), refused, session.room)[0]


def _release(session: McpSession, agent: str, paths: Sequence[str]) -> Reply:
    bus, meant = session.bus, set(paths)
    with bus.transaction():
        own = [
            reservation
            for reservation in bus.reservations.list(agent=agent)
            if reservation.path in meant
        ]
        for reservation in own:
            bus.reservations.release(reservation.token, agent)
    remaining = bus.reservations.list(agent=agent)

    def released(number: int) -> Reply:
        unnamed = len(remaining) - number
        more = f"{unnamed} more are reserved, and not named here" if unnamed else None
        none = None if own else "you had none of these: nothing was given back"
        record = ReservationsResult(
            granted=True,
            reservations=_files(remaining[:number]),
            conflicts=[],
            warning="; ".join(sentence for sentence in (none, more) if sentence) or None,
        )
        back = f"Given back: {first_of([reservation.path for reservation in own])}." if own else ""
        left_ones = f"Reserved for {named(agent)}: {record.listed() or 'nothing'}."
        return Reply(
            record, record.lines(" ".join(sentence for sentence in (back, left_ones) if sentence))
        )

    return fitted(len(remaining), released, session.room)[0]


def first_of(paths: Sequence[str]) -> str:
    """Return the first of some paths, and how many others there are."""
    sizes = accumulate(map(len, paths[:MAX_NAMED]))
    number = max(1, sum(size <= MAX_NAMED_CHARS for size in sizes))
    first = ", ".join(map(exact, paths[:number]))
    return f"{first} and {len(paths) - number} more" if len(paths) > number else first


# Tools about present agents, and an agent's own status.

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
        "bus_reserve",
        "Reserve files before you edit: all or none. Release when done.",
        ReserveArguments,
        ReservationsResult,
        _reserve,
    ),
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
