"""The markers that git puts around a conflict that people are to resolve."""

from __future__ import annotations

from ...schema.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The beginnings of markers. No line of JSON begins so.
_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")

#: The advice about markers.
CURE = (
    "after 'bus setup git', 'git checkout --merge -- FILE' leaves only those around two contents"
    " of one id: keep one of the two lines, without the markers, and 'git add' the file"
)


class ConflictMarkers(Refused):
    """The lines are in conflict: git could not merge them, and nothing has since.

    Attributes:
        number: the line of the first marker.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"line {number} is a conflict marker of git; {CURE}")


def is_marker(line: bytes) -> bool:
    """Whether git put the line there, to mark a conflict."""
    return line.startswith(_MARKERS)


def refuse_markers(lines: Iterable[bytes]) -> None:
    """Raise if a line is a marker.

    Raises:
        ConflictMarkers: one is.
    """
    for number, line in enumerate(lines, 1):
        if is_marker(line):
            raise ConflictMarkers(number)
