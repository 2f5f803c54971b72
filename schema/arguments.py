"""Arguments of public calls: each is checked against its annotation when the call begins.

A type checker finds a wrong type while a program is written. Most programs that are written by
agents are run without one, so the call itself refuses it, in one line that names the argument,
before anything is stored. The values of a right type are checked by the calls themselves.
"""

from __future__ import annotations

from functools import wraps
from math import isfinite

from .errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    Call = TypeVar("Call", bound=Callable[..., Any])

    #: Whether a value fits, and what an error calls the values that do.
    Rule = tuple[Callable[[Any], bool], str]

#: The flag of a function's code that says that it takes any number of arguments.
_HAS_REST = 0x04

_PACKAGE = __name__.partition(".")[0]

#: The types of which all values fit the annotation of that name: most arguments are such.
_EXACT: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "str": (str,),
    "bytes": (bytes,),
    "bool": (bool,),
    "int": (int,),
    "float": (int,),  # of floats NaN and infinities don't
    "dict": (dict,),
}

#: The rules of names that are no class of this package.
_RULES: dict[str, Rule] = {
    "None": (lambda value: value is None, "None"),
    "str": (lambda value: isinstance(value, str), "text"),
    "bytes": (lambda value: isinstance(value, bytes), "bytes"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: type(value) in (int, float) and isfinite(value), "a finite number"),
    "dict": (lambda value: isinstance(value, dict), "a dict"),
    "tuple": (lambda value: isinstance(value, tuple), "a tuple"),
    "Mapping": (lambda value: hasattr(value, "keys"), "a dict"),
    "Callable": (callable, "a function"),
    "Iterable": (lambda value: _is_iterable(value), "an iterable"),
    "Sequence": (lambda value: _is_iterable(value) and hasattr(value, "__getitem__"), "a list"),
    "BinaryIO": (
        lambda value: hasattr(value, "read") or hasattr(value, "write"),
        "a binary file",
    ),
    "os.PathLike": (lambda value: hasattr(value, "__fspath__"), "a path"),
    "Engine": (lambda value: hasattr(value, "rows"), "an engine"),
    "LastWords": (callable, "a function"),
    "Work": (lambda value: hasattr(value, "do") and hasattr(value, "stop"), "work"),
}

#: The names of what has several values of one type.
_MANY = ("Iterable", "Sequence")

#: The names of words (`Literal`), which the calls look up; and what they are.
_WORDS = ("Durability", "EndStatus", "JobState", "LimitKind", "Literal", "Start")


def checked(call: Call) -> Call:
    """Check the arguments of a call against their annotations, before it begins.

    Raises, when it is called:
        InvalidInput: an argument has another type.
    """
    annotations: dict[str, str] = call.__annotations__
    parameters = {
        name: _Parameter(name, text)
        for name, text in annotations.items()
        if name != "return" and not text.startswith("Unpack[")
    }
    code: Any = call.__code__
    by_place = [parameters.get(name) for name in code.co_varnames[: code.co_argcount]]
    rest = None  # the parameter of all further ones: `*words`
    if code.co_flags & _HAS_REST:
        rest = parameters[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]

    @wraps(call)
    def begin(*args: Any, **named: Any) -> Any:
        for parameter, value in zip(by_place, args, strict=False):
            if parameter is not None and type(value) not in parameter.sure:
                parameter.check(value)
        if rest is not None:
            for value in args[len(by_place) :]:
                rest.check(value)
        for name, value in named.items():
            parameter = parameters.get(name)
            if parameter is not None and type(value) not in parameter.sure:
                parameter.check(value)
        return call(*args, **named)

    return begin  # type: ignore[return-value]


def with_checked_arguments(kind: type[T]) -> type[T]:
    """Check the arguments of all public methods of a class, and of its own constructor."""
    for name, member in [*vars(kind).items()]:
        is_public = name == "__init__" or not name.startswith("_")
        if is_public and isinstance(member, classmethod):
            setattr(kind, name, classmethod(checked(member.__func__)))
        elif is_public and hasattr(member, "__code__"):
            setattr(kind, name, checked(member))
    return kind


class _Parameter:
    """A parameter with its annotation.

    Attributes:
        sure: the types of which every value fits.
    """

    def __init__(self, name: str, annotation: str) -> None:
        self._name = name
        self._alternatives = [_named(text) for text in _split(annotation, "|")]
        names = [head for head, _ in self._alternatives]
        self.sure = {kind for head in names for kind in _EXACT.get(head, ())}
        self._is_open = "object" in names or "Any" in names

    def check(self, value: object) -> None:
        """Refuse a value that fits no alternative."""
        if self._is_open or any(_fits(value, *each) for each in self._alternatives):
            return
        wanted = " or ".join(_said(*each) for each in self._alternatives)
        raise InvalidInput(f"{self._name} must be {wanted}, not {_shown(value)}")


def _fits(value: Any, head: str, inner: list[str]) -> bool:
    if head in _WORDS:
        return isinstance(value, str) or (head == "Start" and type(value) is int)
    if head not in _RULES:
        return _is_ours(value, head)
    is_right, _ = _RULES[head]
    if not is_right(value):
        return False
    if head == "tuple":
        return len(value) == len(inner) and all(map(_fits_text, value, inner))
    if head in _MANY and isinstance(value, list | tuple):
        return all(_fits_text(one, inner[0]) for one in value)
    return True


def _fits_text(value: object, annotation: str) -> bool:
    """Whether a value fits an annotation inside of another."""
    return any(_fits(value, *_named(text)) for text in _split(annotation, "|"))


def _said(head: str, inner: list[str]) -> str:
    """Return what an error calls the values of an alternative: `a list of text`."""
    if head in _WORDS:
        return "a word"
    if head not in _RULES:
        return f"a {head}"
    _, said = _RULES[head]
    if head in _MANY:
        return f"{said} of {_plural(_named(_split(inner[0], '|')[0])[0])}"
    return said


def _plural(head: str) -> str:
    return {"str": "text", "int": "whole numbers"}.get(head, f"{head}s")


def _shown(value: object) -> str:
    """Return a value as an error shows it: text, numbers and None; of others the type."""
    plain = value is None or isinstance(value, str | int | float | bytes)
    return shown(value) if plain else f"{type(value).__name__} ({shown(repr(value))[1:-1]})"


def _is_ours(value: object, name: str) -> bool:
    """Whether a value is of a class of this package, which need not be loaded for that."""
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == _PACKAGE
        for base in type(value).__mro__
    )


def _is_iterable(value: object) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str | bytes | dict)


def _named(text: str) -> tuple[str, list[str]]:
    """Return the name of an annotation without alternatives, and what stands in its brackets."""
    head, _, inner = text.partition("[")
    return head, _split(inner[:-1], ",") if inner else []


def _split(text: str, mark: str) -> list[str]:
    """Split an annotation at a mark that stands outside of brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == mark and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]
