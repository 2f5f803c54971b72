"""Parts of the records of a configuration: frozen objects, places in files, secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from .faults import Fault

_Value = TypeVar("_Value")


class Frozen(dict[str, _Value]):
    """A JSON object that stays as it is, with tuples for lists; JSON writers take it as a dict."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("a configuration that was taken does not change")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Frozen[_Value]], tuple[dict[str, _Value]]]:
        return (Frozen, (dict(self),))


@dataclass(frozen=True, slots=True)
class Place:
    """The place of something in the files: for faults that are found later."""

    file: str
    line: int
    path: str

    def fault(self, message: str) -> Fault:
        """Return a fault of what stands here."""
        return Fault(self.file, self.line, self.path, message)


NOWHERE = Place("", 0, "")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, which only `reveal` shows: no message, record or traceback repeats it."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __str__(self) -> str:
        return "[REDACTED]"
