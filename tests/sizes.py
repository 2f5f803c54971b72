"""The size of long tests: each check takes a sample, `make nightly` all of it.

`make nightly` sets the variable, so that a test states both of its sizes where it is written.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

_IS_NIGHT = "ACKBUS_NIGHTLY" in os.environ


def size(*, sample: int, whole: int) -> int:
    """Returns how many rounds, examples or points a test takes in this run."""
    return whole if _IS_NIGHT else sample


def case(*values: object, by_day: bool, id: str | None = None) -> Any:
    """Returns values as the parameters of a test that each check runs, or only the night."""
    return pytest.param(*values, id=id, marks=[] if by_day else [pytest.mark.nightly])


def sampled(cases: Iterable[object], *, every: int) -> list[Any]:
    """Returns cases, each a value or a tuple, as parameters: every n-th, and at night all."""
    return [
        case(*(each if isinstance(each, tuple) else (each,)), by_day=number % every == 0)
        for number, each in enumerate(cases)
    ]
