"""Type patterns, and the types of messages that are acted upon."""

from __future__ import annotations

from ..errors import InvalidInput, shown
from .names import MAX_TYPE_CHARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


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
            raise InvalidInput(
                f"{shown(text)} is not a type pattern like task.done, task.*, or task.>"
            )
        self.text = text
        self._open_ended = parts[-1] == ">"
        self._parts = parts[:-1] if self._open_ended else parts
        #: The only type that matches, or None when the pattern has a wildcard.
        self.exact = None if self._open_ended or "*" in parts else text
        self._known: dict[str, bool] = {}

    def matches(self, type: str) -> bool:
        """Return whether a message type fits."""
        is_match = self._known.get(type)
        if is_match is None:
            is_match = self._known[type] = self._match(type.split("."))
        return is_match

    def overlaps(self, other: TypePattern) -> bool:
        """Say whether some type would fit both patterns."""
        fits = all(a == b or "*" in (a, b) for a, b in zip(self._parts, other._parts, strict=False))
        return fits and self._can_have(other) and other._can_have(self)

    def _can_have(self, other: TypePattern) -> bool:
        """Say whether types of another pattern can have as many parts as this one asks for."""
        if self._open_ended:
            return other._open_ended or len(other._parts) > len(self._parts)
        return other._open_ended or len(other._parts) == len(self._parts)

    def as_glob(self) -> tuple[str, int | None]:
        """Return what SQL needs to match types: a pattern for GLOB, and how many dots a type has.

        The number is None when any number will do.

        Raises:
            InvalidInput: a word stands between a `*` and a last `>`, which GLOB can't tell.
        """
        if self._open_ended and "*" in self._parts:
            after_star = self._parts[self._parts.index("*") :]
            if any(part != "*" for part in after_star):
                raise InvalidInput(f"{self.text!r} can't be counted: a word stands after its '*'")
        return self.glob, None if self._open_ended else len(self._parts) - 1

    @property
    def glob(self) -> str:
        """A pattern for GLOB, which all types fit that match, and perhaps others."""
        parts = [*self._parts, "*"] if self._open_ended else self._parts
        return ".".join(parts).replace("[", "[[]").replace("?", "[?]")

    def _match(self, parts: list[str]) -> bool:
        enough = (
            len(parts) > len(self._parts) if self._open_ended else (len(parts) == len(self._parts))
        )
        return enough and all(
            want in ("*", have) for want, have in zip(self._parts, parts, strict=False)
        )


class AnyPattern:
    """Several type patterns; a type fits if it fits any of them.

    Raises:
        InvalidInput: a text is no type pattern.
    """

    __slots__ = ("_patterns",)

    #: No single type, and nothing that all have: see `TypePattern`.
    exact, glob, text = None, None, ""

    def __init__(self, texts: Iterable[str]) -> None:
        self._patterns = [TypePattern(text) for text in texts]

    def matches(self, type: str) -> bool:
        """Return whether a message type fits any of them."""
        return any(pattern.matches(type) for pattern in self._patterns)


def pattern_of(type: str | Sequence[str] | None) -> TypePattern | AnyPattern | None:
    """Return the filter for a pattern, several patterns, or None."""
    if type is None or isinstance(type, str):
        return None if type is None else TypePattern(type)
    return TypePattern(type[0]) if len(type) == 1 else AnyPattern(type) if type else None


def check_pattern(text: str) -> None:
    """Refuse a pattern that no valid message type can match.

    Only what is new is checked: other programs can store other types, and patterns for them.
    """
    TypePattern(text)
    if " " in text or not text.isprintable() or text.startswith("-"):
        raise InvalidInput(
            f"{shown(text)} is not a type pattern: dotted words without spaces, like task.done,"
            " task.*, or task.>"
        )


# The list of the message types that are acted upon, and the right that each needs.
#
# A message of such a type starts an agent program or a plugin, or moves a ref. So only a step with
# the right to do that may publish it; the step writes a row beside it. Without that row the message
# is only stored. All other types are free, `state_change` and the other `task.*` too: they inform,
# and change nothing.


class ActedType:
    """A type, or all types with a first word, that are acted upon.

    Attributes:
        pattern: the type pattern: one exact type, or `WORD.>`.
        scope: the scope of a token that may publish it for action, as it is written.
        acts: what a message of the type does, for people: "runs plugins".
        way: the command by which a person does that here.
    """

    __slots__ = ("acts", "pattern", "scope", "way")

    def __init__(self, pattern: str, scope: str, acts: str, way: str) -> None:
        # By hand: a hook waits for what the making of a dataclass takes.
        self.pattern, self.scope, self.acts, self.way = pattern, scope, acts, way


#: All types that are acted upon.
ACTED_TYPES = (
    ActedType("task.request", "tasks:rw", "has a planner plan", "bus task request"),
    ActedType("task.job", "tasks:rw", "starts an agent program", "bus task add"),
    ActedType("task.completion", "tasks:rw", "moves a branch", "bus integrate --branch"),
    ActedType("plugin.>", "plugin:rw", "runs a plugin", "bus plugin run"),
    ActedType("schedule.>", "plugin:rw", "runs a plugin", "bus schedule run"),
)

#: The queues of the roles, with their types; and the beginning of the names of plugins' queues.
_QUEUES = {"requests": "task.request", "jobs": "task.job", "completions": "task.completion"}
_OF_PLUGIN = "plugin."

#: Why a message of a type that is acted upon has no effect, for people.
UNPROVEN = "no step that has the right published it"

_EXACT = {each.pattern: each for each in ACTED_TYPES if not each.pattern.endswith(".>")}
_BY_WORD = {each.pattern[:-2]: each for each in ACTED_TYPES if each.pattern.endswith(".>")}


def acted_type(type: str) -> ActedType | None:
    """Return what a message of this type would be acted upon as; None: nothing acts upon it."""
    word, dot, _ = type.partition(".")
    return (_BY_WORD.get(word) or _EXACT.get(type)) if dot else None


def not_acted_upon(type: object) -> str | None:
    """Return the warning for a publisher of a type that is acted upon; None for other types."""
    if not isinstance(type, str) or "." not in type or (acted := acted_type(type)) is None:
        return None
    return (
        f"nothing acts upon a message of type {type!r} that is only published: what"
        f" {acted.acts} is {acted.way!r}"
    )


def is_acted_queue(name: str, pattern: str) -> bool:
    """Whether a queue belongs to a role or a plugin, so that its jobs are acted upon.

    Such a queue does not make jobs of messages: a step does, in the transaction that publishes one.
    """
    return _QUEUES.get(name) == pattern or (name.startswith(_OF_PLUGIN) and pattern == f"{name}.*")
