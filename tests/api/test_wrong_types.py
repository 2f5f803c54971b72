"""Wrong types at run time: one error of this package, in one line, that names the argument."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import Parameter, signature
from typing import Any

import pytest

from ackbus import Bus
from ackbus.errors import InvalidInput

from .public_calls import Calls, parameters, public_calls, wrong_values
from .reference import INTERNAL, PUBLIC

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calls]:
    with Bus.init(tmp_path_factory.mktemp("calls") / "bus") as bus:
        yield public_calls(bus)


def act(call: Callable[..., Any], given: dict[str, Any]) -> None:
    """Call with arguments by name, several under one name by place, as far as the first result."""
    several = [
        name
        for name, parameter in signature(call).parameters.items()
        if parameter.kind is Parameter.VAR_POSITIONAL and name in given
    ]
    if several:  # what stands before them can only be given by place
        before = list(signature(call).parameters)
        places = [given[name] for name in before[: before.index(several[0]) + 1]]
        named = {name: value for name, value in given.items() if name not in before[: len(places)]}
        found = call(*places, **named)
    else:
        found = call(**given)
    if inspect.isawaitable(found):
        asyncio.run(_awaited(found))
    elif isinstance(found, AsyncIterator):
        asyncio.run(_first(found))
    elif isinstance(found, Iterator):
        next(found, None)


async def _awaited(found: Any) -> None:
    async with asyncio.timeout(5):
        await found


async def _first(found: AsyncIterator[object]) -> None:
    async with asyncio.timeout(5):
        await anext(found, None)


@pytest.mark.slow
def test_each_wrong_type_is_one_error_that_names_the_argument(calls: Calls) -> None:
    wrong = []
    count = 0
    for name, (call, right) in calls.items():
        for parameter, annotation in parameters(call).items():
            for value in wrong_values(annotation):
                count += 1
                try:
                    act(call, right | {parameter: value})
                except InvalidInput as error:
                    text = str(error)
                    if "\n" in text or parameter not in text or len(text) > 300:
                        wrong.append(f"{name}({parameter}={value!r}) says {text!r}")
                except Exception as error:
                    wrong.append(f"{name}({parameter}={value!r}) raises {error!r}")
                else:
                    wrong.append(f"{name}({parameter}={value!r}) is taken")
    assert wrong == []
    assert count > 1500


def test_every_public_call_is_among_them(calls: Calls) -> None:
    missing = []
    for name, found in PUBLIC.items():
        for call_name, call in _calls_of(name, found):
            takes = [each for each in signature(call).parameters if each not in ("self", "cls")]
            if takes and call_name not in calls and call_name not in INTERNAL:
                missing.append(call_name)
    assert missing == []


def _calls_of(name: str, found: object) -> Iterator[tuple[str, Callable[..., object]]]:
    if inspect.isfunction(found):
        yield name, found
    elif inspect.isclass(found) and not issubclass(found, BaseException):
        for base in found.__mro__:
            for member, value in vars(base).items():
                call = getattr(value, "__func__", value)
                if inspect.isfunction(call) and not member.startswith("_"):
                    yield call.__qualname__, call
