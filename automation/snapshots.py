"""Snapshots: a configuration that was taken whole, with the plugins and the router made of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from .config.load import load
from .plugins.discovery import discover

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from .config.snapshot import Config
    from .jobs.endings import Router
    from .plugins.discovery import Plugin, Registry

_log = logging.getLogger("ackbus.automation.plugins")


def _nothing(_: str) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A configuration that was taken whole, and what was made of it.

    Attributes:
        config: the configuration.
        registry: its plugins.
        router: makes the jobs that follow others; None: there are none.
        context_of: returns the baggage of a context, by its id.
    """

    config: Config
    registry: Registry
    router: Router | None = None
    context_of: Callable[[str], Mapping[str, Any]] = _nothing

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """The plugins that run, by name."""
        return self.registry.plugins


def read_snapshot(directory: Path, environ: Mapping[str, str]) -> Snapshot:
    """Read a folder of configuration, and find its plugins; those that can't run are told of.

    Raises:
        ConfigFaults: the configuration is refused.
    """
    config = load(directory, environ=environ)
    registry = discover(config)
    for fault in registry.faults:
        _log.error("a plugin is not loaded: %s", fault)
    for warning in registry.warnings:
        _log.warning("%s", warning)
    return Snapshot(config, registry)
