"""The room that a result has: what an agent's program hands on to its model without a cut.

A program that cuts the middle out of a result tells nobody, and what was cut would count as shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pydantic import BaseModel

#: The most bytes of a result as it is sent, text and structured output together. Codex cuts results
#: of some 12,000.
DEFAULT_BYTES = 8_000

#: The same of programs that are known to take more: Claude Code cuts at 25,000 tokens, and warns
#: from 10,000 on.
_BYTES = {"claude-code": 16_000}

#: Programs that show the model both forms of a result, Codex where its model writes code: their
#: text is its first line alone.
READ_BOTH = frozenset({"copilot-cli", "codex-mcp-client"})

#: The most bytes of a result around its two forms: their names, and who the server is.
_ENVELOPE_BYTES = 200


@dataclass(frozen=True)
class Room:
    """The room that results have for one program.

    Attributes:
        bytes: the most bytes of a result as it is sent, both forms together.
        reads_both: whether the program shows its model both forms.
    """

    bytes: int = DEFAULT_BYTES
    reads_both: bool = False

    @classmethod
    def of(cls, program: str | None) -> Room:
        """Return the room of a program, by the name with which it introduces itself, if any."""
        return cls(_BYTES.get(program or "", DEFAULT_BYTES), program in READ_BOTH)

    def text(self, text: str) -> str:
        """Return the text of a result as it is sent."""
        return text.partition("\n")[0] if self.reads_both else text

    def size(self, text: str, record: BaseModel) -> int:
        """Return the bytes of a result as it is sent."""
        forms = orjson.dumps(self.text(text)), orjson.dumps(as_sent(record))
        return sum(map(len, forms)) + _ENVELOPE_BYTES


def as_sent(record: BaseModel) -> dict[str, Any]:
    """Return a record as structured output: null fields are left out."""
    return record.model_dump(exclude_none=True, by_alias=True)
