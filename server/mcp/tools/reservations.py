"""Tools that reserve files, and release them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from ....bus.bus import Bus
from ....bus.reservations.project_paths import paths_from_root
from ....bus.reservations.reservations import DEFAULT_RESERVATION_S, Conflict
from ....schema.errors import InvalidInput
from ....schema.message.times import format_ts
from ...access.principals import Scope
from ..session import Session
from .pages import MAX_PAGE
from .quoted_messages import NOTICE, barred, named
from .tool import Arguments, Reply, Tool


class Reserve(Arguments):
    """The arguments of `bus_reserve`."""

    paths: Annotated[
        list[str], Field(min_length=1, description="Files, folders, globs, from the project root.")
    ]
    mode: Literal["exclusive", "shared", "release"] = "exclusive"
    minutes: Annotated[float, Field(gt=0, le=1440)] = DEFAULT_RESERVATION_S / 60
    reason: Annotated[str | None, Field(description="For agents that want them too.")] = None


class ReservedFile(BaseModel):
    """A reservation."""

    path: str
    agent: str
    until: str
    token: int
    reason: str | None = None


class ReservedFiles(BaseModel):
    """The result of `bus_reserve`: the agent's reservations, or the conflicts with others."""

    granted: bool
    reservations: list[ReservedFile]
    conflicts: list[ReservedFile]


def _reserve(session: Session, given: Reserve) -> Reply:
    bus, agent = session.bus, session.agent()
    paths = [each for path in given.paths for each in _from_root(path, session)]
    if given.mode == "release":
        return _release(bus, agent, paths)
    found = bus.reservations.reserve(
        paths,
        agent,
        shared=given.mode == "shared",
        lease_s=given.minutes * 60,
        reason=given.reason,
    )
    record = ReservedFiles(
        granted=found.granted,
        reservations=[ReservedFile(**each.record()) for each in found.reservations[:MAX_PAGE]],
        conflicts=[ReservedFile(**each.held.record()) for each in found.conflicts],
    )
    if not found.granted:
        return Reply(record, _against(found.conflicts), refused=True)
    until = record.reservations[0].until
    return Reply(record, f"Reserved until {until}: {', '.join(map(named, paths[:MAX_PAGE]))}.")


def _from_root(path: str, session: Session) -> list[str]:
    if path.split("/")[0] in (".", ".."):
        raise InvalidInput(f"path {path!r}: give it from the root of the project, or absolute")
    return paths_from_root(path, session.root())


def _against(conflicts: Sequence[Conflict]) -> str:
    lines = [
        f"{named(each.path)}: {named(each.held.agent)} has {named(each.held.path)} until"
        f" {format_ts(each.held.until_ms)}"
        + (f"\n{barred(each.held.reason)}" if each.held.reason else "")
        for each in conflicts[:10]
    ]
    return (
        "NOT reserved, none of them: do not edit them now. Work on something else, ask the holder"
        f" with bus_send, or try again later. {NOTICE}\n" + "\n".join(lines)
    )


def _release(bus: Bus, agent: str, paths: Sequence[str]) -> Reply:
    meant = set(paths)
    with bus.transaction():
        own = [each for each in bus.reservations.list(agent=agent) if each.path in meant]
        for each in own:
            bus.reservations.release(each.token, agent)
    left = [ReservedFile(**each.record()) for each in bus.reservations.list(agent=agent)[:MAX_PAGE]]
    record = ReservedFiles(granted=True, reservations=left, conflicts=[])
    given_back = ", ".join(named(each.path) for each in own) or "nothing: you had none of these"
    return Reply(record, f"Given back: {given_back}. You have {len(left)} more.")


TOOLS = (
    Tool(
        "bus_reserve",
        "Reserve files before you edit them: all or none. Release them when done.",
        Reserve,
        ReservedFiles,
        _reserve,
        scope=Scope.WORK_RW,
    ),
)
