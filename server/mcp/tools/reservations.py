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
from ..session import Session
from .common import fitted
from .tool import NOTICE, Arguments, Reply, Result, Tool, barred, exact, named

#: How many conflicts are shown.
MAX_CONFLICTS = 10

#: How many paths that are held no more are named, and of how many characters.
MAX_NAMED, MAX_NAMED_CHARS = 20, 1_000

#: The next step with reserved files, and with those of others.
RELEASE = "When done: bus_reserve again with mode='release'."
WAIT = "Do not edit them now: work on something else, ask the holder with bus_send, or try later."
TAKE = "From a holder that is dead or silent for 5 min: mode='take-over', with a reason."


class Reserve(Arguments):
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
        wanted = f"{exact(self.wanted)}: " if self.wanted else ""
        about = f" ({self.holder})" if self.holder else ""
        head = f"{wanted}{named(self.agent)} has {exact(self.path)} until {self.until}{about}"
        return f"{head}\n{barred(self.reason)}" if self.reason else head


class ReservedFiles(Result):
    """The result of `bus_reserve`: the agent's reservations, or the conflicts with others."""

    granted: bool
    reservations: list[ReservedFile]
    conflicts: list[ReservedFile]

    def listed(self) -> str:
        """Return the agent's reservations as text."""
        return ", ".join(f"{exact(each.path)} until {each.until}" for each in self.reservations)


def _reserve(session: Session, given: Reserve) -> Reply:
    bus, agent = session.bus, session.agent()
    paths = [each for path in given.paths for each in _from_root(path, session)]
    if given.mode == "release":
        return _release(session, agent, paths)
    reserve = bus.reservations.reserve
    if given.mode == "take-over":
        if given.reason is None:
            raise InvalidInput("say in reason why you take over: the holder is told")
        reserve = partial(take_over, bus)
    found = reserve(
        paths,
        agent,
        shared=given.mode == "shared",
        lease_s=given.minutes * 60,
        reason=given.reason,
        session=session.process,
    )
    if not found.granted:
        return _refused(session, found.conflicts)

    def granted(number: int) -> Reply:
        left = len(found.reservations) - number
        record = ReservedFiles(
            granted=True,
            reservations=_files(found.reservations[:number]),
            conflicts=[],
            warning=f"{left} more are reserved, and not named here" if left else None,
            next=RELEASE,
        )
        return Reply(record, record.lines(f"Reserved for {named(agent)}: {record.listed()}."))

    return fitted(len(found.reservations), granted, session.room)[0]


def _from_root(path: str, session: Session) -> list[str]:
    if path.split("/")[0] in (".", ".."):
        raise InvalidInput(f"path {path!r}: give it from the root of the project, or absolute")
    return paths_from_root(path, session.root())


def _files(held: Sequence[Reservation]) -> list[ReservedFile]:
    return [ReservedFile(**each.record()) for each in held]


def _refused(session: Session, conflicts: Sequence[Conflict]) -> Reply:
    holders = [holder_of(session.bus, each.held) for each in conflicts[:MAX_CONFLICTS]]
    against = [
        ReservedFile(
            **each.held.record(),
            wanted=None if each.path == each.held.path else each.path,
            holder=str(holder),
        )
        for each, holder in zip(conflicts, holders, strict=False)
    ]
    may_follow = any(each.may_be_followed for each in holders)

    def refused(number: int) -> Reply:
        more = len(conflicts) - number
        record = ReservedFiles(
            granted=False,
            reservations=[],
            conflicts=against[:number],
            warning=f"{more} more conflicts are not shown" if more else None,
            next=f"{WAIT} {TAKE}" if may_follow else WAIT,
            notice=NOTICE,
        )
        texts = (each.text() for each in record.conflicts)
        return Reply(record, record.lines("NOT reserved, none of them.", *texts), refused=True)

    return fitted(len(against), refused, session.room)[0]


def _release(session: Session, agent: str, paths: Sequence[str]) -> Reply:
    bus, meant = session.bus, set(paths)
    with bus.transaction():
        own = [each for each in bus.reservations.list(agent=agent) if each.path in meant]
        for each in own:
            bus.reservations.release(each.token, agent)
    held = bus.reservations.list(agent=agent)

    def released(number: int) -> Reply:
        left = len(held) - number
        more = f"{left} more are reserved, and not named here" if left else None
        none = None if own else "you had none of these: nothing was given back"
        record = ReservedFiles(
            granted=True,
            reservations=_files(held[:number]),
            conflicts=[],
            warning="; ".join(each for each in (none, more) if each) or None,
        )
        back = f"Given back: {first_of([each.path for each in own])}." if own else ""
        left_ones = f"Reserved for {named(agent)}: {record.listed() or 'nothing'}."
        return Reply(record, record.lines(" ".join(each for each in (back, left_ones) if each)))

    return fitted(len(held), released, session.room)[0]


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
        Reserve,
        ReservedFiles,
        _reserve,
    ),
)
