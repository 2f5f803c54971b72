"""The number of an agent's unread messages, for prompts and hooks, which load no more for it."""

from __future__ import annotations

from contextlib import suppress

from ...schema.errors import BusBusy, BusUnusable, Refused
from ...schema.sqlite.database import Database
from .failed_deliveries import Cursors
from .session_names import SessionNames

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Self

    from ...bus.local_bus import LocalBus
    from ...bus.presence.session_name import SessionName
    from ...schema.engine import Engine


class OpenFile:
    """The open file of a bus, for classes that own tables, without the rest of the bus."""

    def __init__(self, database: Database) -> None:
        self._engine: Engine = database
        self._file = database


class InboxLook:
    """The result of a look into a session's inbox.

    It is a context manager: until its end the file is open, for what follows from the look.

    Attributes:
        agent: the name of the session, or of the agent where there is none.
        session: the session; None where there is none.
        unread: how many messages wait, counted up to a limit.
    """

    __slots__ = ("_database", "agent", "session", "unread")

    def __init__(
        self, database: Database, agent: str, session: SessionName | None, unread: int
    ) -> None:
        self._database = database
        self.agent, self.session, self.unread = agent, session, unread

    def bus(self) -> LocalBus:
        """Return the bus over the same open file, which ends with this look."""
        from ...bus.local_bus import LocalBus

        return LocalBus(self._database)

    def forget_shown(self) -> None:
        """Note that the agent remembers nothing of what it was shown or told."""
        from .seen_mail import SeenMailNotes

        SeenMailNotes(OpenFile(self._database), self.agent).note(afresh=True)

    def traces(self) -> tuple[int | None, bool]:
        """Return what the agent's name has left, as `SessionNames.traces`."""
        return SessionNames(self._database).traces(self.agent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()


def unread_in(
    directory: str | os.PathLike[str],
    agent: str,
    limit: int,
    *,
    wait_s: float,
) -> int:
    """Return how many messages wait in an agent's inbox, in a bus that is opened for that alone.

    Args:
        directory: the bus directory.
        agent, limit: as for `Cursors.count_unread`.
        wait_s: how long to wait for a lock, in seconds. Reading waits only in rare moments.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: there is a bus that this process can't use.
    """
    with look_in(directory, agent, limit, wait_s=wait_s) as look:
        return look.unread


def look_in(
    directory: str | os.PathLike[str],
    agent: str,
    limit: int,
    *,
    wait_s: float,
    holder: str | None = None,
    joins: bool = False,
    id: str | None = None,
    is_resumed: bool = False,
) -> InboxLook:
    """Look into the inbox of an agent's session, in a bus that is opened for that.

    Args:
        directory, agent, limit, wait_s: as for `unread_in`.
        holder: the holder of the session's name; None: the agent has no sessions.
        joins: whether the agent joins first, so that broadcasts wait for it; where it can't, its
            messages are counted all the same.
        id, is_resumed: of the session, as for `SessionNames.take`.

    Raises:
        BusNotFound: there is no bus.
        BusUnusable: there is one that this process can't use.
        BusBusy: the session has no name yet, and other writers kept the bus.
    """
    database = Database(directory, write_timeout_s=wait_s)
    try:
        session = None
        if holder is not None:
            # Where nothing can be written, nothing is taken from others.
            with suppress(BusUnusable, Refused):
                names = SessionNames(database)
                session = names.take(agent, holder, id=id, is_resumed=is_resumed)
        name = agent if session is None else session.name
        cursors = Cursors(database)
        if joins:
            with suppress(BusBusy, BusUnusable, Refused):
                cursors.join(name)
        unread = cursors.count_unread(name, limit)
        if session is None:
            base = SessionNames(database).base_claimed_by(name)
        else:
            base = session.base if session.claims_base else None
        if base is not None:
            unread = min(limit, unread + cursors.count_addressed(base, limit))
        return InboxLook(database, name, session, unread)
    except BaseException:
        database.close()
        raise
