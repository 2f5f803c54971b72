"""The lifeline of an agent's process: a pipe that the kernel closes when its parent ends."""

from __future__ import annotations

import os
import threading

_STDIN = 0

#: What a process that lost its parent exits with: as one that was interrupted.
INTERRUPTED = 130


def end_with_parent() -> None:
    """End this process as soon as its standard input ends, that is, when its parent is gone.

    It ends at once, in the middle of its work: the bus is made for that.
    """
    threading.Thread(target=_wait_for_end, name="lifeline", daemon=True).start()


def _wait_for_end() -> None:
    while os.read(_STDIN, 1):
        pass
    os._exit(INTERRUPTED)
