"""Which routes and pipelines an event reaches: an exact match, found by its hash."""

from __future__ import annotations

from collections import defaultdict

from ...schema.errors import NotFound
from ..config.faults import near
from .checks import is_whole
from .compiled import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config.flows import Route
    from ..config.snapshot import Config
    from .compiled import CompiledPipeline


class Index:
    """The routes and pipelines of a configuration, which was checked, in its order.

    Attributes:
        pipelines: all of them, by name.
    """

    def __init__(self, config: Config) -> None:
        named = {pipeline.name: pipeline for pipeline in config.pipelines}
        self.pipelines: Mapping[str, CompiledPipeline] = {
            name: compiled(each, named) for name, each in named.items() if is_whole(each, named)
        }
        self._routes: dict[tuple[str, str], list[Route]] = defaultdict(list)
        self._on: dict[str, list[CompiledPipeline]] = defaultdict(list)
        self._on_hook: dict[str, list[CompiledPipeline]] = defaultdict(list)
        for route in config.routes:
            self._routes[route.source, route.event_type].append(route)
        for each in self.pipelines.values():
            if each.pipeline.on is not None:
                self._on[each.pipeline.on].append(each)
            if each.pipeline.on_hook is not None:
                self._on_hook[each.pipeline.on_hook].append(each)

    def pipeline(self, name: str) -> CompiledPipeline:
        """Return a pipeline.

        Raises:
            NotFound: there is none of this name; one that is near is named.
        """
        found = self.pipelines.get(name)
        if found is None:
            raise NotFound(f"there is no pipeline {name!r}{near(name, self.pipelines)}")
        return found

    def routes(self, plugin: str, event_type: str) -> list[Route]:
        """Return the routes of an event."""
        return self._routes.get((plugin, event_type), [])

    def begun_by(self, plugin: str | None, event_type: str) -> list[CompiledPipeline]:
        """Return the pipelines that an event begins; the plugin None is no plugin's event."""
        return _of_plugin(self._on.get(event_type, []), plugin)

    def hooked_on(self, plugin: str, signal: str) -> list[CompiledPipeline]:
        """Return the pipelines that the end of a job of a plugin begins."""
        return _of_plugin(self._on_hook.get(signal, []), plugin)


def _of_plugin(found: list[CompiledPipeline], plugin: str | None) -> list[CompiledPipeline]:
    return [each for each in found if each.pipeline.from_plugin in (None, plugin)]
