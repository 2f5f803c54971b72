"""The name of a session, as the lease has it that holds it: `session 2 of reviewer`.

The lease's holder is the program's process, and what tells its sessions apart: the connection to a
server, or the id by which the program resumes the session.
"""

from __future__ import annotations

from ...schema.message.names import MAX_AGENT_CHARS
from ...schema.process_table import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.leases import Lease

    #: The first and the last name of leases, by the order of SQLite.
    Span = tuple[str, str]

#: The beginning of the names of these leases.
_LEASE = "session "

#: Between the number of a session and its base name.
_OF = " of "

#: All of these leases.
ALL: Span = (_LEASE, "session!")

#: Between the process and the connection of a session that came by a server.
_BY_SERVER = ", connection "

#: Between the process of a session and the id by which its program resumes it.
_RESUMED_BY = ", resumed by "

#: The longest such id that is stored, in characters: with what is before it a holder of a lease.
_MAX_ID_CHARS = 40


class SessionName:
    """The name of a session, and its holder.

    Attributes:
        name: the name, which no other session has.
        base: the name that was set up, an address of all its sessions.
        number: which session of that name it is, from 1.
        holder: the process whose session it is, and the connection to it.
        token: the fencing token of its lease.
        until_ms: when the name is free, in epoch milliseconds, unless its process has ended before.
        id: the id by which the program resumes the session; "" where it has given none.
        claims_base: whether it holds the base name besides its own, and gets the mail to it.
    """

    __slots__ = ("base", "claims_base", "holder", "id", "name", "number", "token", "until_ms")

    def __init__(self, base: str, number: int, held_by: str, token: int, until_ms: int) -> None:
        self.base, self.number = base, number
        self.holder, _, self.id = held_by.partition(_RESUMED_BY)
        self.token, self.until_ms = token, until_ms
        self.name = session_name(base, number)
        self.claims_base = False

    @classmethod
    def parse(cls, lease: str, held_by: str, token: int, until_ms: int) -> SessionName | None:
        """Return the session that a lease names; None where it names none."""
        number, _, base = lease.removeprefix(_LEASE).partition(_OF)
        is_one = number.isascii() and number.isdigit() and len(number) < 10 and base
        return cls(base, int(number), held_by, token, until_ms) if is_one else None

    def lease(self) -> Lease:
        """Return its lease."""
        from ...bus.leases import Lease  # hooks that change nothing do without

        name = lease_name(self.base, self.number)
        return Lease(name, self.held_by, self.token, 0, self.until_ms)

    @property
    def held_by(self) -> str:
        """The holder of its lease: the process, and the id."""
        return with_id(self.holder, self.id)

    @property
    def process(self) -> str:
        """The process that holds it, by itself or for a connection."""
        return process_of(self.holder)

    @property
    def has_connection(self) -> bool:
        """Whether it came to the server of its process by a connection."""
        return self.holder != self.process

    def __repr__(self) -> str:
        return f"<SessionName {self.name}: {self.holder}>"


def lease_name(base: str, number: int) -> str:
    """Return the name of the lease of a session's name."""
    return f"{_LEASE}{number}{_OF}{base}"


def suffix_of(base: str) -> str:
    """Return the end of the names of a base name's leases; some other names end so, too."""
    return _OF + base


def spans_of(name: str) -> list[Span]:
    """Return the spans of names that hold the leases of a session's name, for any base name."""
    own = lease_name(name, 1)
    number = name.rpartition("-")[2]
    if not (number.isascii() and number.isdigit()):
        return [(own, own)]
    return [(own, own), (f"{_LEASE}{number}{_OF}", f"{_LEASE}{number} of!")]


def session_name(base: str, number: int) -> str:
    """Return the name of a session; a base name that is too long is cut."""
    if number == 1:
        return base
    end = f"-{number}"
    return base[: MAX_AGENT_CHARS - len(end)] + end


def process_of(holder: str) -> str:
    """Return the process of a holder, without its connection."""
    return holder.partition(_BY_SERVER)[0]


def free_holder() -> str:
    """Return the holder of a name that is free: a process that has ended."""
    return f"process 1 since never on {system()}"


def with_id(holder: str, id: str) -> str:
    """Return a holder with the id by which its program resumes the session, if there is an id."""
    return f"{holder}{_RESUMED_BY}{id}" if id else holder


def is_id(text: str) -> bool:
    """Whether a text may be stored as an id, as UUIDs may."""
    plain = text.replace("-", "").replace("_", "")
    return len(text) <= _MAX_ID_CHARS and plain.isascii() and plain.isalnum()


def by_connection(process: str, connection: str) -> str:
    """Return the holder of a session that came to the server of a process, by a connection."""
    return f"{process}{_BY_SERVER}{connection[:40]}"
