"""Tools that reserve files, and release them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus.reservations.reservations import (
    DEFAULT_RESERVATION_S,
    Conflict,
    Reservation,
    paths_from_root,
)
from ....schema.errors import InvalidInput
from ....subscribers.overview.agents import holder_of, take_over
from ..session import McpSession
from .common import fitted
from .tool import NOTICE, Arguments, Reply, Tool, ToolResult, barred, exact, named

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


TOOLS = (
    Tool(
        "bus_reserve",
        "Reserve files before you edit: all or none. Release when done.",
        ReserveArguments,
        ReservationsResult,
        _reserve,
    ),
)
