"""Loops over stored and computed positions, each of which proves that it comes to an end.

A position comes from a file that any program may have written, or from a library. So a loop goes on
from it only if it is further than the last position; otherwise it ends with an error that names the
place. Positions are values as they are stored, never as they are shown: text that is not UTF-8 is
shown with escapes, which sort elsewhere. `tests/architecture/test_progress.py` finds loops that do
not use this module.
"""

from __future__ import annotations

from .errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    Position = TypeVar("Position")
    Row = TypeVar("Row")


class NoProgress(AckbusError):
    """A loop would begin again where it was: no bus writes such a stored value.

    Attributes:
        position: where the loop was.
        following: where it would have gone.
    """

    def __init__(self, what: str, position: object, following: object) -> None:
        self.position, self.following = position, following
        super().__init__(
            f"{what} can't be read to their end: {_brief(following)} follows {_brief(position)},"
            " which is no order; 'bus doctor --full' examines the file"
        )


def _first(row: Any) -> Any:
    return row[0]


def seq_of(row: Any) -> Any:
    """Return the place of a message or a job."""
    return row.seq


def further(what: str, position: Position, following: Any, *, backwards: bool = False) -> Position:
    """Return a position, if it follows another position.

    Args:
        what: what is walked over, for the error: a plural.
        position: where the loop is.
        following: where it goes on.
        backwards: whether it walks down.

    Raises:
        NoProgress: it is not further, or no position of the same kind.
    """
    try:
        is_further = following < position if backwards else following > position
    except TypeError:  # NULL, or a value of another kind
        is_further = False
    if not is_further:
        raise NoProgress(what, position, following)
    result: Position = following
    return result


def pages(
    read: Callable[[Position], Sequence[Row]],
    after: Position,
    size: int | None = None,
    *,
    place: Callable[[Row], Any] = _first,
    what: str = "the rows",
    backwards: bool = False,
) -> Iterator[Sequence[Row]]:
    """Yield pages of rows, each read by `read(the place of the last row)`.

    No statement and no transaction stays open between pages, however long the reader takes.

    Args:
        read: reads a page after a place.
        after: where to begin.
        size: a shorter page is the last; None: only an empty page is.
        place: the place of a row, as it is stored.
        what: what the rows are, for the error: a plural.
        backwards: whether places fall.

    Raises:
        NoProgress: the last row of a page is not behind the last row of the page before.
    """
    while page := read(after):
        after = further(what, after, place(page[-1]), backwards=backwards)
        yield page
        if size is not None and len(page) < size:
            return


def _brief(position: object) -> str:
    text = ascii(position)
    return text if len(text) <= 100 else f"{text[:97]}..."
