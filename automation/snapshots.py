"""Snapshots: a configuration that was taken whole, with its plugins."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from .config.faults import ConfigFaults
from .config.load import load
from .plugins.discovery import discover
from .routes.checks import faults_of_pipelines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .config.snapshot import Config
    from .plugins.discovery import Plugin, Registry

_log = logging.getLogger("ackbus.automation.plugins")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A configuration that was taken whole, and what was made of it.

    Attributes:
        config: the configuration.
        registry: its plugins.
    """

    config: Config
    registry: Registry

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
    if faults := list(faults_of_pipelines(config)):
        raise ConfigFaults(faults)
    registry = discover(config)
    for fault in registry.faults:
        _log.error("a plugin is not loaded: %s", fault)
    for warning in registry.warnings:
        _log.warning("%s", warning)
    return Snapshot(config, registry)
