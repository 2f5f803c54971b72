"""Values of a configuration that need no library, and its faults.

Code that only uses a configuration imports this module; its models load the library that checks it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NoReturn, TypeVar

from ...schema.errors import AckbusError, suggestion
from ...schema.message.names import near_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Faults of a configuration: all at once, each with its file, line, path and what to write.

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
    return suggestion(map(repr, matches))


_Value = TypeVar("_Value")


class Frozen(dict[str, _Value]):
    """A JSON object that stays as it is, with tuples for lists; JSON writers take it as a dict."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a loaded configuration can't be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Frozen[_Value]], tuple[dict[str, _Value]]]:
        return (Frozen, (dict(self),))


def frozen(value: Any) -> Any:
    """Return a JSON value that does not change."""
    if isinstance(value, dict):
        return Frozen({key: frozen(member) for key, member in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place of a setting in the configuration files, for faults that are found later."""

    file: str
    line: int
    path: str

    def fault(self, message: str) -> Fault:
        """Return a fault at this location."""
        return Fault(self.file, self.line, self.path, message)


NOWHERE = SourceLocation("", 0, "")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, which only `reveal` shows: no message, record or traceback repeats it."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __str__(self) -> str:
        return "[REDACTED]"


#: The pseudo-plugin that records conditions of steps, and the events that it publishes: a condition
#: holds, or does not. Names of real plugins have no dot.
SWITCH = "core.switch"
SWITCH_EVENTS = {True: "ductile.switch.true", False: "ductile.switch.false"}


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part of a request: a header, or a field of the JSON object that its body is."""

    where: Literal["header", "body"]
    name: str

    def __str__(self) -> str:
        return f"{self.where}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A count of requests in a time; as many may come at once."""

    count: int
    per_s: float


# The key that a secret of a webhook stands for.

#: The beginning of secrets of the standard form; the rest is the key, in base64.
_STANDARD_PREFIX = "whsec_"


def key_of(secret: str, form: str) -> bytes:
    """Return the key of a secret: its bytes, but in the standard form, which has it in base64.

    Raises:
        ValueError: it has another form; the secret is not repeated.
    """
    if form != "standard":
        return secret.encode(errors="surrogateescape")  # a variable may be any bytes
    text = secret.removeprefix(_STANDARD_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError("a secret of the standard form is whsec_ and base64") from error
    if not key:
        raise ValueError("a secret of the standard form is whsec_ and base64")
    return key
