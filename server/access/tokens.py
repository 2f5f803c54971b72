"""Access tokens: the credentials of the server's clients.

A token is `bus_`, a name by which its row is found, and a secret of 256 random bits, of which only
the hash is stored: a slow hash would protect guessable words, and there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.names import check_agent
from ...schema.message.times import MAX_TS_MS
from ...schema.queries import Queries, Table
from .errors import Unauthorized
from .principals import Principal, Scope

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
            if self._good(name):
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
            before = self._good(name)
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

    def _good(self, name: str) -> list[Token]:
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
    known = frozenset(scope for scope in Scope if scope in json.loads(str(scopes)))
    return Token(id, name, known, agent, created_at_ms, expires_at_ms)  # type: ignore[arg-type]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
