"""The size of long tests: each check takes a sample, `make nightly` all of it.

`make nightly` sets the variable, so that a test states both of its sizes where it is written.
"""

import os

_IS_NIGHT = "ACKBUS_NIGHTLY" in os.environ


def size(*, sample: int, whole: int) -> int:
    """Returns how many rounds, examples or points a test takes in this run."""
    return whole if _IS_NIGHT else sample
