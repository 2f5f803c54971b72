"""Values of a configuration that need no library: frozen objects, places in files, secrets.

Code that only uses a configuration imports this module; its models load the library that checks it.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeVar

from .faults import Fault

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
