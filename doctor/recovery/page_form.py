"""The size of a file's pages, and the number of bytes of each that SQLite uses."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .records import KINDS, Damaged, end_of_content, page_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .raw_file import RawFile

#: All sizes that a page can have.
SIZES = tuple(512 << n for n in range(8))

#: How large the pages of a bus are, unless the file says otherwise.
_PAGE_BYTES = 4096

#: SQLite uses at least so much of a page.
_MIN_USABLE = 480

#: How many pages are tried for a form, and the part of them that is enough for that of the header.
_TRIED, _ENOUGH = 64, 0.5


@dataclass(frozen=True, slots=True)
class Form:
    """The form that all pages of a file share.

    Attributes:
        page_bytes: how large each is.
        usable: how much of it SQLite uses: the rest, at its end, is reserved.
    """

    page_bytes: int
    usable: int


def form_of(file: RawFile, log: RawFile) -> Form:
    """Return the form that the header tells, unless the pages themselves contradict it.

    A header that is damaged tells any form. In a page that is read in its own form, what SQLite
    has stored goes exactly to the end of what it uses.
    """
    first, *others = _candidates(file, log)
    fit = _fit(file, first)
    if fit >= _ENOUGH:
        return first
    fits = {first: fit} | {each: _fit(file, each) for each in others if each != first}
    return max(fits, key=fits.__getitem__)  # the first of those that fit as well


def _candidates(file: RawFile, log: RawFile) -> Iterator[Form]:
    header, start_of_log = file.read(0, 100), log.read(0, 12)
    reserved = header[20] if len(header) > 20 else 0
    sizes = []
    if len(header) >= 18:
        told = int.from_bytes(header[16:18])
        sizes.append(65536 if told == 1 else told)
    if len(start_of_log) == 12:
        sizes.append(struct.unpack(">I", start_of_log[8:])[0])
    for size in dict.fromkeys([*sizes, _PAGE_BYTES, *SIZES]):
        if size in SIZES:
            if size - reserved >= _MIN_USABLE:
                yield Form(size, size - reserved)
            yield Form(size, size)


def _fit(file: RawFile, form: Form) -> float:
    """Return which part of the pages that look like those of a tree are so in this form."""
    looked_at = fitting = 0
    size = form.page_bytes
    for start in range(size, min(file.size, _TRIED * size), size):
        data = file.read(start, form.usable)
        if data[:1] in _FIRST_BYTES:
            looked_at += 1
            fitting += _ends_as_it_should(data)
    return fitting / looked_at if looked_at else 0.0


def _ends_as_it_should(data: bytes) -> bool:
    try:
        return end_of_content(page_of(2, data)) == len(data)
    except Damaged:
        return False


_FIRST_BYTES = {bytes([kind]) for kind in KINDS}
