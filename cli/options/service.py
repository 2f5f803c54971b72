"""The options of commands about the service of a folder of configuration."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from ...schema.directory.layout import BUS_DIR_VARIABLE
from ...schema.errors import BusNotFound, NotFound
from ...schema.sqlite.database import WRITE_TIMEOUT_S
from .. import arguments
from ..definition import optional
from .common import Json, Verbose, directory_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.snapshots import Snapshot
    from ...bus.bus import Bus

#: The variable that names the folder of configuration.
CONFIG_VARIABLE = "BUS_CONFIG"

FOLDER_HELP = (
    "The folder of configuration. Default: $BUS_CONFIG, else the working directory if it has "
    "a config.yaml, else ~/.config/ductile."
)
ConfigFolder = Annotated[str | None, optional("DIR", FOLDER_HELP, "--config")]

ServiceDirectory = Annotated[
    str | None,
    directory_option(
        "The bus directory of the service. Default: $BUS_DIR, else data/.worker-state in the "
        "folder of configuration, or beside its state.path."
    ),
]


def folder_of(given: str | None) -> Path:
    """Return the folder of configuration: the given one, else that of the environment, or here."""
    named = given or os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(named)
    here = Path.cwd()
    return here if (here / "config.yaml").exists() else Path.home() / ".config" / "ductile"


@dataclass(frozen=True, kw_only=True)
class ServicePlace:
    """The options of a command about a service: its configuration and its bus."""

    config: ConfigFolder = None
    directory: ServiceDirectory = None
    json: Json = False
    verbose: Verbose = False

    def folder(self) -> Path:
        """Return the folder of configuration."""
        return folder_of(self.config).absolute()

    def snapshot(self) -> Snapshot:
        """Return the configuration as it is now, with its plugins.

        Raises:
            ConfigFaults: it is refused.
        """
        from ...automation.snapshots import examine_folder

        return examine_folder(self.folder(), os.environ)

    def first_root(self) -> Path:
        """Return the first folder of plugins that the configuration names.

        Raises:
            ConfigFaults: the configuration is refused.
            NotFound: it names none.
        """
        from ...automation.config.load import load

        roots = load(self.folder(), environ=os.environ).plugin_roots
        if not roots:
            raise NotFound("the configuration names no folder for plugins: plugin_roots: [plugins]")
        return roots[0]

    def state_dir(self) -> Path:
        """Return the state directory of the service, with its lock."""
        from ...automation.places import state_dir_of

        return state_dir_of(self.folder())

    def bus_directory(self) -> str:
        """Return the directory of the service's bus: --dir, BUS_DIR, or its own."""
        from ...automation.places import bus_of

        named = arguments.named_by(self.directory, False) or os.environ.get(BUS_DIR_VARIABLE)
        return os.path.abspath(named) if named else bus_of(self.folder())

    def open(self, *, write_timeout_s: float = WRITE_TIMEOUT_S) -> Bus:
        """Open the bus of the service.

        Raises:
            BusNotFound: the service has never begun.
        """
        from ...bus.bus import Bus

        directory = self.bus_directory()
        if not os.path.exists(os.path.join(directory, "bus.db")):
            raise BusNotFound(
                f"no bus in {directory}: start the service with 'bus automation start'"
            )
        return Bus.open(directory, write_timeout_s=write_timeout_s)


#: The default of a command's parameter for it, which Python requires.
SERVICE: Any = ServicePlace()
