"""The check that no other process has a bus open, for work that must be alone with the file."""

from __future__ import annotations

import os
import time

from ..errors import Refused
from .lock_holders import holder, openers

#: How long to wait before the next look at who has the file open, in seconds.
_LOOK_EVERY_S = 0.05


def refuse_openers(database: str, so_that: str, *, patience_s: float = 0.0) -> None:
    """Raise when another process has a file open.

    A process is not seen where the system does not tell who has a file open, nor in another
    container.

    Args:
        database: the file.
        so_that: what can be done once they have ended, for the message.
        patience_s: how long to wait for them to end by themselves, in seconds.

    Raises:
        Refused: another process has; the message names it.
    """
    deadline = time.monotonic() + patience_s
    while others := [pid for pid in openers(database) if pid != os.getpid()]:
        if time.monotonic() >= deadline:
            raise Refused(
                f"{holder(others[0])} has the bus open; end all that use it, then {so_that}"
            )
        time.sleep(_LOOK_EVERY_S)
