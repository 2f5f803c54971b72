"""Type patterns: `task.done` exactly, `*` for one part, a last `>` for one part or more."""

from __future__ import annotations

from .errors import InvalidInput
from .limits import MAX_TYPE_CHARS


class TypePattern:
    """A compiled type pattern.

    Answers are remembered, because a log has few types and many messages.

    Raises:
        InvalidInput: the pattern is empty, too long, has `>` elsewhere than at the end, or a
            wildcard that is not a whole part.
    """

    __slots__ = ("_known", "_open_ended", "_parts", "exact", "text")

    def __init__(self, text: str) -> None:
        parts = text.split(".")
        mixed = any(part not in ("*", ">") and ("*" in part or ">" in part) for part in parts)
        if mixed or len(text) > MAX_TYPE_CHARS or "" in parts or ">" in parts[:-1]:
            shown = text if len(text) <= 40 else text[:40] + "…"
            raise InvalidInput(f"{shown!a} is not a type pattern like task.done, task.*, or task.>")
        self.text = text
        self._open_ended = parts[-1] == ">"
        self._parts = parts[:-1] if self._open_ended else parts
        #: The one type that matches, or None when the pattern has a wildcard.
        self.exact = None if self._open_ended or "*" in parts else text
        self._known: dict[str, bool] = {}

    def matches(self, type: str) -> bool:
        """Say whether a message type fits."""
        known = self._known.get(type)
        if known is None:
            known = self._known[type] = self._match(type.split("."))
        return known

    def _match(self, parts: list[str]) -> bool:
        enough = (
            len(parts) > len(self._parts) if self._open_ended else (len(parts) == len(self._parts))
        )
        return enough and all(
            want in ("*", have) for want, have in zip(self._parts, parts, strict=False)
        )
