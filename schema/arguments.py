"""Arguments of public calls: each is checked against its annotation when the call begins.

A type checker finds a wrong type while a program is written. Most programs that are written by
agents are run without one, so the call itself refuses it, in one line that names the argument,
before anything is stored. The values of a right type are checked by the calls themselves.
"""

from __future__ import annotations

from functools import wraps
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from .errors import AckbusError, InvalidInput, StatementRefused, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
    from typing import Any, TypeVar

    T = TypeVar("T")
    Call = TypeVar("Call", bound=Callable[..., Any])

    #: Whether a value fits, and what an error calls the values that do.
    Rule = tuple[Callable[[Any], bool], str]

#: The flag of a function's code that says that it takes any number of arguments.
_HAS_REST = 0x04

_PACKAGE = __name__.partition(".")[0]

#: The errors that code raises at a value which is not what it takes it for.
_UNMEANT = (
    *(TypeError, ValueError, LookupError, AttributeError, ArithmeticError),
    StatementRefused,
)

#: The types of which all values fit the annotation of that name: most arguments are such.
_EXACT: dict[str, tuple[type, ...]] = {
    "None": (type(None),),
    "str": (str,),
    "bytes": (bytes,),
    "bool": (bool,),
    "int": (int,),
    "float": (int,),  # a float may be NaN
    "dict": (dict,),
}

