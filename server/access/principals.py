"""Principals: the authenticated clients of the server, and their scopes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum

from ...schema.errors import InvalidInput
from ...schema.message.acted_types import ACTED_TYPES, acted_type
from ...schema.message.patterns import TypePattern
from ...subscribers.jobs.policy import AUTOMATION
from ...tasks.records.task import TARGET_LEASE, TASK_LEASE
from ...tasks.steps.messages import JOBS, QUEUES, REQUESTS
from .errors import Forbidden


class Scope(StrEnum):
    """A right that a token grants."""

    MESSAGES_RO = "messages:ro"
    MESSAGES_RW = "messages:rw"
    WORK_RO = "work:ro"
    WORK_RW = "work:rw"
    TASKS_RW = "tasks:rw"
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


#: The types that are acted upon whose jobs `work:rw` may take: those of planners and workers.
_FOR_WORKERS = frozenset({QUEUES[REQUESTS], QUEUES[JOBS]})


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

    def require(self, *scopes: Scope, why: str = "") -> None:
        """Refuse what needs scopes that the principal does not have.

        Args:
            scopes: all of them are needed.
            why: what needs them, with a colon and a space at its end.

        Raises:
            Forbidden: one is missing; the error names each, and the command that grants it.
        """
        missing = [scope for scope in scopes if not self.may(scope)]
        if missing:
            raise Forbidden(f"{why}{self._lacks(missing)}")

    def _lacks(self, missing: list[Scope]) -> str:
        """Return what is missing, and the command that makes a token that has it, and the old."""
        named = " and ".join(repr(scope.value) for scope in missing)
        kind = "scope" if len(missing) == 1 else "scopes"
        wanted = "".join(f" --scope {scope.value}" for scope in sorted({*self.scopes, *missing}))
        agent = "" if self.agent is None else f" --agent {shlex.quote(self.agent)}"
        make = f"bus token create NAME{wanted}{agent}"
        return f"this token has no {kind} {named}; {make!r} makes one that has"

    def check_may_send(self, type: str) -> None:
        """Refuse a message of a type that is acted upon, unless a scope allows it.

        Raises:
            Forbidden: no scope does.
        """
        acted = acted_type(type)
        if acted is not None:
            why = f"a message of type {type[:80]!a} {acted.acts}: "
            self.require(Scope(acted.scope), why=why)

    def check_may_change(self, queue: str, pattern: str) -> None:
        """Refuse to make or change a queue that takes in types that are acted upon.

        Args:
            queue: its name, which may be that of a queue of tasks or of a plugin.
            pattern: of the types that it takes in.

        Raises:
            Forbidden: no scope allows it.
        """
        self._check_taking(queue, pattern)
        named = acted_type(QUEUES.get(queue, queue))
        if named is not None:
            why = f"queue {queue[:80]!a} is one of {named.pattern!r}, which {named.acts}: "
            self.require(Scope(named.scope), why=why)

    def check_may_take(self, queue: str, pattern: str) -> None:
        """Refuse to claim or end a job of a queue, as `check_may_change`, but for workers' types.

        Raises:
            Forbidden: no scope allows it.
        """
        if pattern not in _FOR_WORKERS:
            self._check_taking(queue, pattern)

    def _check_taking(self, queue: str, pattern: str) -> None:
        theirs = TypePattern(pattern)
        for acted in ACTED_TYPES:
            if theirs.overlaps(TypePattern(acted.pattern)):
                why = f"queue {queue[:80]!a} takes in {acted.pattern!r}, which {acted.acts}: "
                self.require(Scope(acted.scope), why=why)

    def check_may_lease(self, name: str) -> None:
        """Refuse a lease by which a task or a target is held, unless a scope allows it.

        Raises:
            Forbidden: no scope does.
        """
        if name.startswith((TASK_LEASE, TARGET_LEASE)):
            self.require(Scope.TASKS_RW, why=f"lease {name[:80]!a} is one of tasks: ")

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

    def check_holds(self, holder: str | None) -> None:
        """Refuse what its holder alone may do, to a principal that is bound to another agent.

        Args:
            holder: the agent that has it, or had it last; None: nobody.

        Raises:
            Forbidden: it is not the principal's.
        """
        if self.agent is not None and holder != self.agent:
            whose = "nobody's" if holder is None else f"that of {holder!r}"
            raise Forbidden(f"this token acts for agent {self.agent!r}, and the claim is {whose}")

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
