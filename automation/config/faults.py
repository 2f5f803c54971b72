"""Faults of a configuration: all at once, each with its file, line, path and what to write."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from ...schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The exit status of a refused configuration: EX_CONFIG of sysexits.h.
EX_CONFIG = 78


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong, or that an operator should hear of.

    Attributes:
        file: the file, as it was named.
        line: its line, from 1; 0 is the file as a whole.
        path: the keys that lead there, such as ``plugins.echo.schedules[0].every``; "" is the file.
        message: what is wrong and, where that is known, the form to write.
    """

    file: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"


class ConfigFaults(AckbusError):
    """A configuration is refused as a whole, and whatever was in force stays.

    Attributes:
        faults: every fault, in the order of the files and lines.
        warnings: what an operator should hear of beside.
    """

    exit_code = EX_CONFIG

    def __init__(self, faults: Iterable[Fault], warnings: Iterable[Fault] = ()) -> None:
        self.faults = tuple(sorted(set(faults)))
        self.warnings = tuple(sorted(set(warnings)))
        more = len(self.faults) - 1
        rest = f" (and {more} more fault{'s' * (more > 1)})" if more else ""
        super().__init__(f"{self.faults[0]}{rest}")


def near(given: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a name that is close to known ones, or "".

    Args:
        given: a name that is not known.
        known: those that are.
    """
    matches = get_close_matches(given, list(known), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""
