"""A session: the agent and the bus of one connection."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...bus.bus import Bus
from ...bus.presence.session_name import process_of
from ...schema.errors import BusUnusable, InvalidInput, Refused
from ...schema.message.names import check_agent
from ...subscribers.inboxes.session_names import LEASE_S, SessionNames
from ..access.principals import LOCAL, Principal, Scope
from .joined_agents import Home
from .room import Room

#: The argument by which each call names the agent where no session remembers it.
NAMES = "as_agent"


class Session:
    """One connection of an agent.

    Args:
        home: the bus.
        bound_to: the only base name under which it may act; None: `bus_join` chooses one.
        holder: the holder of the session's name; None: it acts under the base name.
        lease_s: how long it has its name after a call, in seconds, where only calls tell.
        remembers: whether the next call of this agent finds this session again.
        principal: the client of the present call.
        root: returns the folder from which paths count, given the bus directory; the one that
            the bus lies in, unless the agent's program said another.
    """

    def __init__(
        self,
        home: Home,
        bound_to: str | None = None,
        *,
        holder: str | None = None,
        lease_s: float = LEASE_S,
        remembers: bool = True,
        principal: Principal = LOCAL,
        root: Callable[[str], str] = os.path.dirname,
    ) -> None:
        self.home = home
        self.bound_to = bound_to
        self._joined = bound_to
        self._holder = holder
        self._lease_s = lease_s
        self._name: str | None = None
        self._remembers = remembers
        self.principal = principal
        #: The room of results, as the client of the present call has said.
        self.room = Room()
        self._root = root

    @property
    def bus(self) -> Bus:
        """The bus, open."""
        return self.home.bus()

    @property
    def process(self) -> str | None:
        """The program of its agent, with which its reservations end; None: nobody here sees it."""
        own = self._holder
        return own if own is not None and process_of(own) == own else None

    @property
    def base(self) -> str | None:
        """The base name of its agent: that which was set up, or by which it joined."""
        return self._joined

    def join(self, name: str | None) -> str:
        """Set the agent of this session, and return the name that the session has.

        Raises:
            InvalidInput: there is no name, it is none, or it is not to be chosen.
        """
        name = name or self._joined
        if name is None:
            raise InvalidInput("give a name: bus_join(name=...), like 'reviewer' or 'worker-1'")
        check_agent(name)
        self.own(name)
        session = SessionNames.of(self.bus).named(name)
        is_own = session is not None and session.holder == self._holder
        if not is_own and self._holder is not None and self.bound_to not in (None, name):
            # Its hooks would go on under the name that it has.
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
            taken = SessionNames.of(self.bus).take(base, self._holder, lease_s=self._lease_s)
        except (BusUnusable, Refused):
            return base  # nothing can be written, so nothing is taken from another session
        if self._name not in (None, taken.name):
            self._stop_heart(self._name, self._holder)
        self._name = taken.name
        return taken.name

    def _stop_heart(self, name: str, holder: str) -> None:
        """Stop the heart of a name that this had, unless another session of its server has it."""
        last = SessionNames.of(self.bus).named(name)
        if last is None or last.holder == holder or last.process != process_of(holder):
            self.home.leave(name)

    def end(self) -> None:
        """Free the name of this session, and stop its heart."""
        if self._holder is None or self._joined is None:
            return
        SessionNames.of(self.bus).leave(self._joined, self._holder)
        if self._name is not None:
            self._stop_heart(self._name, self._holder)

    def reader(self) -> str | None:
        """Return the agent whose mail is read by what is shown to it; None: nobody's."""
        if self._joined is None or not self.principal.may(Scope.MESSAGES_RW):
            return None
        if self._holder is None:
            return self._joined
        found = SessionNames.of(self.bus).find(self._joined, self._holder)
        return None if found is None else found.name  # not the base name, which may be another's

    def root(self) -> str:
        """Return the folder from which paths count."""
        return self._root(self.bus.layout.directory)
