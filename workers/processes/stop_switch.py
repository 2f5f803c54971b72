"""The switch that ends commands early."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress

# The time that processes have to end: after SIGTERM, and after SIGKILL.

#: Seconds between SIGTERM, which asks, and SIGKILL, which doesn't.
GRACE_S = 5.0

#: Seconds after SIGKILL in which a process ends; else it can't be ended: the kernel holds it in a
#: system call, or it runs as another user (sudo).
DYING_S = 5.0


class StopSwitch:
    """Ends the commands that run with it, from any thread or from a signal handler.

    It stays thrown: a command that would start with it later does not start. Its two descriptors
    are closed with the last reference to it, so that no late throw writes into another file.
    """

    def __init__(self) -> None:
        self._reader = self._writer = -1  # for __del__, in case the next line raises
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._kill_times: list[float] = []  # appended to, since a signal handler may cut in

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Send SIGTERM to the commands now, and SIGKILL to what is left of them in `grace_s`.

        Again with a shorter time, it shortens the time that they have left. It returns at once.
        """
        self._kill_times.append(time.monotonic() + grace_s)
        with suppress(BlockingIOError):  # it is full of these bytes, which are never read
            os.write(self._writer, b"!")

    @property
    def kill_at(self) -> float:
        """When to kill, on the monotonic clock: infinity until the switch is thrown."""
        return min(self._kill_times, default=math.inf)

    @property
    def is_thrown(self) -> bool:
        """Whether the switch was thrown."""
        return bool(self._kill_times)

    def fileno(self) -> int:
        """The descriptor that is readable for ever after the switch was thrown."""
        return self._reader

    def __del__(self) -> None:
        for fd in (self._reader, self._writer):
            if fd >= 0:
                os.close(fd)
