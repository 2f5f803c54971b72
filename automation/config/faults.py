"""Faults of a configuration: all at once, each with its file, line, path and what to write."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...schema.errors import AckbusError
from ...schema.message.names import near_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: The exit status of a refused configuration: EX_CONFIG of sysexits.h.
EX_CONFIG = 78


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """A fault or a warning of a configuration.

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
    """The configuration is refused as a whole; the active one stays in force.

    Attributes:
        faults: every fault, in the order of the files and lines.
        warnings: what an operator should know besides.
    """

    exit_code = EX_CONFIG

    def __init__(self, faults: Iterable[Fault], warnings: Iterable[Fault] = ()) -> None:
        self.faults = tuple(sorted(set(faults)))
        self.warnings = tuple(sorted(set(warnings)))
        more = len(self.faults) - 1
        rest = f" (and {more} more fault{'s' * (more > 1)})" if more else ""
        super().__init__(f"{self.faults[0]}{rest}")


def without_values(
    faults: Iterable[Fault], plain: Iterable[Fault], values: Iterable[str]
) -> list[Fault]:
    """Return faults whose messages contain no part of a variable's value.

    Args:
        faults: of a configuration whose variables were filled.
        plain: of the same configuration with unfilled variables.
        values: the values of the variables.
    """
    unfilled = set(plain)
    secrets = list(values)
    return [
        _hidden(fault, unfilled)
        if fault not in unfilled and any(shares_piece(fault.message, value) for value in secrets)
        else fault
        for fault in faults
    ]


def shares_piece(text: str, value: str) -> bool:
    """Whether a text shares three characters in a row with a value, so may reveal a part of it."""
    folded = text.casefold()
    return any(piece in folded for piece in _pieces(value) if piece)


#: A message that shares so many characters in a row with a value may repeat a part of it.
_PIECE = 3


def _pieces(text: str) -> set[str]:
    text = text.casefold()
    return {text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1)} or {text}


def _hidden(fault: Fault, unfilled: set[Fault]) -> Fault:
    """Return a fault with the message that it has when no variable is filled."""
    place = (fault.file, fault.line, fault.path)
    plain = sorted(
        other.message for other in unfilled if (other.file, other.line, other.path) == place
    )
    message = "the value of a variable is refused here"
    return replace(fault, message=f"{message}: {plain[0]}" if plain else message)


def near(name: str, names: Iterable[str]) -> str:
    """Return ``; did you mean …?`` for a name that is close to known ones, or "".

    Args:
        name: a name that is not among them.
        names: the names that exist.
    """
    matches = near_names(name, names, cutoff=0.7)[:2]
    return f"; did you mean {' or '.join(map(repr, matches))}?" if matches else ""
