"""The form of a row in the table of the doors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .principals import Scope


class Names(StrEnum):
    """The name under which an operation acts. A token that is bound to an agent has that alone."""

    NONE = "the request names no agent"
    ANY = "as the agent that the request names; a bound token as its own"
    HOLDER = "as the agent that has the job or the lease; a bound token has to be it"


class Also(StrEnum):
    """A further demand of an operation, by what the request is about."""

    NOTHING = "nothing"
    SENT = "the scope of each type that is acted upon, and that it sends"
    FILLED = "the scope of each type that is acted upon, and that its queue takes in"
    TAKEN = "the same, but not for a queue of `task.request` or `task.job` alone"
    LEASED = "`tasks:rw` for leases on tasks and targets"
    COMMANDED = "`plugin:rw`, unless the command is of the type `read`"
    DECIDED = "`tasks:rw` for a person's word: to answer, approve, reject or deny"


@dataclass(frozen=True, slots=True)
class Row:
    """The demands of one operation on the client that shows a token.

    Attributes:
        scopes: the scopes that it needs, all of them; None: it needs no token at all.
        names: under which name it acts.
        also: what else it asks, by what the request is about.
        under_claim: a scope that is enough for what comes under a claim of the client's own, which
            the operation looks for; None: there is nothing of that kind.
    """

    scopes: frozenset[Scope] | None
    names: Names = Names.NONE
    also: Also = Also.NOTHING
    under_claim: Scope | None = None


#: The operations of one door: `METHOD /path`, `WS /path`, or the name of a tool or a resource.
Door = Mapping[str, Row]


def needs_all(
    *scopes: Scope,
    names: Names = Names.NONE,
    also: Also = Also.NOTHING,
    under_claim: Scope | None = None,
) -> Row:
    """Return the row of an operation that needs a token with all these scopes."""
    return Row(frozenset(scopes), names, also, under_claim)


#: The row of an operation that needs no token.
OPEN = Row(None)
