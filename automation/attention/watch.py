"""The watch of a service: it tells once of each finding that was not there before."""

from __future__ import annotations

import logging

from ...schema.findings import GRADES
from ...subscribers.jobs.policy import AUTOMATION
from .findings import findings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...bus.bus import Bus
    from ..jobs.alarms import Alarms

#: The type of the event that the plugin of `on_failure` handles.
FOUND = "ductile.service.finding"

#: The checks of which nothing is told here: a service can't tell that itself does not get on, and
#: missed times and breakers are told as they come.
_TOLD_OTHERWISE = frozenset({"service", "missed times", "breakers"})

_log = logging.getLogger("ackbus.automation.attention")


class Watch:
    """Looks at the findings, and tells of each that has become worse since the last look.

    Args:
        bus: the bus.
        alarms: tells the plugin that `on_failure` names.
        check: raises where another service has begun; in the transaction of the alarm.
    """

    def __init__(self, bus: Bus, alarms: Alarms, check: Callable[[], object]) -> None:
        self._bus = bus
        self._alarms = alarms
        self._check = check
        self._grades: dict[str, int] = {}

    def step(self) -> None:
        """Look once; a few index walks where all is well."""
        for finding in findings(self._bus, files=False):
            before = self._grades.get(finding.check, 0)
            self._grades[finding.check] = GRADES[finding.state]
            if GRADES[finding.state] <= before or finding.check in _TOLD_OTHERWISE:
                continue
            _log.warning("%s: %s; %s", finding.check, finding.text, finding.advice)
            told = {"check": finding.check, "state": finding.state, "text": finding.text}
            with self._bus.transaction():
                self._check()
                self._alarms.tell(FOUND, AUTOMATION, told | {"advice": finding.advice})
