"""The name of a session, and who holds it, as a row of the table `sessions` has them."""

from __future__ import annotations

from ...schema.message.names import MAX_AGENT_CHARS
from ...schema.queries import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The longest id that is stored, in characters.
_MAX_ID_CHARS = 40

#: The types of the fields of a session, in their order.
_TYPES: tuple[type | tuple[type, ...], ...] = (str, int, (str, type(None)), str, str, int, int)


class SessionName:
    """The name of a session, and its holder.

    Attributes:
        name: the name, which no other session has.
        base: the name that was set up, an address of all its sessions.
        number: which session of that name it is, from 1.
        process: the process whose session it is; None: the name is free.
        connection: the connection to it by which the session came; "" where it came by none.
        id: the id by which the program resumes the session; "" where it has given none.
        begun_ms: since when it has the name, in epoch milliseconds.
        until_ms: when the name is free, in epoch milliseconds, unless its process has ended before.
        claims_base: whether it holds the base name besides its own, and gets the mail to it.
    """

    __slots__ = (
        "base",
        "begun_ms",
        "claims_base",
        "connection",
        "id",
        "name",
        "number",
        "process",
        "until_ms",
    )

    def __init__(
        self,
        base: str,
        number: int,
        process: str | None,
        connection: str,
        id: str,
        begun_ms: int,
        until_ms: int,
    ) -> None:
        self.base, self.number = base, number
        self.process, self.connection, self.id = process, connection, id
        self.begun_ms, self.until_ms = begun_ms, until_ms
        self.name = session_name(base, number)
        self.claims_base = False

    @classmethod
    def parse(cls, name: str, *fields: Any) -> SessionName | None:
        """Return the session of a row; None of an agent that has no sessions.

        None too where a field has another type, or the name is not that of the number: then another
        program has switched the rules of the table off.
        """
        if not all(isinstance(value, kind) for value, kind in zip(fields, _TYPES, strict=True)):
            return None
        session = cls(*fields)
        is_session = session.process is not None or session.number > 1
        return session if is_session and session.name == name else None

    def is_held_by(self, process: str | None, connection: str = "") -> bool:
        """Whether it is the session of a process, or of a connection to it; never that of None."""
        return process is not None and (self.process, self.connection) == (process, connection)

    def __repr__(self) -> str:
        return f"<SessionName {self.name}: {self.process} {self.connection}>"


def session_name(base: str, number: int) -> str:
    """Return the name of a session; a base name that is too long is cut."""
    if number == 1:
        return base
    end = f"-{number}"
    return base[: MAX_AGENT_CHARS - len(end)] + end


def is_id(text: str) -> bool:
    """Whether a text may be stored as an id, as UUIDs may."""
    plain = text.replace("-", "").replace("_", "")
    return len(text) <= _MAX_ID_CHARS and plain.isascii() and plain.isalnum()


class SessionBases(Table):
    """The base names of sessions, for what messages mean: `SessionNames` gives the names."""

    def base_of(self, name: str) -> str | None:
        """Return the base name of the session that has a name, or had it last; None: none had."""
        from ..statements import SQL

        base: str | None = self._engine.value(SQL["base_of_session"], (name,))
        return base

    def names_under(self, base: str) -> list[str]:
        """Return the names of all sessions under a base name, ended ones too."""
        from ..statements import SQL

        return [name for (name,) in self._engine.rows(SQL["sessions_under_base"], (base,))]
