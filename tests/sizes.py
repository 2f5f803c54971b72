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


def sampled(cases: Iterable[object], *, every: int) -> list[Any]:
    """Returns cases, each a value or a tuple, as parameters: every n-th, and at night all."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.nightly] if number % every else [],
        )
        for number, case in enumerate(cases)
    ]
