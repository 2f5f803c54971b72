"""Snapshots: a configuration that was taken whole, with its plugins, and what is wrong with them.

A check, a start and a reload refuse the same faults. A plugin that can't be loaded is left out, and
the rest runs, unless all plugins are demanded; to a check that is a fault all the same.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from .config.demands import TO_ACT
from .config.faults import ConfigFaults, without_values
from .config.load import load
from .config.origin import NAMED
from .config.records import Frozen
from .plugins.discovery import discover
from .plugins.references import check_references
from .routes.checks import faults_of_pipelines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .config.demands import Demands
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
        faults: of plugins that can't be loaded, and are left out.
        left_out: those of them that the configuration names, and why each one is.
        warnings: what an operator should hear of.
    """

    config: Config
    registry: Registry
    faults: tuple[Fault, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=Frozen)
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


def examine_folder(
    directory: Path,
    environ: Mapping[str, str],
    origin: Origin = NAMED,
    demands: Demands = TO_ACT,
) -> Snapshot:
    """Return the configuration of a folder with its plugins; nothing is logged.

    Args:
        directory: the folder.
        environ: where its variables are looked for.
        origin: how far it is this user's own.
        demands: what is refused, and not only told.

    Raises:
        ConfigFaults: something is wrong that refuses the whole.
    """
    read = partial(load, directory, demands=demands)
    config = read(environ=environ, origin=origin)
    snapshot, refusing = _examined(config)
    told = (*refusing, *snapshot.faults, *snapshot.registry.warnings)
    if told and config.variables:
        values = [each.reveal() for each in config.variables.values()]
        plain = _plain(lambda: read(environ={}, origin=replace(origin, may_act=False)))
        refusing = tuple(without_values(refusing, plain, values))
        faults = without_values(snapshot.faults, plain, values)
        hidden = dict(zip(snapshot.faults, faults, strict=True))
        snapshot = replace(
            snapshot,
            faults=tuple(faults),
            left_out=_why(snapshot.registry, hidden),
            warnings=tuple(without_values(snapshot.warnings, plain, values)),
        )
    if refusing:
        raise ConfigFaults((*refusing, *snapshot.faults), snapshot.warnings)
    is_strict = demands.plugins or config.service.admission.validate_config_on_boot
    if snapshot.faults and is_strict:
        raise ConfigFaults(snapshot.faults, snapshot.warnings)
    return snapshot


def _examined(config: Config) -> tuple[Snapshot, tuple[Fault, ...]]:
    """Return what is made of a configuration, and the faults that refuse the whole."""
    registry = discover(config)
    wrong, waiting = check_references(config, registry)
    warnings = tuple(sorted({*config.warnings, *registry.warnings, *waiting}))
    snapshot = Snapshot(config, registry, registry.faults, _why(registry), warnings)
    refusing = (*registry.missing, *wrong, *faults_of_pipelines(config))
    return snapshot, tuple(dict.fromkeys(refusing))


def _why(registry: Registry, hidden: Mapping[Fault, Fault] | None = None) -> Frozen[str]:
    """Return why each configured plugin is left out, with faults as they may be told."""
    shown = hidden or {}
    return Frozen({name: str(shown.get(f, f)) for name, f in registry.left_out.items()})


def _plain(read: Callable[[], Config]) -> list[Fault]:
    """Return what is told of a configuration whose variables are left as they stand."""
    try:
        config = read()
    except ConfigFaults as error:
        return [*error.faults, *error.warnings]
    snapshot, refusing = _examined(config)
    return [*refusing, *snapshot.faults, *snapshot.warnings]
