"""The merge driver: the union of two files by id."""

from __future__ import annotations

from dataclasses import dataclass

from .git_lines import are_same, messages_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge.

    Attributes:
        lines: the merged file.
        conflicts: the ids that have another content on each side; both lines are in the file,
            between git's markers.
    """

    lines: list[bytes]
    conflicts: list[str]


def merge(ours: Iterable[bytes], theirs: Iterable[bytes]) -> Merged:
    """Merge two files, by the union of their messages. Their order and base make no difference.

    Messages never change, so a message that a side lacks has not reached it yet.

    Raises:
        InvalidInput: a line is not a message, or one side has two contents of a message.
    """
    left, right = messages_in(ours, "our side"), messages_in(theirs, "their side")
    both = left.keys() & right.keys()
    conflicts = {id for id in both if not are_same(left[id], right[id])}
    merged = left | right | {id: min(left[id], right[id]) for id in both}
    lines: list[bytes] = []
    for _, id, line in sorted(merged.values()):
        if id in conflicts:
            both_lines = (b"<<<<<<< ours", left[id][2], b"=======", right[id][2], b">>>>>>> theirs")
            lines += [part + b"\n" for part in both_lines]
        else:
            lines.append(line + b"\n")
    return Merged(lines, sorted(conflicts))
