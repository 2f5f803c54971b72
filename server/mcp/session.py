"""A session: the agent and the bus of one connection."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from ...bus.heartbeat_thread import Hearts
from ...bus.heartbeats import Heartbeat
from ...bus.local_bus import LocalBus
from ...schema.errors import BusNotFound, BusUnusable, InvalidInput, Refused
from ...schema.message.names import check_agent
from ...subscribers.inboxes.inbox import Inbox
from ...subscribers.inboxes.session_names import LEASE_S, SessionNames
from ..access.tokens import LOCAL, Principal, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pydantic import BaseModel

# The room for a result: how much an agent's program passes to its model uncut.
#
# A program cuts the middle out of a longer result silently, and the cut part would count as
# shown.

#: The most bytes of a result as it is sent, text and structured output together. Codex cuts results
#: of some 12,000.
DEFAULT_BYTES = 8_000

#: The same of programs that are known to take more: Claude Code cuts at 25,000 tokens, and warns
#: from 10,000 on.
_BYTES = {"claude-code": 16_000}

#: Programs that show the model both forms of a result, Codex where its model writes code: their
#: text is its first line alone.
READ_BOTH = frozenset({"copilot-cli", "codex-mcp-client"})

#: The most bytes of a result around its two forms: their names, and who the server is.
_ENVELOPE_BYTES = 200


@dataclass(frozen=True)
class ResultRoom:
    """The room that results have for one program.

    Attributes:
        bytes: the most bytes of a result as it is sent, both forms together.
        reads_both: whether the program shows its model both forms.
    """

    bytes: int = DEFAULT_BYTES
    reads_both: bool = False

    @classmethod
    def of(cls, program: str | None) -> ResultRoom:
        """Return the room of a program, by the name with which it introduces itself, if any."""
        return cls(_BYTES.get(program or "", DEFAULT_BYTES), program in READ_BOTH)

    def text(self, text: str) -> str:
        """Return the text of a result as it is sent."""
        return text.partition("\n")[0] if self.reads_both else text

    def size(self, text: str, record: BaseModel) -> int:
        """Return the bytes of a result as it is sent."""
        forms = orjson.dumps(self.text(text)), orjson.dumps(as_sent(record))
        return sum(map(len, forms)) + _ENVELOPE_BYTES


def as_sent(record: BaseModel) -> dict[str, Any]:
    """Return a record as structured output: null fields are left out."""
    return record.model_dump(exclude_none=True, by_alias=True)


# The bus that tools act on, and the heartbeats of the agents that joined through this process.

#: How long the heart of an agent beats after its last call, in seconds: as long as the SDK keeps a
#: silent session.
IDLE_S = 1800.0


class BusHandle:
    """An open bus, opened when it is first needed, and again when its file was replaced.

    Args:
        open_bus: opens it.
    """

    def __init__(self, open_bus: Callable[[], LocalBus]) -> None:
        self._open = open_bus
        self._lock = threading.Lock()
        self._bus: LocalBus | None = None
        self._file: tuple[int, int] | None = None
        self._hearts: Hearts | None = None
        # When each agent whose heart beats made its last call, by the monotonic clock.
        self._called: dict[str, float] = {}
        # The last beat of each agent before its first one here, until it was reported.
        self._before: dict[str, Heartbeat] = {}
        #: Whether `end_waiting` was called.
        self.is_ending = False

    def bus(self) -> LocalBus:
        """Return the bus.

        Raises:
            AckbusError: it is not there, or can't be used.
        """
        with self._lock:
            if self._bus is not None and _file_of(self._bus) != self._file:
                self._close()  # nobody would ever read what is written to a deleted file
            if self._bus is None:
                bus = self._open()
                self._bus, self._file = bus, _file_of(bus)
                if self._file is None:
                    self._close()
                    raise BusNotFound(f"no bus in {bus.layout.directory}; make one with 'bus init'")
            return self._bus

    def beat_before(self, agent: str) -> Heartbeat | None:
        """Return, once, an agent's last beat before this process began to beat for it."""
        return self._before.pop(agent, None)

    def beat(self, agent: str, *, task: str | None = None) -> None:
        """Start the heartbeat of an agent, which goes on by itself; set its task if one is given.

        With its first call the agent becomes a reader, who receives broadcasts.

        Raises:
            InvalidInput: the name or the task breaks a rule.
        """
        bus = self.bus()
        if agent not in self._called:
            Inbox(bus, agent).join()
        with self._lock:
            if self._hearts is None:
                self._hearts = Hearts(bus)
                self._hearts.start()
            before = None if agent in self._called else bus.heartbeats.get(agent)
            if task is not None:
                self._hearts.beat(agent, "working", task=task)
            elif agent not in self._called:
                self._hearts.beat(agent)
            self._called[agent] = time.monotonic()
            if before is not None:
                self._before[agent] = before

    def rest(self, idle_s: float = IDLE_S) -> None:
        """Stop the hearts of the agents that have made no call for `idle_s` seconds."""
        before = time.monotonic() - idle_s
        with self._lock:
            for agent in [name for name, at in self._called.items() if at <= before]:
                del self._called[agent]
                self._before.pop(agent, None)
                if self._hearts is not None:
                    self._hearts.rest(agent)

    def leave(self, agent: str) -> None:
        """Stop the heart of an agent."""
        with self._lock:
            self._called.pop(agent, None)
            if self._hearts is not None:
                self._hearts.rest(agent)

    def end_waiting(self) -> None:
        """Make calls that wait come back with what there is. A signal handler may call it."""
        self.is_ending = True

    def close(self) -> None:
        """Stop all hearts and close the bus; a later call opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._hearts is not None:
            self._hearts.stop()
        self._hearts = None
        self._called.clear()
        self._before.clear()
        if self._bus is not None:
            self._bus.close()
        self._bus = None


def _file_of(bus: LocalBus) -> tuple[int, int] | None:
    """Return the identity of the bus file in a bus's directory, or None when there is none."""
    try:
        status = os.stat(bus.layout.database)
    except OSError:
        return None
    return status.st_dev, status.st_ino


