"""Tokens: what programs show to be let in.

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

from ..schema import MAX_TS_MS, Database, InvalidInput, NotFound, Queries, Refused, check_agent
from .errors import Unauthorized
from .principals import Principal, Scope

SQL = Queries(beside=__file__)

_FORM = re.compile(r"bus_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

#: What an unknown token is compared with, so that it takes as long as a known one.
_NOBODY = hashlib.sha256(b"").digest()


@dataclass(frozen=True)
class Token:
    """A token without its secret, which nobody can tell.

    Attributes:
        id: by which it is found; it is a part of the token.
        name: what people call it; one that replaces another has the same.
        scopes: what it is good for.
        agent: the only agent that it may act for; None: any.
        created_at_ms: when it was made, in epoch milliseconds.
        expires_at_ms: from when on it is no longer good; None: never.
    """

    id: str
    name: str
    scopes: frozenset[Scope]
    agent: str | None
    created_at_ms: int
    expires_at_ms: int | None

    @property
    def principal(self) -> Principal:
        """Who shows it."""
        return Principal(self.name, self.scopes, self.agent)


class Tokens:
    """The table `access_tokens`."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            scopes: what it is good for; at least one.
            agent: the only agent that it may act for; None: any.
            ttl_s: after how many seconds it is no longer good; None: it stays good.

        Raises:
            InvalidInput: the name, the agent or the scopes break a rule.
            Refused: a token of this name is good; it can be rotated.
        """
        scopes = frozenset(scopes)
        if not _NAME.fullmatch(name):
            raise InvalidInput(f"{name[:64]!a} is not a name of a token, like deploy or ci-1")
        if agent is not None:
            check_agent(agent, "agent")
        if not scopes:
            raise InvalidInput("a token needs a scope, such as messages:rw")
        with self._database.write():
            if self._good(name):
                raise Refused(f"there is a token {name!r}; 'bus token rotate {name}' replaces it")
            return self._add(name, scopes, agent, ttl_s)

    def rotate(self, name: str, *, overlap_s: float, ttl_s: float | None = None) -> str:
        """Make a token that is good for the same, and let the one before it end.

        Args:
            name: of both.
            overlap_s: for how many seconds the old one stays good; 0: it ends at once.
            ttl_s: as for `create`.

        Raises:
            NotFound: no token of this name is good.
        """
        with self._database.write():
            before = self._good(name)
            if not before:
                raise NotFound(f"no token {name!r} is good; make one with 'bus token create'")
            ends_ms = self._database.now_ms() + round(overlap_s * 1000)
            self._database.change(SQL["end_tokens"], (ends_ms, name, ends_ms))
            return self._add(name, before[-1].scopes, before[-1].agent, ttl_s)

    def remove(self, name: str) -> int:
        """Let the tokens of a name be good no longer; return how many there were."""
        return len(self._database.change(SQL["remove_tokens"], (name,)))

    def all(self) -> list[Token]:
        """Return all tokens, ended ones too, by name, and the newest of each last."""
        return [_token(row) for row in self._database.rows(SQL["tokens"])]

    def are_needed(self) -> bool:
        """Whether there is a token, be it good or not: then nobody is let in without one."""
        return bool(self._database.value(SQL["has_tokens"]))

    def holder(self, text: str) -> Principal:
        """Return who shows a token.

        Raises:
            Unauthorized: it is no token, or is not good any more.
        """
        form = _FORM.fullmatch(text)
        row = form and self._database.row(SQL["token"], (form[1],))
        digest = _digest(form[2] if form else "")
        *fields, stored = row or (_NOBODY,)
        if not hmac.compare_digest(digest, stored) or not row:
            raise Unauthorized("nobody has this token; see 'bus token list'")
        token = _token(fields)
        if token.expires_at_ms is not None and token.expires_at_ms <= self._database.now_ms():
            raise Unauthorized(f"token {token.name!r} is out of date; 'bus token create' makes one")
        return token.principal

    def _good(self, name: str) -> list[Token]:
        now_ms = self._database.now_ms()
        return [_token(row) for row in self._database.rows(SQL["good_tokens"], (name, now_ms))]

    def _add(
        self, name: str, scopes: frozenset[Scope], agent: str | None, ttl_s: float | None
    ) -> str:
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        now_ms = self._database.now_ms()
        expires_ms = None if ttl_s is None else now_ms + round(ttl_s * 1000)
        if expires_ms is not None and not now_ms < expires_ms <= MAX_TS_MS:
            raise InvalidInput("a token is good for some time, and not beyond the year 9999")
        row = (id, name, json.dumps(sorted(scopes)), agent, now_ms, expires_ms, _digest(secret))
        self._database.change(SQL["add_token"], row)
        return f"bus_{id}_{secret}"


def _token(row: Iterable[object]) -> Token:
    id, name, scopes, agent, created_at_ms, expires_at_ms = row
    # What another version wrote, and this one does not know, is good for nothing.
    known = frozenset(scope for scope in Scope if scope in json.loads(str(scopes)))
    return Token(id, name, known, agent, created_at_ms, expires_at_ms)  # type: ignore[arg-type]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
