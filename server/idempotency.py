"""The header `Idempotency-Key`: it makes the ids of what a request publishes.

A client that repeats a request under its key publishes nothing twice, without ids of its own. A key
counts within its token and agent: the keys of others are other keys.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import orjson

from ..schema.errors import InvalidInput

HEADER = "Idempotency-Key"

#: A key: printable ASCII, as it is or in the quotes of a structured header.
_KEY = re.compile(r"[!#-~]{1,255}")

#: How the ids begin that keys make.
_BEGIN = "key-"


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a request, or that it has none.

    Attributes:
        text: the key; None: each message has the id that its body gives, or a new one.
        token: the name of the client's token.
    """

    text: str | None = None
    token: str = ""

    @classmethod
    def parse(cls, header: str | None, token: str) -> Key:
        """Return the key of a header.

        Raises:
            InvalidInput: it is none.
        """
        if header is None:
            return cls()
        quoted = len(header) > 1 and header[0] == header[-1] == '"'
        text = header[1:-1] if quoted else header
        if not _KEY.fullmatch(text):
            raise InvalidInput(f"{HEADER} has 1 to 255 printable ASCII characters, no blanks")
        return cls(text, token)

    def id_for(self, agent: str, number: int, given: str | None) -> str | None:
        """Return the id of a message.

        Args:
            agent: its sender.
            number: which message of the request it is, from 0.
            given: the id that its body gives; it may be the key, or what that makes.

        Raises:
            InvalidInput: the body gives another id.
        """
        if self.text is None:
            return given
        parts = orjson.dumps([self.token, agent, self.text, number])
        made = _BEGIN + hashlib.sha256(parts).hexdigest()[:40]
        if given not in (None, made) and (given != self.text or number):
            raise InvalidInput(
                f"the body has the id {given!a}, and {HEADER} makes another one: give one of both"
            )
        return made
