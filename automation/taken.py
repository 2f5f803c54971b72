"""A configuration that was taken, with its plugins: what a service begins with, and what is wrong.

Some faults refuse the whole configuration. Others leave out a plugin, or what refers to it, and
the rest runs: they are faults of a check all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import platformdirs

from ..schema.errors import NotFound
from .config.faults import ConfigFaults
from .config.load import load
from .plugins.discovery import discover
from .plugins.references import faults_of_references

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config.faults import Fault
    from .config.snapshot import Config
    from .plugins.discovery import Registry

#: The environment variable that names the folder of configuration.
CONFIG_VARIABLE = "BUS_CONFIG"


@dataclass(frozen=True, slots=True)
class Taken:
    """A configuration and its plugins.

    Attributes:
        faults: of plugins that are left out, and of what leads to none.
        warnings: what an operator should hear of.
    """

    config: Config
    registry: Registry
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def take(directory: Path, *, environ: Mapping[str, str], cached: bool = True) -> Taken:
    """Return the configuration of a folder with its plugins.

    Args:
        directory: the folder.
        environ: where its variables are looked for.
        cached: whether large files are kept in the user's cache.

    Raises:
        ConfigFaults: something is wrong that refuses the whole.
    """
    cache = Path(platformdirs.user_cache_dir("ackbus"), "config") if cached else None
    config = load(directory, environ=environ, cache_directory=cache)
    registry = discover(config)
    faults = tuple(sorted({*registry.faults, *faults_of_references(config, registry)}))
    if faults and config.service.admission.validate_config_on_boot:
        raise ConfigFaults(faults)
    warnings = tuple(sorted({*config.warnings, *registry.warnings}))
    return Taken(config, registry, faults, warnings)


def faults_of(directory: Path, *, environ: Mapping[str, str]) -> tuple[Fault, ...]:
    """Return all that is wrong with a folder of configuration, nothing where it is right."""
    try:
        return take(directory, environ=environ).faults
    except ConfigFaults as refused:
        return refused.faults


def find_configuration(named: str | None, environ: Mapping[str, str]) -> Path:
    """Return the folder of configuration that is meant.

    It is the one that is named, else that of $BUS_CONFIG, else the user's own: `automation` in the
    configuration of ackbus, or that of Ductile.

    Raises:
        NotFound: there is none.
    """
    if given := named or environ.get(CONFIG_VARIABLE):
        return Path(given)
    own = Path(platformdirs.user_config_dir("ackbus"), "automation")
    ductile = Path(platformdirs.user_config_dir("ductile"))
    for directory in (own, ductile):
        if (directory / "config.yaml").exists():
            return directory
    raise NotFound(
        f"there is no configuration: neither ${CONFIG_VARIABLE} nor {own} nor {ductile};"
        " name its folder"
    )