#: The argument by which each call names the agent where no session remembers it.
NAMES = "as_agent"


class McpSession:
    """One connection of an agent.

    Args:
        home: the bus.
        bound_to: the only base name under which it may act; None: `bus_join` chooses one.
        holder: the process that holds the session's name; None: it acts under the base name.
        connection: the connection to that process by which the agent came, if it came by one.
        lease_s: how long it has its name after a call, in seconds, where only calls tell.
        remembers: whether the next call of this agent finds this session again.
        principal: the client of the present call.
        root: returns the folder from which paths count, given the bus directory; the one that
            the bus lies in, unless the agent's program said another.
    """

    def __init__(
        self,
        home: BusHandle,
        bound_to: str | None = None,
        *,
        holder: str | None = None,
        connection: str = "",
        lease_s: float = LEASE_S,
        remembers: bool = True,
        principal: Principal = LOCAL,
        root: Callable[[str], str] = os.path.dirname,
    ) -> None:
        self.home = home
        self.bound_to = bound_to
        self._joined = bound_to
        self._holder, self._connection = holder, connection
        self._lease_s = lease_s
        self._name: str | None = None
        self._remembers = remembers
        self.principal = principal
        #: The room of results, as the client of the present call has said.
        self.room = ResultRoom()
        self._root = root

    @property
    def bus(self) -> LocalBus:
        """The bus, open."""
        return self.home.bus()

    @property
    def process(self) -> str | None:
        """The process of its agent, with which its reservations end; None: unknown here."""
        return None if self._connection else self._holder

    @property
    def base(self) -> str | None:
        """The base name of its agent, from the set-up or from `bus_join`."""
        return self._joined

    def join(self, name: str | None) -> str:
        """Set the agent of this session, and return the name that the session has.

        Raises:
            InvalidInput: no name is given, it breaks a rule, or this session may not choose it.
        """
        name = name or self._joined
        if name is None:
            raise InvalidInput("give a name: bus_join(name=...), like 'reviewer' or 'worker-1'")
        check_agent(name)
        self.own(name)
        session = SessionNames.of(self.bus).named(name)
        is_own = session is not None and session.is_held_by(self._holder, self._connection)
        if not is_own and self._holder is not None and self.bound_to not in (None, name):
            # Its hooks would keep the old name.
            raise InvalidInput(f"{name!r} is another session: call bus_join without a name")
        self._joined = session.base if session is not None and is_own else name
        return self._session_name(self._joined)

    @property
    def forgets(self) -> bool:
        """Whether each call has to name the agent: no later call finds this session again."""
        return self.bound_to is None and not self._remembers

    def own(self, name: str) -> str:
        """Return a name if this connection may act under it.

        Raises:
            InvalidInput: it may not.
        """
        if self.bound_to not in (None, name) and not self._is_of_base(name):
            raise InvalidInput(
                f"this connection acts for {self.bound_to!r} only, not for {name[:80]!r}"
            )
        return name

    def _is_of_base(self, name: str) -> bool:
        session = SessionNames.of(self.bus).named(name)
        return session is not None and session.base == self.bound_to

    def agent(self) -> str:
        """Return the name of this session; its heart beats from now on.

        Raises:
            InvalidInput: no agent has joined.
        """
        if self._joined is None:
            how = "call bus_join(name=...) first"
            if self.forgets:
                how = f"give {NAMES}=..., the name that you joined under, with each call"
            raise InvalidInput(f"no agent has joined: {how}")
        name = self._session_name(self._joined)
        self.home.beat(name)
        return name

    def _session_name(self, base: str) -> str:
        """Return the name of this session of a base name, which it keeps."""
        if self._holder is None:
            return base
        try:
            names = SessionNames.of(self.bus)
            taken = names.take(base, self._holder, self._connection, lease_s=self._lease_s)
        except (BusUnusable, Refused):
            return base  # the bus can't be written, so no other session loses its name
        if self._name not in (None, taken.name):
            self._stop_heart(self._name)
        self._name = taken.name
        return taken.name

    def _stop_heart(self, name: str) -> None:
        """Stop the heart of a former name, unless another session of this server uses the name."""
        last = SessionNames.of(self.bus).named(name)
        is_own = last is not None and last.is_held_by(self._holder, self._connection)
        if last is None or is_own or last.process != self._holder:
            self.home.leave(name)

    def end(self) -> None:
        """Free the name of this session, and stop its heart."""
        if self._holder is None or self._joined is None:
            return
        SessionNames.of(self.bus).leave(self._joined, self._holder, self._connection)
        if self._name is not None:
            self._stop_heart(self._name)

    def reader(self) -> str | None:
        """Return the agent whose mail counts as read once it is shown; None: nobody's."""
        if self._joined is None or not self.principal.may(Scope.MESSAGES_RW):
            return None
        if self._holder is None:
            return self._joined
        names = SessionNames.of(self.bus)
        session_name = names.find(self._joined, self._holder, self._connection)
        # Not the base name, which may be another's.
        return None if session_name is None else session_name.name

    def root(self) -> str:
        """Return the folder from which paths count."""
        return self._root(self.bus.layout.directory)