#: The rules of names that are no class of this package.
_RULES: dict[str, Rule] = {
    "Any": (lambda value: True, "a value"),
    "None": (lambda value: value is None, "None"),
    "str": (lambda value: isinstance(value, str), "text"),
    "bytes": (lambda value: isinstance(value, bytes), "bytes"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "int": (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    "float": (lambda value: type(value) in (int, float) and value == value, "a number"),
    "dict": (lambda value: isinstance(value, dict), "a dict"),
    "list": (lambda value: isinstance(value, list), "a list"),
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

#: The types that hold several values of one type.
_MANY = ("Iterable", "Sequence", "list", "tuple")

#: The names of words (`Literal`), which the calls look up, and what they are.
_WORDS = {
    "Durability": "normal or full",
    "EndStatus": "completed, failed or timed_out",
    "JobState": "a state of jobs",
    "LimitKind": "queue or inbox",
    "OnLost": "requeue or fail",
    "Review": "none, required or other",
    "Literal": "a word",
    "Start": "beginning, now or a seq",
    "TaskState": "a state of tasks",
}

#: The calls that take several values where an argument takes one.
_FOR_SEVERAL = {"to_agent": "; for several, bus.publish_many(draft.to_each(names))"}


def checked(call: Call) -> Call:
    """Check the arguments of a call against their annotations, before it begins.

    Raises, when it is called:
        InvalidInput: an argument has another type.
        RowDamaged: a row that no ackbus wrote made it fail, also later, where it is a generator.
    """
    parameters: _Parameters | None = None

    @wraps(call)
    def begin(*args: Any, **named: Any) -> Any:
        nonlocal parameters
        if parameters is None:  # not before: a program makes few of the calls that it loads
            parameters = _Parameters(call)
        parameters.check(args, named)
        try:
            return call(*args, **named)
        except _UNMEANT as error:
            _name_damage(error)
            raise

    return _watched(begin) if _works_later(call) else begin  # type: ignore[return-value]


def _works_later(call: Callable[..., Any]) -> bool:
    """Whether a call may return a generator or a coroutine, by its code or its annotation."""
    result = str(call.__annotations__.get("return", ""))
    return bool(call.__code__.co_flags & _GENERATES) or any(word in result for word in _LATER)


def _watched(call: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(call)
    def begin(*args: Any, **named: Any) -> Any:
        result = call(*args, **named)
        watch = _WATCHES.get(type(result))
        return result if watch is None else watch(result)

    return begin


def _name_damage(error: Exception) -> None:
    """Raise `RowDamaged` where a row explains an error that a call did not mean to raise."""
    trace = error.__traceback__
    is_meant = isinstance(error, AckbusError) and not isinstance(error, StatementRefused)
    if is_meant or trace is None or trace.tb_next is None:
        return  # or the call had not even begun
    from .sqlite.rules.damaged_rows import damage_behind

    damaged = damage_behind(error)
    if damaged is not None:
        raise damaged from error


def _watch(items: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Yield what a generator yields; an error of its own that a row explains names that row."""
    try:
        return (yield from items)
    except _UNMEANT as error:
        _name_damage(error)
        raise


async def _watch_async(items: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    try:
        async for item in items:
            yield item
    except _UNMEANT as error:
        _name_damage(error)
        raise
    finally:
        await items.aclose()


async def _watch_coroutine(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await work
    except _UNMEANT as error:
        _name_damage(error)
        raise


#: The watches over results whose work begins later, by their type.
_WATCHES: dict[type, Callable[[Any], Any]] = {
    GeneratorType: _watch,
    AsyncGeneratorType: _watch_async,
    CoroutineType: _watch_coroutine,
}

#: The flags of the code of generators, coroutines, and those that are both.
_GENERATES = 0x20 | 0x80 | 0x200

#: Words in the annotation of what is returned, where the work begins later.
_LATER = ("Iterator", "Iterable", "Generator", "Awaitable", "Coroutine")

#: The methods with a name of Python's that begin work.
_SPECIAL = ("__init__", "__iter__", "__aiter__")


def with_checked_arguments(kind: type[T]) -> type[T]:
    """Check the arguments of all public methods of a class, of its constructor and iterators."""
    for name, member in [*vars(kind).items()]:
        is_public = name in _SPECIAL or not name.startswith("_")
        if is_public and isinstance(member, classmethod):
            setattr(kind, name, classmethod(checked(member.__func__)))
        elif is_public and hasattr(member, "__code__"):
            setattr(kind, name, checked(member))
    return kind


class _Parameters:
    """The parameters of a call."""

    def __init__(self, call: Callable[..., Any]) -> None:
        code: Any = call.__code__
        self._by_name = {
            name: _Parameter(name, text)
            for name, text in call.__annotations__.items()
            if name != "return" and not text.startswith("Unpack[")
        }
        places = code.co_varnames[: code.co_argcount]
        self._by_place = [self._by_name.get(name) or _Parameter(name, "object") for name in places]
        self._rest: _Parameter | None = None  # of all further ones: `*words`
        if code.co_flags & _HAS_REST:
            self._rest = self._by_name[code.co_varnames[len(places) + code.co_kwonlyargcount]]

    def check(self, args: tuple[object, ...], named: dict[str, object]) -> None:
        """Refuse an argument that does not fit its annotation."""
        for parameter, value in zip(self._by_place, args, strict=False):
            if type(value) not in parameter.sure:
                parameter.check(value)
        if self._rest is not None:
            for value in args[len(self._by_place) :]:
                self._rest.check(value)
        if named:
            by_name = self._by_name
            for name, value in named.items():
                # Python refuses an unknown name; options are checked by the call that they go to.
                if name in by_name and type(value) not in by_name[name].sure:
                    by_name[name].check(value)


class _Parameter:
    """A parameter with its annotation.

    Attributes:
        sure: the types of which every value fits, as far as is known.
    """

    def __init__(self, name: str, annotation: str) -> None:
        self._name = name
        self._alternatives = [_named(text) for text in _split(annotation, "|")]
        self._heads = [head for head, _ in self._alternatives]
        self.sure = {kind for head in self._heads for kind in _EXACT.get(head, ())}

    def check(self, value: object) -> None:
        """Refuse a value that fits no alternative."""
        if "object" in self._heads or any(_is_ours(value, head) for head in self._heads):
            self.sure.add(type(value))
        elif not any(_fits(value, *alternative) for alternative in self._alternatives):
            expected = " or ".join(_noun_of(*alternative) for alternative in self._alternatives)
            hint = _FOR_SEVERAL.get(self._name, "") if _is_iterable(value) else ""
            raise InvalidInput(f"{self._name} must be {expected}, not {_shown(value)}{hint}")


def check_types(call: Callable[..., Any], instance: Any) -> None:
    """Check the attributes of an object against the annotations of a call that they went to.

    For a call so frequent that this is done only once a value was found to be wrong.

    Raises:
        InvalidInput: an attribute has another type.
    """
    names = [name for name in call.__annotations__ if name != "return"]
    _Parameters(call).check((), {name: getattr(instance, name) for name in names})


def _fits(value: Any, head: str, inner: list[str]) -> bool:
    if head in _WORDS:
        return isinstance(value, str) or (head == "Start" and type(value) is int)
    if head not in _RULES:
        return _is_ours(value, head)
    is_right, _ = _RULES[head]
    if not is_right(value):
        return False
    if head == "tuple" and inner[-1:] != ["..."]:
        return len(value) == len(inner) and all(map(_fits_text, value, inner))
    if head in _MANY and isinstance(value, list | tuple):
        return all(_fits_text(element, inner[0]) for element in value)
    return True


def _fits_text(value: object, annotation: str) -> bool:
    """Whether a value fits an annotation inside of another."""
    return any(_fits(value, *_named(text)) for text in _split(annotation, "|"))


def _noun_of(head: str, inner: list[str]) -> str:
    """Return what an error calls the values of an alternative: `a list of text`."""
    if head in _WORDS:
        return _WORDS[head]
    if head not in _RULES:
        return f"a {head}"
    _, noun = _RULES[head]
    if head in _MANY:
        return f"{noun} of {_plural(_named(_split(inner[0], '|')[0])[0])}"
    return noun


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
