"""The size of long tests: each check takes a sample, `make nightly` all of it.

`make nightly` sets the variable, so that a test states both of its sizes where it is written.
"""

import os
from collections.abc import Iterable
from itertools import islice
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
    """Returns cases, each a value or a tuple, as parameters: every n-th, and at night all.

    By day the others are not even collected: that would take as long as many of them do.
    """
    return [
        pytest.param(*(values if isinstance(values, tuple) else (values,)))
        for values in islice(cases, None, None, size(sample=every, whole=1))
    ]
