"""Readings of a configuration for a service, which others can order and wait for."""

from __future__ import annotations

import threading
import time

from ..schema.errors import AckbusError, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .service import Service
    from .snapshots import Snapshot

#: How long a configuration may take to come into force, in seconds; and between two looks.
_WITHIN_S, _LOOK_EVERY_S = 30.0, 0.02


class Loads:
    """Reads the configuration of a service, and remembers how its last reading has ended.

    Args:
        read: reads it whole.
    """

    def __init__(self, read: Callable[[], Snapshot]) -> None:
        self._read = read
        self._change = threading.Condition()
        self._begun = self._ended = 0
        self._last: Snapshot | AckbusError | None = None

    def __call__(self) -> Snapshot:
        """Read the configuration, for the service.

        Raises:
            ConfigFaults: it is refused.
        """
        with self._change:
            self._begun += 1
        found: Snapshot | AckbusError | None = None
        try:
            found = self._read()
        except AckbusError as error:
            found = error
            raise
        finally:
            with self._change:
                self._last, self._ended = found, self._begun
                self._change.notify_all()
        return found

    def reload(self, service: Service) -> None:
        """Have a service take its configuration again, and wait until it has.

        Raises:
            ConfigFaults: it is refused, and the one before it stays in force.
            TimedOut: the service has not taken it yet.
        """
        end = time.monotonic() + _WITHIN_S
        with self._change:
            before = self._begun  # a reading that goes on may have missed the newest change
            service.reload()
            if not self._change.wait_for(lambda: self._ended > before, _WITHIN_S):
                raise TimedOut("the service has not read its configuration yet; see its log")
            last = self._last
        if isinstance(last, AckbusError):
            raise last
        # Another reading may have been ordered meanwhile, and taken.
        while service.snapshot is not last and service.snapshot is not self._last:
            if time.monotonic() > end:
                raise TimedOut("the service has not taken its configuration yet; see its log")
            time.sleep(_LOOK_EVERY_S)
