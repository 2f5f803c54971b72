"""Alarms: jobs for the plugin that hears of dead jobs, missed times and opened breakers."""

from __future__ import annotations

from ...schema.message.times import format_ts
from .job_request import JobRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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


class Alarms:
    """Tells the plugin that `on_failure` names, in the transaction of what it tells of."""

    def __init__(self, bus: Bus, submission: Submission) -> None:
        self._bus = bus
        self._submission = submission
        self._config: Config | None = None

    def take(self, config: Config) -> None:
        """Go by this configuration from now on."""
        self._config = config

    def tell(
        self,
        type: str,
        plugin: str,
        payload: Mapping[str, object],
        *,
        parent: Message | None = None,
    ) -> None:
        """Submit a job for what went wrong; nothing where nobody is named, or he himself failed.

        Args:
            type: of the event.
            plugin: in which plugin it went wrong.
            payload: what is told.
            parent: the message of the job that it is about, if it is about one.
        """
        target, command = self._target(plugin)
        if target in ("", plugin):
            return
        event = {
            "type": type,
            "source": plugin,
            "timestamp": format_ts(self._bus.now_ms()),
        }
        self._submission.submit(
            JobRequest(
                plugin=target,
                command=command,
                payload={"plugin": plugin, **payload},
                submitted_by="route",
                event=event,
                parent=parent,
                parent_job_id=None if parent is None else parent.id,
            )
        )

    def _target(self, plugin: str) -> tuple[str, str]:
        """Return the plugin and the command that hear of a plugin; two empty texts for nobody."""
        if self._config is None:
            return "", ""
        settings = self._config.plugins.get(plugin)
        named = (settings and settings.on_failure) or self._config.service.on_failure or ""
        target, _, command = named.partition(".")
        return target, command or "handle"
