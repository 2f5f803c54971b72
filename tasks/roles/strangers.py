"""Waiting for processes that are still at work in a folder: those that a lost worker has left."""

from __future__ import annotations

import time

from ...git.trees.occupants import occupants_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds between two looks.
_NAP_S = 0.05


def wait_until_alone(
    folder: str, timeout_s: float, is_over: Callable[[], bool] = lambda: False
) -> list[int]:
    """Wait until nobody is at work in a folder, and return who still is.

    A program whose worker was killed gets some seconds to end: two must not work in one tree.

    Args:
        folder: the folder.
        timeout_s: for how long at most, in seconds.
        is_over: whether to wait no longer.
    """
    deadline = time.monotonic() + timeout_s
    while (left := occupants_of(folder)) and time.monotonic() < deadline and not is_over():
        time.sleep(_NAP_S)
    return left
