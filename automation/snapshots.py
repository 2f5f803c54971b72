"""Snapshots: a configuration that was taken whole, with its plugins, and what is wrong with them.

Some faults refuse the whole configuration. Others leave out a plugin, or what leads to it, and the
rest runs: they are faults of a check all the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs

from ..schema.directory.layout import NoHome, of_platform
from .config.faults import ConfigFaults, without_values
from .config.load import load
from .config.origin import NAMED
from .plugins.discovery import discover
from .plugins.references import faults_of_references
from .routes.checks import faults_of_pipelines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config.faults import Fault
    from .config.origin import Origin
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


def examine_folder(directory: Path, environ: Mapping[str, str], origin: Origin = NAMED) -> Snapshot:
    """Return the configuration of a folder with its plugins; nothing is logged.

    Args:
        directory: the folder.
        environ: where its variables are looked for.
        origin: how far it is this user's own.

    Raises:
        ConfigFaults: something is wrong that refuses the whole.
    """
    cache = _cache_directory()
    config = load(directory, environ=environ, cache_directory=cache, origin=origin)
    snapshot, refusing = _examined(config)
    told = (*refusing, *snapshot.faults, *snapshot.registry.warnings)
    if told and config.variables:
        values = [each.reveal() for each in config.variables.values()]
        plain = _plain(directory, origin, cache)
        refusing = tuple(without_values(refusing, plain, values))
        snapshot = replace(
            snapshot,
            faults=tuple(without_values(snapshot.faults, plain, values)),
            warnings=tuple(without_values(snapshot.warnings, plain, values)),
        )
    if refusing:
        raise ConfigFaults(refusing, snapshot.warnings)
    if snapshot.faults and config.service.admission.validate_config_on_boot:
        raise ConfigFaults(snapshot.faults, snapshot.warnings)
    return snapshot


def _examined(config: Config) -> tuple[Snapshot, tuple[Fault, ...]]:
    """Return what is made of a configuration, and the faults that refuse the whole."""
    registry = discover(config)
    warnings = tuple(sorted({*config.warnings, *registry.warnings}))
    faults = tuple(sorted({*registry.faults, *faults_of_references(config, registry)}))
    return Snapshot(config, registry, faults, warnings), tuple(faults_of_pipelines(config))


def _cache_directory() -> Path | None:
    try:
        cache = of_platform(lambda: platformdirs.user_cache_dir("ackbus", appauthor=False))
        return Path(cache, "config")
    except NoHome:  # nothing is kept
        return None


def _plain(directory: Path, origin: Origin, cache: Path | None) -> list[Fault]:
    """Return what is told of a configuration whose variables are left as they stand."""
    looking = replace(origin, may_act=False)
    try:
        config = load(directory, environ={}, cache_directory=cache, origin=looking)
    except ConfigFaults as error:
        return [*error.faults, *error.warnings]
    snapshot, refusing = _examined(config)
    return [*refusing, *snapshot.faults, *snapshot.warnings]
