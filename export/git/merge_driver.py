"""The merge driver: the union of two files by id."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from .lines import messages_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .lines import Line


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a merge.

    Attributes:
        lines: the merged file.
        conflicts: the ids that have another content on each side; both lines are in the file,
            between git's markers.
    """

    lines: list[bytes]
    conflicts: list[str]


def merge(ours: Iterable[bytes], theirs: Iterable[bytes]) -> Merged:
    """Merge two files. It makes no difference which is which, nor what both began from.

    Messages never change, so what a side lacks is what it has not got yet.

    Raises:
        InvalidInput: a line is no message.
    """
    left, right = messages_in(ours, "our side"), messages_in(theirs, "their side")
    merged = left | right
    conflicts = []
    for id in sorted(left.keys() & right.keys()):
        if left[id] == right[id]:
            continue
        if _content(left[id]) == _content(right[id]):
            merged[id] = min(left[id], right[id])
        else:
            conflicts.append(id)
    lines: list[bytes] = []
    for line in sorted(merged.values()):
        id = line[1]
        if id in conflicts:
            both = (b"<<<<<<< ours", left[id][2], b"=======", right[id][2], b">>>>>>> theirs")
            lines += [part + b"\n" for part in both]
        else:
            lines.append(line[2] + b"\n")
    return Merged(lines, conflicts)


def _content(line: Line) -> object:
    """Return what makes two messages the same: all but the time, whatever the spelling."""
    record: dict[str, object] = orjson.loads(line[2])
    return {name: value for name, value in record.items() if name not in ("seq", "ts")}
