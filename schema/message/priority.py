"""The urgency of a message, as a number and by name."""

from __future__ import annotations

from enum import IntEnum

from ..errors import InvalidInput, shown


class Priority(IntEnum):
    """The urgency of a message; queues may hand out lower numbers first."""

    INTERACTIVE = 0
    NORMAL = 1
    BACKGROUND = 2


#: The names of the priorities in JSON and on the command line, by number.
PRIORITY_NAMES = tuple(priority.name.lower() for priority in Priority)


def parse_priority(value: object) -> Priority:
    """Return the priority that a name or a number stands for.

    Raises:
        InvalidInput: it stands for none.
    """
    if isinstance(value, str) and value in PRIORITY_NAMES:
        return Priority(PRIORITY_NAMES.index(value))
    if type(value) is int and 0 <= value <= 2:
        return Priority(value)
    raise InvalidInput(f"priority must be {', '.join(PRIORITY_NAMES)}, not {shown(value)}")
