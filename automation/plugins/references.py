"""References of a configuration to plugins and their commands: each leads to one that runs."""

from __future__ import annotations

from ..config.faults import near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..config.faults import Fault
    from ..config.flows import Step
    from ..config.records import Place
    from ..config.snapshot import Config
    from ..config.webhooks import WebhookEndpoint
    from .discovery import Registry


def faults_of_references(config: Config, registry: Registry) -> Iterator[Fault]:
    """Yield a fault for each plugin or command that is named and is not there."""
    references = _References(config, registry)
    for plugin in config.plugins.values():
        for entry in plugin.schedules if plugin.enabled else ():
            yield from references.command(entry.plugin, entry.command, entry.place)
        if plugin.on_failure:
            yield from references.target(plugin.on_failure, plugin.place)
    if config.service.on_failure:
        yield from references.target(config.service.on_failure, config.service.place)
    for route in config.routes:
        yield from references.plugin(route.source, route.place)
        yield from references.command(route.to, route.command, route.place)
    for pipeline in config.pipelines:
        for step in pipeline.steps:
            yield from references.step(step)
    for endpoint in config.webhooks.endpoints if config.webhooks else ():
        yield from references.endpoint(endpoint)


class _References:
    def __init__(self, config: Config, registry: Registry) -> None:
        self._config = config
        self._registry = registry

    def plugin(self, name: str, place: Place) -> Iterator[Fault]:
        if name in self._registry.plugins:
            return
        if (settings := self._config.plugins.get(name)) is None:
            yield place.fault(f"there is no plugin {name!r}{near(name, self._config.plugins)}")
        elif not settings.enabled:
            yield place.fault(f"the plugin {name!r} is disabled")
        # else it has a fault of its own

    def command(self, plugin: str, command: str, place: Place) -> Iterator[Fault]:
        yield from self.plugin(plugin, place)
        if (found := self._registry.plugins.get(plugin)) is None:
            return
        commands = found.manifest.commands
        if command not in commands:
            told = f"the plugin {plugin!r} has no command {command!r}{near(command, commands)}"
            yield place.fault(told)

    def target(self, target: str, place: Place) -> Iterator[Fault]:
        plugin, _, command = target.partition(".")
        yield from self.command(plugin, command or "handle", place)

    def endpoint(self, endpoint: WebhookEndpoint) -> Iterator[Fault]:
        if endpoint.plugin is not None:
            yield from self.command(endpoint.plugin, endpoint.command, endpoint.place)
        pipelines = {pipeline.name for pipeline in self._config.pipelines}
        if endpoint.pipeline is not None and endpoint.pipeline not in pipelines:
            told = f"there is no pipeline {endpoint.pipeline!r}{near(endpoint.pipeline, pipelines)}"
            yield endpoint.place.fault(told)

    def step(self, step: Step) -> Iterator[Fault]:
        if step.uses is not None:
            yield from self.command(step.plugin, step.command, step.place)
        for inner in (*step.steps, *step.split):
            yield from self.step(inner)
