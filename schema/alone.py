"""Whether another process has a bus open, for what nobody else may be there for."""

from __future__ import annotations

import os
import time

from .errors import Refused
from .lock_holders import holder, openers

#: How long a look at who is there takes to be worth another, in seconds.
_LOOK_EVERY_S = 0.05


def refuse_openers(database: str, so_that: str, *, patience_s: float = 0.0) -> None:
    """Raise when another process has a file open.

    Where the system does not tell who has a file open, or not of processes in other containers,
    nobody is seen.

    Args:
        database: the file.
        so_that: what can be done once they have ended, for the message.
        patience_s: how long to wait for them to end by themselves, in seconds.

    Raises:
        Refused: it says who.
    """
    deadline = time.monotonic() + patience_s
    while others := [pid for pid in openers(database) if pid != os.getpid()]:
        if time.monotonic() >= deadline:
            raise Refused(
                f"{holder(others[0])} has the bus open; end all that use it, then {so_that}"
            )
        time.sleep(_LOOK_EVERY_S)
