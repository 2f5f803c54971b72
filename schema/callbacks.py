"""Callbacks: checks that they are plain functions, and the log of their failures.

Calling a coroutine function or a generator function runs nothing of it. If it is taken for a plain
function, its work is never done, and nothing fails.
"""

from __future__ import annotations

import sys
from functools import partial

from .errors import InvalidInput, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable
    from typing import TypeGuard

COROUTINE, GENERATOR = "a coroutine function", "a generator function"
ASYNC_GENERATOR = "an async generator function"

#: How many kinds of failures are remembered at most.
_MAX_KINDS = 1000

#: Iterators of Python's own that do their work when somebody asks for the next value.
_LAZY = (map, filter, zip, enumerate)


class AlreadyReported(Exception):
    """A failure that the callback has reported itself: it is not logged again."""


class FailureLog:
    """Logs the failures of a callback: the first of each kind with its traceback.

    A kind is the type of an error and the line that raised it.
    """

    def __init__(self) -> None:
        self._kinds: dict[object, None] = {}

    def _is_new(self, error: BaseException) -> bool:
        """Remember a failure, and return whether it is the first of its kind."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = None if trace is None else (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        kind = (type(error), place)
        if kind in self._kinds:
            return False
        if len(self._kinds) == _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]
        self._kinds[kind] = None
        return True

    def tell(self, logger: logging.Logger, text: str, error: BaseException, level: int) -> None:
        """Log a failure: the first of its kind as a warning with its traceback, others at a level.

        Characters that no file and no pipe takes are escaped.
        """
        if not self._is_new(error):
            logger.log(level, "%s", _encodable(text))
            return
        import traceback

        try:
            trace = "".join(traceback.format_exception(error))
        except Exception:  # the text of an error in its chain can't be made
            trace = "".join(traceback.format_tb(error.__traceback__))
        if _encodable(trace) == trace:
            logger.warning("%s", _encodable(text), exc_info=error)
        else:
            logger.warning("%s\n%s", _encodable(text), _encodable(trace))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def text_of(error: BaseException) -> str:
    """Return the type and the text of an error; its `__str__` may fail."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as second:
        return f"{type(error).__name__}, whose text can't be had: {type(second).__name__}"


def is_coroutine_function(callback: object) -> TypeGuard[Callable[..., Awaitable[object]]]:
    """Whether calling a callback makes a coroutine, as far as can be known before."""
    return _kind_of(callback) == COROUTINE


def check_plain(callback: object, what: str, *, instead: str = "give a plain function") -> None:
    """Refuse a callback that runs nothing when it is called.

    Args:
        callback: what was given.
        what: what takes it, for the error.
        instead: what to do instead.

    Raises:
        InvalidInput: it is a coroutine function or a generator function, or can't be called.
    """
    if not callable(callback):
        raise InvalidInput(f"{what} takes a function, not {shown(callback)}")
    kind = _kind_of(callback)
    if kind is not None:
        raise InvalidInput(f"{what} would never run {_name(callback)}, {kind}: {instead}")


def check_progress(callback: object) -> None:
    """Refuse a callback for progress as `check_plain` does; None is for none."""
    if callback is not None:
        check_plain(callback, "progress")


def check_coroutine_function(callback: object, what: str, *, instead: str) -> None:
    """Refuse a callback that can't be awaited. What a decorator keeps in `__wrapped__` counts.

    Raises:
        InvalidInput: neither it nor what it wraps is a coroutine function.
    """
    import inspect

    if not callable(callback):
        raise InvalidInput(f"{what} takes a coroutine function, not {shown(callback)}")
    kind = _kind_of(inspect.unwrap(callback, stop=lambda wrapped: _kind_of(wrapped) is not None))
    if kind != COROUTINE:
        named = f"{_name(callback)}, {kind or 'a plain function'}"
        raise InvalidInput(f"{what} takes a coroutine function, not {named}: {instead}")


def call_plain(callback: Callable[..., object], *values: object) -> object:
    """Call a callback and return its value, which `refuse_unrun` has looked at."""
    value = callback(*values)
    refuse_unrun(value, callback)
    return value


def refuse_unrun(value: object, callback: object) -> None:
    """Close and refuse a value that a callback returned, if the value is still to be run.

    Raises:
        InvalidInput: it is a coroutine, another awaitable, a generator, an iterator that calls
            functions as it goes, or the future of a pool, whose end would go unnoticed.
    """
    if value is None:
        return
    lacks = _lack_of(value)
    if lacks is None:
        return
    close = getattr(value, "close", None)  # else Python warns that it was never awaited
    if close is not None:
        close()
    raise InvalidInput(f"{_name(callback)} returned {_article(type(value).__name__)}, {lacks}")


def _lack_of(value: object) -> str | None:
    """Return what a value lacks that is work still to be done; None for any other.

    Other iterators may be returned: the cursor of a database is one, and its statement has run.
    """
    import inspect

    is_lazy = isinstance(value, _LAZY) or type(value).__module__ == "itertools"
    is_awaitable = inspect.isawaitable(value) or inspect.isasyncgen(value)
    if is_lazy or is_awaitable or inspect.isgenerator(value):
        return "which is never run: its work was not done"
    futures = sys.modules.get("concurrent.futures")  # where it is not loaded, there is none
    if futures is not None and isinstance(value, futures.Future):
        return "which is never awaited: return when its work is done"
    return None


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def _name(callback: object) -> str:
    while isinstance(callback, partial):
        callback = callback.func
    name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
    return shown(name.rpartition("<locals>.")[2])


def _kind_of(callback: object) -> str | None:
    """Return the kind of a callback whose call alone runs nothing; None for any other.

    A decorated function is what its decorator returned: that may run what it wraps.
    """
    import inspect  # slow to load, and the hot commands have no callbacks

    while isinstance(callback, partial):
        callback = callback.func
    for function in (callback, type(callback).__call__ if callable(callback) else None):
        if inspect.iscoroutinefunction(function):
            return COROUTINE
        if inspect.isasyncgenfunction(function):
            return ASYNC_GENERATOR
        if inspect.isgeneratorfunction(function):
            return GENERATOR
    return None
