"""Functions that run when they are called, and functions that only make something to run."""

import itertools
import sqlite3
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial, wraps
from typing import Any

import pytest

from ackbus.errors import InvalidInput
from ackbus.schema.callbacks import (
    call_plain,
    check_coroutine_function,
    check_plain,
    is_coroutine_function,
    refuse_unrun,
)


def plain(number: int) -> int:
    return number


async def coroutine(number: int) -> int:
    return number


def generator(number: int) -> Iterator[int]:
    yield number


async def async_generator(number: int) -> AsyncIterator[int]:
    yield number


class AsyncCallable:
    async def __call__(self, number: int) -> int:
        return number

    async def method(self, number: int) -> int:
        return number


class PlainCallable:
    def __call__(self, number: int) -> int:
        return number


def decorated(function: Callable[[int], Awaitable[int]]) -> Callable[[int], Any]:
    @wraps(function)
    def wrapper(number: int) -> Awaitable[int]:
        return function(number)

    return wrapper


UNRUN = {
    "'coroutine', a coroutine function": coroutine,
    "'generator', a generator function": generator,
    "'async_generator', an async generator function": async_generator,
    "'AsyncCallable', a coroutine function": AsyncCallable(),
    "'AsyncCallable.method', a coroutine function": AsyncCallable().method,
}


@pytest.mark.parametrize("form", [lambda each: each, lambda each: partial(partial(each), 1)])
@pytest.mark.parametrize("named", UNRUN)
def test_what_runs_nothing_is_no_plain_function(named: str, form: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_plain(form(UNRUN[named]), "run", instead="do so")
    assert str(refused.value) == f"run would never run {named}: do so"


@pytest.mark.parametrize(
    "callback",
    [
        plain,
        partial(plain, 1),
        PlainCallable(),
        PlainCallable,
        print,
        [].append,
        decorated(coroutine),
    ],
)
def test_what_runs_is_a_plain_function(callback: object) -> None:
    """A decorator may run what it wraps; what it returns is looked at when it is called."""
    check_plain(callback, "run")


@pytest.mark.parametrize(
    "callback",
    [coroutine, partial(coroutine, 1), AsyncCallable(), AsyncCallable().method],
)
def test_coroutine_functions_are_known(callback: object) -> None:
    assert is_coroutine_function(callback)
    check_coroutine_function(callback, "run_async", instead="do so")


def test_decorated_coroutine_function_can_be_awaited() -> None:
    check_coroutine_function(decorated(coroutine), "run_async", instead="do so")


@pytest.mark.parametrize("callback", [plain, generator, async_generator, print, PlainCallable(), 1])
def test_what_makes_no_coroutine_is_refused(callback: object) -> None:
    with pytest.raises(InvalidInput, match=r"^run_async takes a coroutine function, not "):
        check_coroutine_function(callback, "run_async", instead="do so")


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"^run takes a function, not 'text'$"):
        check_plain("text", "run")


@pytest.mark.parametrize(
    ("callback", "what"),
    [
        (lambda: coroutine(1), "a coroutine"),
        (lambda: generator(1), "a generator"),
        (lambda: async_generator(1), "an async_generator"),
        (lambda: map(plain, [1]), "a map"),
        (lambda: filter(plain, [1]), "a filter"),
        (lambda: itertools.starmap(plain, [(1,)]), "a starmap"),
    ],
)
def test_what_was_returned_and_never_ran_is_refused_and_closed(
    callback: Callable[[], object], what: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match=f"returned {what}, which is never run"):
            call_plain(callback)


def test_future_of_a_pool_is_refused_since_nobody_sees_how_it_ends() -> None:
    with pytest.raises(InvalidInput, match="returned a Future, which is never awaited"):
        call_plain(Future)


@pytest.mark.parametrize(
    "value", [None, 0, "", [1], {}, range(3), iter([1]), sqlite3.connect(":memory:").cursor()]
)
def test_other_values_may_be_returned(value: object) -> None:
    refuse_unrun(value, plain)
    assert call_plain(lambda: value) is value
