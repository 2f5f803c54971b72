"""The queues of plugins: one for each, whose policy follows the configuration."""

from __future__ import annotations

import logging

from ...subscribers.jobs.errors import QueueMismatch, QueueNotFound
from ...subscribers.jobs.policy import AUTOMATION
from ...subscribers.queues.policy_change import change_policy
from ...subscribers.queues.queue import Queue
from ...subscribers.queues.queues import Queues
from .submission import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from ...bus.bus import Bus
    from ...subscribers.queues.queues import QueueInfo
    from ..config.snapshot import ServiceConfig
    from ..plugins.discovery import Plugin

#: The error of jobs whose plugin is not in the configuration any more.
REMOVED = "plugin removed"

_log = logging.getLogger("ackbus.automation.queues")


def queue_of(plugin: str) -> str:
    """Return the name of the queue of a plugin."""
    return PREFIX + plugin


def queues_of_plugins(bus: Bus) -> list[QueueInfo]:
    """Return the queues of all plugins, in use or not; others may have names like theirs."""
    return [
        info
        for info in Queues(bus).list()
        if info.name.startswith(PREFIX) and info.policy.addressed == AUTOMATION
    ]


def follow(bus: Bus, plugin: Plugin, service: ServiceConfig) -> None:
    """Make the queue of a plugin, or let its policy follow the configuration.

    Raises:
        QueueMismatch: somebody has made a queue of its name for other messages.
    """
    name, rules = queue_of(plugin.name), _rules(plugin, service)
    pattern = f"{name}.*"
    try:
        info = Queues(bus).get(name)
    except QueueNotFound:
        Queue.create(bus, name, pattern, **rules)
        return
    if info.pattern != pattern:
        raise QueueMismatch(
            f"queue {name!r} exists and takes in {info.pattern}, not {pattern}; plugin"
            f" {plugin.name!r} needs its name"
        )
    changed = {rule: value for rule, value in rules.items() if getattr(info.policy, rule) != value}
    if changed:
        change_policy(bus, name, by=AUTOMATION, **changed)


def bury_removed(bus: Bus, in_use: Collection[str]) -> int:
    """Make dead letters of the jobs that wait for plugins which are not in use any more.

    Args:
        bus: the bus.
        in_use: the plugins that the configuration has, loaded or not.

    Returns:
        How many there were.
    """
    count = 0
    for info in queues_of_plugins(bus):
        plugin = info.name.removeprefix(PREFIX)
        if plugin not in in_use:
            buried = Queue(bus, info).jobs.bury(REMOVED)
            if buried:
                _log.warning("%s jobs are dead: %s", buried, REMOVED, extra={"plugin": plugin})
            count += buried
    return count


def _rules(plugin: Plugin, service: ServiceConfig) -> dict[str, Any]:
    retry = plugin.settings.retry
    return {
        "addressed": AUTOMATION,
        "hides": "all",
        "retry": "failures",
        "on_lost": "requeue",
        "ordering": "fifo",
        "max_attempts": retry.max_attempts,
        "backoff_s": round(retry.backoff_base_s, 3),
        "max_running": plugin.parallelism,
        "max_running_per_key": 1,
        "dedupe_window_s": round(service.dedupe_ttl_s, 3),
    }
