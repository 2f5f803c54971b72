"""The report of a repair about each part of a bus."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mended:
    """The repair of one part.

    Attributes:
        part: its name.
        text: what was done, and from what.
        lost: what could not be saved, in words; empty when all was.
    """

    part: str
    text: str
    lost: str = ""
