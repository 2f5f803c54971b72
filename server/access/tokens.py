"""Access tokens, the credentials of clients; and principals, the clients with their scopes.

A token is `bus_`, a name by which its row is found, and a secret of 256 random bits, of which only
the hash is stored: a slow hash would protect guessable words, and there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...schema.errors import AckbusError, AckPastEnd, InvalidInput, NotFound, Refused
from ...schema.message.names import check_agent
from ...schema.message.patterns import ACTED_TYPES, TypePattern, acted_type
from ...schema.message.times import MAX_TS_MS
from ...schema.queries import Queries, Table
from ...subscribers.jobs.policy import AUTOMATION
from ...tasks.records.task import TARGET_LEASE, TASK_LEASE
from ...tasks.steps.messages import JOBS, QUEUES, REQUESTS

# The errors of the server itself: authentication, rates, and conflicts of requests.


class Unauthorized(AckbusError):
    """The request shows no token, or an unknown or expired one."""


class Forbidden(AckbusError):
    """The principal is known, but lacks the right to do this."""


class TooManyRequests(AckbusError):
    """The principal exceeds its rate of requests.

    Attributes:
        retry_after_s: the seconds until its next request is allowed.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class AfterTheEnd(AckPastEnd):
    """The cursor is beyond the end of the log."""

    def __init__(self, after: int, newest: int) -> None:
        super().__init__(f"there is no message {after} yet: the newest is {newest}")


class Held(Refused):
    """A lease is held by another holder.

    Attributes:
        held: the lease, as it is listed.
    """

    def __init__(self, text: str, record: dict[str, Any]) -> None:
        self.held = record
        super().__init__(text)


class Reserved(Refused):
    """Files are reserved by others.

    Attributes:
        conflicts: the paths, and the reservations of others that they meet.
    """

    def __init__(self, text: str, conflicts: list[dict[str, Any]]) -> None:
        self.conflicts = conflicts
        super().__init__(text)


# Principals: the authenticated clients of the server, and their scopes.


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
        """Return which scopes are missing, and the command for a token that has them too."""
        named = " and ".join(repr(scope.value) for scope in missing)
        kind = "scope" if len(missing) == 1 else "scopes"
        options = "".join(f" --scope {scope.value}" for scope in sorted({*self.scopes, *missing}))
        agent = "" if self.agent is None else f" --agent {shlex.quote(self.agent)}"
        make = f"bus token create NAME{options}{agent}"
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
            InvalidInput: the request names no agent, and the token is bound to none.
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
        """Refuse an act of the holder alone to a principal that is bound to another agent.

        Args:
            holder: the agent that has the claim, or had it last; None: nobody.

        Raises:
            Forbidden: the claim is not the principal's.
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

SQL = Queries(beside=__file__)

_FORM = re.compile(r"bus_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: The digest that an unknown token is compared with, so that it takes as long as a known one.
_NOBODY = hashlib.sha256(b"").digest()


@dataclass(frozen=True)
class Token:
    """A token without its secret, which is not stored.

    Attributes:
        id: the part of the token by which it is found.
        name: its name for people; a token that replaces another has the same.
        scopes: the rights that it grants.
        agent: the only agent that it may act for; None: any.
        created_at_ms: when it was made, in epoch milliseconds.
        expires_at_ms: when it expires, in epoch milliseconds; None: never.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    agent: str | None
    created_at_ms: int
    expires_at_ms: int | None

    @property
    def principal(self) -> Principal:
        """The client that shows this token."""
        return Principal(self.name, self.scopes, self.agent)


