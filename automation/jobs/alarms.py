"""Alarms: jobs for the plugin that hears of dead jobs, missed times, breakers and findings."""

from __future__ import annotations

import logging

from ...schema.errors import InvalidInput, NotFound, Refused
from ...schema.message.times import format_ts
from .job_request import JobRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ...bus.bus import Bus
    from ...schema.message.message import Message
    from ..config.snapshot import Config
    from .submission import Submission

#: The types of the events that such a plugin handles.
JOB_DEAD, TIMES_MISSED, BREAKER_OPENED = (
    "ductile.job.dead",
    "ductile.schedule.missed",
    "ductile.breaker.opened",
)

#: The entry of a job's origin that says of what type the alarm is that has begun it.
ALARM = "alarm"

_log = logging.getLogger("ackbus.automation.alarms")


class Alarms:
    """Tells the plugin that `on_failure` names, in the transaction of what it tells of.

    An alarm that can't be stored is logged: what it tells of has happened all the same.
    """

    def __init__(self, bus: Bus, submission: Submission) -> None:
        self._bus = bus
        self._submission = submission
        self._config: Config | None = None
        self._plugins: Collection[str] = ()

    def take(self, config: Config, plugins: Collection[str]) -> None:
        """Go by this configuration, and the names of the plugins that run, from now on."""
        self._config = config
        self._plugins = plugins

    def tell(
        self,
        type: str,
        plugin: str,
        payload: Mapping[str, object],
        *,
        parent: Message | None = None,
    ) -> None:
        """Submit a job for what went wrong; nothing where nobody is named, or he himself failed.

        What goes wrong with an alarm gives no other one: two plugins that hear of each other would
        never end.

        Args:
            type: of the event.
            plugin: in which plugin it went wrong.
            payload: what is told.
            parent: the message of the job that it is about, if it is about one.
        """
        target, command = self._target(plugin)
        about = {"plugin": plugin, "job_id": None if parent is None else parent.id}
        if target in ("", plugin) or _is_alarm(parent):
            return
        if target not in self._plugins:
            _log.error("%s is told to nobody: no plugin %s runs", type, target, extra=about)
            return
        event = {
            "type": type,
            "source": plugin,
            "timestamp": format_ts(self._bus.now_ms()),
        }
        request = JobRequest(
            plugin=target,
            command=command,
            payload={"plugin": plugin, **payload},
            submitted_by="route",
            event=event,
            parent=parent,
            parent_job_id=about["job_id"],
            origin={ALARM: type},
        )
        try:
            self._submission.submit(request)
        except (InvalidInput, NotFound, Refused) as error:
            _log.error("%s is told to nobody: %s", type, error, extra=about)

    def _target(self, plugin: str) -> tuple[str, str]:
        """Return the plugin and the command that hear of a plugin; two empty texts for nobody."""
        if self._config is None:
            return "", ""
        settings = self._config.plugins.get(plugin)
        named = (settings and settings.on_failure) or self._config.service.on_failure or ""
        target, _, command = named.partition(".")
        return target, command or "handle"


def _is_alarm(job: Message | None) -> bool:
    """Whether the job of a message was begun by an alarm."""
    told = None if job is None else job.headers.get("job")
    return isinstance(told, dict) and ALARM in told
