"""Telling systemd how the service is: a datagram to the socket that it names."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The variables by which systemd says what it wants.
_SOCKET, _WATCHDOG, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class Notifier:
    """Tells a service manager; without one it does nothing."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get(_SOCKET, "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]  # of the abstract namespace
        usec = environ.get(_WATCHDOG, "")
        is_ours = environ.get(_WATCHDOG_PID, "") in ("", str(os.getpid()))
        #: How often the watchdog is to hear of the service, in seconds; None: there is none.
        self.every_s = int(usec) / 2_000_000 if usec.isdecimal() and is_ours else None

    def ready(self, status: str) -> None:
        """Tell that the service is ready."""
        self._tell("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Tell that a configuration is about to be taken; `ready` ends that."""
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={now_us}")

    def alive(self) -> None:
        """Tell the watchdog that the service goes on."""
        self._tell("WATCHDOG=1")

    def stopping(self) -> None:
        """Tell that the service is about to end."""
        self._tell("STOPPING=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.sendto("\n".join(lines).encode(), self._address)
