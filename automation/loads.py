"""Readings of a configuration for a service, which others can order and wait for."""

from __future__ import annotations

import logging
import threading

from ..schema.errors import AckbusError, Refused, TimedOut
from .config.faults import ConfigFaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .service import Service
    from .snapshots import Snapshot

#: How long a configuration may take to come into force, in seconds.
_WITHIN_S = 30.0

_log = logging.getLogger("ackbus.automation.service")


class Loads:
    """Reads the configuration of a service, and remembers what came of the last reading.

    Args:
        read: reads it whole.
    """

    def __init__(self, read: Callable[[], Snapshot]) -> None:
        self._read = read
        self._change = threading.Condition()
        self._begun = self._ended = 0
        self._error: AckbusError | None = None

    def __call__(self) -> Snapshot:
        """Read the configuration, for the service.

        Raises:
            ConfigFaults: it is refused.
            Refused: it can't be read, for a reason that no check of ours foresees.
        """
        with self._change:
            self._begun += 1
        try:
            return self._read()
        except AckbusError:
            raise
        except Exception as error:  # whatever it is, the service that runs must go on
            _log.exception("the configuration can't be read")
            raise Refused(f"the configuration can't be read: {error}; see the log") from error

    def end(self, error: AckbusError | None) -> None:
        """Note, for the service, that what was read is in force, or why it is refused."""
        with self._change:
            self._error, self._ended = error, self._begun
            self._change.notify_all()

    def reload(self, service: Service) -> None:
        """Have a service take its configuration again, and wait until it has.

        Raises:
            ConfigFaults: it is refused, and the one before it stays in force.
            Refused: likewise, for what the bus has.
            TimedOut: the service has not taken it yet.
        """
        with self._change:
            before = self._begun  # a reading that goes on may have missed the newest change
            service.reload()
            if not self._change.wait_for(lambda: self._ended > before, _WITHIN_S):
                raise TimedOut("the service has not taken its configuration yet; see its log")
            error = self._error
        if isinstance(error, ConfigFaults):
            raise error
        if error is not None:
            raise Refused(f"the configuration is refused: {error}") from error
