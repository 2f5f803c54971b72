"""References of a configuration to plugins and their commands: each leads to one that runs."""

from __future__ import annotations

from ..config.faults import near
from ..config.flows import SWITCH
from ..config.snapshot import TIMEOUTS_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config.faults import Fault
    from ..config.flows import Step
    from ..config.records import Place
    from ..config.snapshot import Config, PluginConfig
    from ..config.webhooks import WebhookEndpoint
    from .discovery import Registry


def check_references(config: Config, registry: Registry) -> tuple[list[Fault], list[Fault]]:
    """Return the faults of references, and the warnings.

    A name that is nowhere is a fault. What leads to a plugin that is disabled or left out waits for
    it, and is a warning.
    """
    found = _References(config, registry)
    for plugin in config.plugins.values():
        for entry in plugin.schedules if plugin.enabled else ():
            found.command(entry.plugin, entry.command, entry.place)
        found.timeouts(plugin)
        if plugin.on_failure:
            found.target(plugin.on_failure, plugin.place)
    if config.service.on_failure:
        found.target(config.service.on_failure, config.service.place)
    for route in config.routes:
        if route.source != SWITCH:
            found.plugin(route.source, route.place)
        found.command(route.to, route.command, route.place)
    for pipeline in config.pipelines:
        if pipeline.from_plugin not in (None, SWITCH):
            found.plugin(pipeline.from_plugin, pipeline.place)
        for step in pipeline.steps:
            found.step(step)
    for endpoint in config.webhooks.endpoints if config.webhooks else ():
        found.endpoint(endpoint)
    return found.faults, found.warnings


class _References:
    def __init__(self, config: Config, registry: Registry) -> None:
        self._config = config
        self._registry = registry
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def plugin(self, name: str, place: Place) -> None:
        if name in self._registry.plugins:
            return
        settings = self._config.plugins.get(name)
        if settings is None:
            told = f"there is no plugin {name!r}{near(name, self._config.plugins)}"
            if name in self._registry.found:
                told = f"the plugin {name!r} is not used; add plugins.{name} to run it"
            self.faults.append(place.fault(told))
        elif not settings.enabled:
            self.warnings.append(place.fault(f"the plugin {name!r} is disabled"))
        elif name in self._registry.left_out:
            told = f"the plugin {name!r} is left out, so nothing comes of this"
            self.warnings.append(place.fault(told))
        # else the entry itself leads nowhere, and has a fault

    def command(self, plugin: str, command: str, place: Place) -> None:
        self.plugin(plugin, place)
        if (found := self._registry.plugins.get(plugin)) is None:
            return
        commands = found.manifest.commands
        if command not in commands:
            told = f"the plugin {plugin!r} has no command {command!r}{near(command, commands)}"
            self.faults.append(place.fault(told))

    def timeouts(self, settings: PluginConfig) -> None:
        found = self._registry.plugins.get(settings.name)
        known = {*TIMEOUTS_S, *(found.manifest.commands if found else settings.timeouts)}
        for command in settings.timeouts:
            if command not in known:
                told = f"timeouts.{command}: the plugin has no such command{near(command, known)}"
                self.faults.append(settings.place.fault(told))

    def target(self, target: str, place: Place) -> None:
        plugin, _, command = target.partition(".")
        self.command(plugin, command or "handle", place)

    def endpoint(self, endpoint: WebhookEndpoint) -> None:
        if endpoint.plugin is not None:
            self.command(endpoint.plugin, endpoint.command, endpoint.place)
        pipelines = {pipeline.name for pipeline in self._config.pipelines}
        if endpoint.pipeline is not None and endpoint.pipeline not in pipelines:
            told = f"there is no pipeline {endpoint.pipeline!r}{near(endpoint.pipeline, pipelines)}"
            self.faults.append(endpoint.place.fault(told))

    def step(self, step: Step) -> None:
        if step.uses is not None:
            self.command(step.plugin, step.command, step.place)
        for inner in (*step.steps, *step.split):
            self.step(inner)