class Tokens(Table):
    """The table `access_tokens`."""

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        *,
        agent: str | None = None,
        ttl_s: float | None = None,
    ) -> str:
        """Make a token, and return it: it is never shown again.

        Args:
            name: 1 to 64 of letters, digits, `.`, `_` and `-`.
            scopes: the rights that it grants; at least one.
            agent: the only agent that it may act for; None: any.
            ttl_s: the seconds until it expires; None: never.

        Raises:
            InvalidInput: the name, the agent or the scopes break a rule.
            Refused: a valid token has this name; it can be rotated.
        """
        scopes = frozenset(scopes)
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:64]!a} is not a name of a token, like deploy or ci-1")
        if agent is not None:
            check_agent(agent, "agent")
        if not scopes:
            raise InvalidInput("a token needs a scope, such as messages:rw")
        with self._engine.write():
            if self._valid_tokens(name):
                raise Refused(f"there is a token {name!r}; 'bus token rotate {name}' replaces it")
            return self._add(name, scopes, agent, ttl_s)

    def rotate(self, name: str, *, overlap_s: float, ttl_s: float | None = None) -> str:
        """Make a token with the same rights, and expire the one before it.

        Args:
            name: the name of both.
            overlap_s: the seconds for which the old one stays valid; 0: it expires at once.
            ttl_s: as for `create`.

        Raises:
            NotFound: no valid token has this name.
        """
        with self._engine.write():
            before = self._valid_tokens(name)
            if not before:
                raise NotFound(f"no valid token {name!r}; make one with 'bus token create'")
            ends_ms = self._engine.now_ms() + round(overlap_s * 1000)
            self._engine.change(SQL["end_tokens"], (ends_ms, name, ends_ms))
            return self._add(name, before[-1].scopes, before[-1].agent, ttl_s)

    def remove(self, name: str) -> int:
        """Revoke the tokens of a name; return how many there were."""
        return len(self._engine.change(SQL["remove_tokens"], (name,)))

    def all(self) -> list[Token]:
        """Return all tokens, expired ones too, by name, and the newest of each last."""
        return [_token(row) for row in self._engine.rows(SQL["tokens"])]

    def are_needed(self) -> bool:
        """Whether there is a token, valid or not: then every request needs one."""
        return bool(self._engine.value(SQL["has_tokens"]))

    def holder(self, text: str) -> Principal:
        """Return the principal of a token.

        Raises:
            Unauthorized: the token is unknown or expired.
        """
        form = _FORM.fullmatch(text)
        row = form and self._engine.row(SQL["token"], (form[1],))
        digest = _digest(form[2] if form else "")
        *fields, stored = row or (_NOBODY,)
        if not hmac.compare_digest(digest, stored) or not row:
            raise Unauthorized("unknown token; see 'bus token list'")
        token = _token(fields)
        if token.expires_at_ms is not None and token.expires_at_ms <= self._engine.now_ms():
            raise Unauthorized(
                f"token {token.name!r} has expired; 'bus token create' makes another"
            )
        return token.principal

    def _valid_tokens(self, name: str) -> list[Token]:
        now_ms = self._engine.now_ms()
        return [_token(row) for row in self._engine.rows(SQL["good_tokens"], (name, now_ms))]

    def _add(
        self, name: str, scopes: frozenset[Scope], agent: str | None, ttl_s: float | None
    ) -> str:
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        now_ms = self._engine.now_ms()
        expires_ms = None if ttl_s is None else now_ms + round(ttl_s * 1000)
        if expires_ms is not None and not now_ms < expires_ms <= MAX_TS_MS:
            raise InvalidInput("a token's lifetime must be positive, and end before the year 10000")
        row = (id, name, json.dumps(sorted(scopes)), agent, now_ms, expires_ms, _digest(secret))
        self._engine.change(SQL["add_token"], row)
        return f"bus_{id}_{secret}"


def _token(row: Iterable[object]) -> Token:
    id, name, scopes, agent, created_at_ms, expires_at_ms = row
    # A scope of another version, which this one does not know, grants nothing.
    granted = frozenset(scope for scope in Scope if scope in json.loads(str(scopes)))
    return Token(id, name, granted, agent, created_at_ms, expires_at_ms)  # type: ignore[arg-type]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
