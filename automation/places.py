"""Places of a service: its state directory, and its bus, as a configuration says.

Only what stands in the files is read, without variables or a check, so that a service can be found
whose secrets this process does not have.
"""

from __future__ import annotations

from pathlib import Path

from ..schema.directory.layout import expanded
from .config.files.merge import graft
from .config.files.sources import gather
from .config.files.yaml_tree import Map
from .config.origin import NAMED
from .config.settings.shapes import StateShape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .config.origin import Origin

#: The bus of a service, in its state directory, unless another one is named.
BUS = ".worker-state"


def state_dir_of(directory: Path, origin: Origin = NAMED) -> Path:
    """Return the state directory of a folder of configuration.

    Raises:
        ConfigFaults: there is no configuration, or its file is not trusted.
    """
    folder, tree = _read(directory, origin)
    state = tree.get("state")
    path = state.get("path") if isinstance(state, Map) else None
    named = StateShape().path if path is None else str(path)
    return (folder / expanded(named)).parent


def plugins_of(directory: Path) -> set[str]:
    """Return the names of the plugins of a folder of configuration that are not disabled.

    Raises:
        ConfigFaults: there is no configuration.
    """
    plugins = _read(directory)[1].get("plugins")
    if not isinstance(plugins, Map):
        return set()
    return {
        name
        for name, each in plugins.items()
        if not isinstance(each, Map) or str(each.get("enabled", "true")).lower() != "false"
    }


def bus_of(directory: Path, origin: Origin = NAMED) -> str:
    """Return the bus directory of a folder of configuration, there or not."""
    return str((state_dir_of(directory, origin) / BUS).absolute())


def _read(directory: Path, origin: Origin = NAMED) -> tuple[Path, Map]:
    """Return the folder of a configuration, and all that stands in its files."""
    sources = gather(directory, origin)
    if not sources.files:
        sources.refuse_faults()
    tree = Map()
    for source in sources.files:
        graft(tree, source.tree, [])
    return sources.directory, tree
