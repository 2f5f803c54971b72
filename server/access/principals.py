"""Principals: the authenticated clients of the server, and their scopes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...schema.errors import InvalidInput
from ...subscribers.jobs.policy import AUTOMATION
from .errors import Forbidden


class Scope(StrEnum):
    """A right that a token grants."""

    MESSAGES_RO = "messages:ro"
    MESSAGES_RW = "messages:rw"
    WORK_RO = "work:ro"
    WORK_RW = "work:rw"
    PLUGIN_RO = "plugin:ro"
    PLUGIN_RW = "plugin:rw"
    JOBS_RO = "jobs:ro"
    JOBS_RW = "jobs:rw"
    EVENTS_RO = "events:ro"
    EVENTS_RW = "events:rw"
    ADMIN = "admin"


#: The scopes that a scope has in it, besides itself.
_WITHIN = {
    Scope.MESSAGES_RW: {Scope.MESSAGES_RO},
    Scope.WORK_RW: {Scope.WORK_RO},
    Scope.PLUGIN_RW: {Scope.PLUGIN_RO},
    Scope.JOBS_RW: {Scope.JOBS_RO},
    Scope.EVENTS_RW: {Scope.EVENTS_RO},
    Scope.ADMIN: set(Scope),
}


#: How the types of messages begin that the automation acts upon.
_RUNNING = ("plugin.", "schedule.")


@dataclass(frozen=True)
class Principal:
    """The authenticated client of a request.

    Attributes:
        name: the name of the token; `local` where none is needed.
        scopes: the scopes of the token.
        agent: the only name under which it may act; None: under any.
    """

    name: str
    scopes: frozenset[Scope]
    agent: str | None = None

    def may(self, scope: Scope) -> bool:
        """Whether it has a scope, by itself or within a larger one."""
        return any(scope is own or scope in _WITHIN.get(own, ()) for own in self.scopes)

    def check_may_send(self, type: str) -> None:
        """Refuse a message that only those may publish who may run plugins: it would run one.

        Raises:
            Forbidden: the type is one of these, and no scope allows it.
        """
        if type.startswith(_RUNNING) and not self.may(Scope.PLUGIN_RW):
            raise Forbidden(
                f"messages of type {type[:80]!a} run plugins: this token has no scope"
                f" {Scope.PLUGIN_RW.value!r}"
            )

    def act_as(self, agent: str | None, role: str = "agent") -> str:
        """Return the name under which the principal acts: the one given, or that of its token.

        Args:
            agent: the name that the request gives; None: none.
            role: the field of the request that gives it.

        Raises:
            Forbidden: it is another agent's.
            InvalidInput: it says none, and may have any.
        """
        if agent is None:
            agent = self.agent
        if agent is None:
            raise InvalidInput(
                f"{role!r} is missing, and no token that is bound to an agent says it"
            )
        if self.agent is not None and agent != self.agent:
            raise Forbidden(f"this token acts for agent {self.agent!r}, not for {agent!r}")
        return agent

    def work_as(self, group: str | None) -> str:
        """Return the group of workers as which the principal claims and ends jobs, as `act_as`.

        Raises:
            Forbidden: it is the group of the service of automation, which opens the file itself.
        """
        group = self.act_as(group)
        if group == AUTOMATION:
            raise Forbidden(f"the jobs of group {AUTOMATION!r} are run by 'bus automation start'")
        return group

    def doer(self) -> str | None:
        """Return the name of the actor for the record; None: the account of this process."""
        return self.agent or (None if self is LOCAL else f"token {self.name}")

    def own(self, agent: str | None) -> str | None:
        """Return the agent to filter by: a principal that is bound to one sees only its things.

        Raises:
            Forbidden: it is another agent's.
        """
        return self.agent if agent is None else self.act_as(agent)


#: The principal where no token is needed: a program of the user's own, on this machine.
LOCAL = Principal("local", frozenset({Scope.ADMIN}))
