"""A session: the agent and the bus of one connection."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...bus.bus import Bus
from ...schema.errors import InvalidInput
from ...schema.message.names import check_agent
from ..access.principals import LOCAL, Principal, Scope
from .joined_agents import Home


class Session:
    """One connection of an agent.

    Args:
        home: the bus.
        bound_to: the only name under which it may act; None: `bus_join` chooses one.
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
        remembers: bool = True,
        principal: Principal = LOCAL,
        root: Callable[[str], str] = os.path.dirname,
    ) -> None:
        self.home = home
        self.bound_to = bound_to
        self._joined = bound_to
        self._remembers = remembers
        self.principal = principal
        self._root = root

    @property
    def bus(self) -> Bus:
        """The bus, open."""
        return self.home.bus()

    def join(self, name: str | None) -> str:
        """Set the agent of this session, and return its name.

        Raises:
            InvalidInput: there is no name, it is none, it is not to be chosen, or it would be
                forgotten.
        """
        name = name or self._joined
        if name is None:
            raise InvalidInput("give a name: bus_join(name=...), like 'reviewer' or 'worker-1'")
        check_agent(name)
        self.own(name)
        if self.bound_to is None and not self._remembers:
            raise InvalidInput(
                "this connection forgets names between calls: put the name into its address"
                " (/mcp?agent=NAME), use a token that is bound to it, or run 'bus mcp' over stdio"
            )
        self._joined = name
        return name

    def own(self, name: str) -> str:
        """Return a name if this connection may act under it.

        Raises:
            InvalidInput: it may not.
        """
        if self.bound_to not in (None, name):
            raise InvalidInput(
                f"this connection acts for {self.bound_to!r} only, not for {name[:80]!r}"
            )
        return name

    def agent(self) -> str:
        """Return the agent of this session; its heart beats from now on.

        Raises:
            InvalidInput: no agent has joined.
        """
        if self._joined is None:
            raise InvalidInput("no agent has joined: call bus_join(name=...) first")
        self.home.beat(self._joined)
        return self._joined

    def reader(self) -> str | None:
        """Return the agent whose mail is read by what is shown to it; None: nobody's."""
        return self._joined if self.principal.may(Scope.MESSAGES_RW) else None

    def root(self) -> str:
        """Return the folder from which paths count."""
        return self._root(self.bus.layout.directory)
