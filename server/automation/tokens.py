"""Tokens of a configuration, and the principals that show them."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable

from ...automation.config.snapshot import TokenConfig
from ..access.principals import Principal, Scope

#: The scope of a configuration that has all others in it.
_ALL = "*"


class ConfigTokens:
    """The tokens of a configuration. Those without scopes are secrets of webhooks, and no tokens.

    Args:
        tokens: of a configuration; where several have one key, it has the scopes of all.
    """

    def __init__(self, tokens: Iterable[TokenConfig]) -> None:
        names: dict[str, str] = {}
        scopes: dict[str, set[Scope]] = defaultdict(set)
        for token in tokens:
            key = token.key.reveal()
            if key and token.scopes:
                names.setdefault(key, token.name)
                scopes[key] |= {Scope.ADMIN if s == _ALL else Scope(s) for s in token.scopes}
        self._principals = [
            (_digest(key.encode(errors="surrogateescape")), Principal(name, frozenset(scopes[key])))
            for key, name in names.items()
        ]

    def holder(self, token: bytes) -> Principal | None:
        """Return the principal that shows a token, None where it is none of these.

        It takes as long for every text: all tokens are compared, each in constant time.
        """
        digest, found = _digest(token), None
        for known, principal in self._principals:
            if hmac.compare_digest(digest, known):
                found = principal
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
