"""Snapshots: a configuration that was taken whole, with its plugins, and what is wrong with them.

Some faults refuse the whole configuration. Others leave out a plugin, or what leads to it, and the
rest runs: they are faults of a check all the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from .config.faults import ConfigFaults
from .config.load import load
from .plugins.discovery import discover
from .plugins.references import faults_of_references
from .routes.checks import faults_of_pipelines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config.faults import Fault
    from .config.snapshot import Config
    from .plugins.discovery import Plugin, Registry

_log = logging.getLogger("ackbus.automation.plugins")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A configuration that was taken whole, and what was made of it.

    Attributes:
        config: the configuration.
        registry: its plugins.
        faults: of plugins that are left out, and of what leads to none.
        warnings: what an operator should hear of.
    """

    config: Config
    registry: Registry
    faults: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()

    @property
    def plugins(self) -> Mapping[str, Plugin]:
        """The plugins that run, by name."""
        return self.registry.plugins

    def tell(self) -> None:
        """Log what is wrong with it."""
        for fault in self.faults:
            _log.error("%s", fault)
        for warning in self.warnings:
            _log.warning("%s", warning)


def examine_folder(directory: Path, environ: Mapping[str, str]) -> Snapshot:
    """Return the configuration of a folder with its plugins; nothing is logged.

    Args:
        directory: the folder.
        environ: where its variables are looked for.

    Raises:
        ConfigFaults: something is wrong that refuses the whole.
    """
    cache = Path(platformdirs.user_cache_dir("ackbus", appauthor=False), "config")
    config = load(directory, environ=environ, cache_directory=cache)
    registry = discover(config)
    warnings = tuple(sorted({*config.warnings, *registry.warnings}))
    if refusing := tuple(faults_of_pipelines(config)):
        raise ConfigFaults(refusing, warnings)
    faults = tuple(sorted({*registry.faults, *faults_of_references(config, registry)}))
    if faults and config.service.admission.validate_config_on_boot:
        raise ConfigFaults(faults, warnings)
    return Snapshot(config, registry, faults, warnings)
