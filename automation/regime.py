"""The regime of a service: all that it goes by, made of one configuration.

It is made whole before anything goes by it. What is stored of it is one transaction, so that a
service that fails or is killed meanwhile leaves the regime before it as it was.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..schema.errors import Refused
from ..schema.queries import engine_of
from ..subscribers.queues.queue_set import QueueSet
from .jobs import plugin_queues
from .jobs.dispatcher import Rules
from .jobs.job_request import JobRequest
from .records.inits import Inits
from .routes.contexts import Contexts
from .routes.router import Router

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..bus.bus import Bus
    from .jobs.submission import Submission
    from .schedules.scheduler import Scheduler
    from .snapshots import Snapshot

_log = logging.getLogger("ackbus.automation.service")


@dataclass(frozen=True, slots=True)
class Regime:
    """All that a service goes by.

    Attributes:
        snapshot: the configuration, and its plugins.
        router: follows its routes and pipelines.
        rules: of the dispatcher.
        queues: of its plugins.
    """

    snapshot: Snapshot
    router: Router
    rules: Rules
    queues: QueueSet

    @property
    def in_use(self) -> set[str]:
        """The names of the plugins that the configuration has, loaded or not."""
        plugins = self.snapshot.config.plugins
        return {name for name, each in plugins.items() if each.enabled} | set(self.snapshot.plugins)

    def __str__(self) -> str:
        """Return its size, for people."""
        pipelines = self.snapshot.config.pipelines
        return f"{len(self.snapshot.plugins)} plugins and {len(pipelines)} pipelines"


def establish(
    bus: Bus,
    snapshot: Snapshot,
    scheduler: Scheduler,
    submission: Submission,
    check: Callable[[], None],
) -> Regime:
    """Store what a configuration changes, in one transaction, and return the regime.

    Args:
        bus: the bus.
        snapshot: the configuration.
        scheduler: stores its schedules.
        submission: takes in the jobs that set up plugins.
        check: is called in that transaction; it raises where another service has begun.

    Raises:
        AckbusError: something can't be stored; nothing was.
    """
    config, plugins = snapshot.config, snapshot.plugins
    with bus.transaction():
        check()
        for plugin in plugins.values():
            plugin_queues.follow(bus, plugin, config.service)
        scheduler.store(config, snapshot.registry)
        _begin_inits(Inits(engine_of(bus)), snapshot, submission)
        return Regime(
            snapshot,
            Router(bus, config, plugins),
            Rules(plugins, config.service, Contexts.of(bus).values),
            QueueSet(bus, map(plugin_queues.queue_of, plugins)),
        )


def _begin_inits(inits: Inits, snapshot: Snapshot, submission: Submission) -> None:
    """Submit `init` for each plugin that is new, or has changed with its configuration."""
    known = inits.all()
    for name in known.keys() - snapshot.plugins.keys():
        inits.forget(name)
    for plugin in snapshot.plugins.values():
        init = known.get(plugin.name)
        is_known = init is not None and init.fingerprint == plugin.fingerprint
        if is_known or "init" not in plugin.manifest.commands:
            continue
        request = JobRequest(
            plugin=plugin.name,
            command="init",
            submitted_by="scheduler",
            dedupe_key=plugin.fingerprint,
            dedupe_ttl_s=0,  # while one waits or runs there is no second
        )
        try:
            submission.submit(request)
        except Refused as error:  # its queue is full: the next start or reload tries again
            _log.error("init can't be submitted: %s", error, extra={"plugin": plugin.name})
