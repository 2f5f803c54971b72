"""The types of messages that are acted upon: the one list, and the right that each needs.

A message of such a type starts an agent program or a plugin, or moves a ref. So it takes a step
that has the right to publish it, and that writes a row beside it; without one, it is only stored.
All other types are free, `state_change` and the other `task.*` too: they tell, and change nothing.
"""

from __future__ import annotations


class ActedType:
    """A type, or all types with a first word, that are acted upon.

    Attributes:
        pattern: the type pattern: one exact type, or `WORD.>`.
        scope: the scope of a token that may have it acted upon, as it is written.
        acts: what comes of a message of it, for people: "runs plugins".
        way: the command that does so for a person here.
    """

    __slots__ = ("acts", "pattern", "scope", "way")

    def __init__(self, pattern: str, scope: str, acts: str, way: str) -> None:
        # By hand: a hook waits for what the making of a dataclass takes.
        self.pattern, self.scope, self.acts, self.way = pattern, scope, acts, way


#: All of them.
ACTED_TYPES = (
    ActedType("task.request", "tasks:rw", "has a planner plan", "bus task request"),
    ActedType("task.job", "tasks:rw", "starts an agent program", "bus task add"),
    ActedType("task.completion", "tasks:rw", "moves a branch", "bus integrate --branch"),
    ActedType("plugin.>", "plugin:rw", "runs a plugin", "bus plugin run"),
    ActedType("schedule.>", "plugin:rw", "runs a plugin", "bus schedule run"),
)

#: The queues of the roles, with their types; and how the names of those of plugins begin.
_QUEUES = {"requests": "task.request", "jobs": "task.job", "completions": "task.completion"}
_OF_PLUGIN = "plugin."

#: Why a message of such a type is not acted upon, for people.
UNPROVEN = "no step that has the right published it"

_EXACT = {each.pattern: each for each in ACTED_TYPES if not each.pattern.endswith(".>")}
_BY_WORD = {each.pattern[:-2]: each for each in ACTED_TYPES if each.pattern.endswith(".>")}


def acted_type(type: str) -> ActedType | None:
    """Return what a message of this type would be acted upon as; None: nothing acts upon it."""
    word, dot, _ = type.partition(".")
    return (_BY_WORD.get(word) or _EXACT.get(type)) if dot else None


def not_acted_upon(type: object) -> str | None:
    """Return the warning for whoever only publishes a message of a type; None: none is needed."""
    if not isinstance(type, str) or "." not in type or (acted := acted_type(type)) is None:
        return None
    return (
        f"nothing acts upon a message of type {type!r} that is only published: what"
        f" {acted.acts} is {acted.way!r}"
    )


def is_acted_queue(name: str, pattern: str) -> bool:
    """Whether a queue is one whose jobs are acted upon: those of the roles, and of each plugin.

    It makes no job of a message by itself: a step does, in the transaction that publishes it.
    """
    return _QUEUES.get(name) == pattern or (name.startswith(_OF_PLUGIN) and pattern == f"{name}.*")
