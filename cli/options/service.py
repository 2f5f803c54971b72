"""The options of commands about the service of a folder of configuration."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ...schema.directory.layout import BUS_DIR_VARIABLE, expand_home
from ...schema.directory.trust import is_safe
from ...schema.errors import BusNotFound, NotFound, Refused
from ...schema.findings import GRADES
from ...schema.sqlite.database import WRITE_TIMEOUT_S
from .. import arguments
from ..definition import optional
from ..show.output import Output
from .common import Json, Verbose, directory_option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...automation.active_config import ConfigSnapshot
    from ...automation.config.load import Demands
    from ...automation.config.sources import Origin
    from ...bus.local_bus import LocalBus

#: The file that a folder of configuration begins with.
_ROOT = "config.yaml"

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


def folder_of(option: str | None) -> Path:
    """Return the folder of configuration: the given one, else that of the environment, or here."""
    return _folder_and_origin(option)[0]


def origin_of(option: str | None) -> Origin:
    """Return the origin of the folder of configuration."""
    return _folder_and_origin(option)[1]


def _folder_and_origin(option: str | None) -> tuple[Path, Origin]:
    from ...automation.config.sources import BY_NAME, FOUND, OWN

    named = option or os.environ.get(CONFIG_VARIABLE)
    if named:
        return Path(expand_home(named)), BY_NAME
    here, own = Path.cwd(), os.path.expanduser("~/.config/ductile")
    is_own_there = os.path.exists(os.path.join(own, _ROOT)) and not (here / _ROOT).exists()
    if is_own_there or os.path.realpath(own) == os.path.realpath(here):
        return Path(expand_home(own)), OWN
    return here, OWN if is_safe(str(here)) else FOUND


def hint_of(folder: Path) -> str:
    """Return the command that trusts a folder."""
    return f"'bus trust add {shlex.quote(str(folder))}'"


@dataclass(frozen=True, kw_only=True)
class ServicePlace:
    """The options of a command about a service: its configuration and its bus."""

    config: ConfigFolder = None
    directory: ServiceDirectory = None
    json: Json = False
    verbose: Verbose = False
    output: Output

    def folder(self) -> Path:
        """Return the folder of configuration."""
        return folder_of(self.config).absolute()

    def origin(self) -> Origin:
        """Return the origin of the configuration."""
        return origin_of(self.config)

    def refuse_found(self) -> None:
        """Refuse a configuration that was only found in the working directory: it may not act.

        Raises:
            Refused: it was only found; the error says how to trust it.
            ConfigFaults: there is none.
        """
        if not self.origin().may_act:
            folder = self.folder()
            if not (folder / _ROOT).exists():
                from ...automation.config.sources import no_configuration

                raise no_configuration(folder)
            raise Refused(
                f"the configuration in {folder} was only found here, and starts nothing: look at"
                f" it, then trust it with {hint_of(folder)}, or name it with --config"
            )

    def snapshot(self) -> ConfigSnapshot:
        """Return the present configuration, with its plugins, for a command that acts by it.

        It must be as it was sealed, unless the running service has accepted it unsealed.

        Raises:
            ConfigFaults: it is refused.
            Refused: it was only found.
        """
        from ...automation.config.load import TO_ACT, Demands
        from ...automation.config.values import ConfigFaults

        self.refuse_found()
        try:
            return self._examined(TO_ACT)
        except ConfigFaults:
            with suppress(ConfigFaults):
                unsealed = self._examined(Demands(seal=False))
                if self._is_in_force(unsealed):
                    return unsealed
            raise

    def _is_in_force(self, snapshot: ConfigSnapshot) -> bool:
        """Whether the running service uses exactly these files."""
        from ...automation.attention import hash_in_force
        from ...automation.service_lock import is_running

        if not is_running(self.state_dir()):
            return False
        with self.open() as bus:
            return hash_in_force(bus) == snapshot.config.hash

    def look(self) -> ConfigSnapshot:
        """Return the present configuration, with its plugins, for a command that only shows it.

        Undefined variables stay as `${NAME}`; if the configuration was only found, all do.

        Raises:
            ConfigFaults: it is refused.
        """
        from ...automation.config.load import TO_LOOK

        return self._examined(TO_LOOK)

    def _examined(self, demands: Demands) -> ConfigSnapshot:
        from ...automation.active_config import examine_folder

        return examine_folder(self.folder(), os.environ, self.origin(), demands)

    def warn_of_hidden_plugins(self) -> None:
        """Warn of plugins that are hidden by others of the same name."""
        from ...automation.config.values import ConfigFaults

        with suppress(ConfigFaults):  # 'bus automation start' reports them
            for warning in self.look().registry.shadowed:
                self.output.note(f"warning: {warning}")

    def first_root(self) -> Path:
        """Return the first folder of plugins that the configuration names.

        Raises:
            ConfigFaults: the configuration is refused.
            NotFound: it names none.
        """
        from ...automation.config.load import TO_LOOK, load

        self.refuse_found()
        where, origin = self.folder(), self.origin()
        roots = load(where, environ=os.environ, origin=origin, demands=TO_LOOK).plugin_roots
        if not roots:
            raise NotFound("the configuration names no folder for plugins: plugin_roots: [plugins]")
        return roots[0]

    def state_dir(self) -> Path:
        """Return the state directory of the service, with its lock.

        Raises:
            Distrusted: others may have put the lock there.
        """
        from ...automation.service_lock import LOCK, state_dir_of
        from ...schema.directory.trust import check, trusted_owners

        origin = self.origin()
        directory = state_dir_of(self.folder(), origin)
        with suppress(FileNotFoundError, NotADirectoryError):
            check(directory / LOCK, trusted_owners(*([self.folder()] if origin.is_named else [])))
        return directory

    def bus_directory(self) -> str:
        """Return the directory of the service's bus: --dir, BUS_DIR, or its own.

        Raises:
            Refused: a configuration that was only found has it elsewhere.
        """
        from ...automation.service_lock import bus_of
        from ...schema.directory.discovery import refuse_foreign
        from ...schema.directory.trust import is_within

        named = arguments.named_by(self.directory, False) or os.environ.get(BUS_DIR_VARIABLE)
        if named:
            return os.path.abspath(named)
        origin, folder = self.origin(), self.folder()
        directory = bus_of(folder, origin)
        if not origin.may_act:
            if not is_within(os.path.realpath(directory), os.path.realpath(folder)):
                self.refuse_found()
            refuse_foreign(directory)
        return directory

    def open(self, *, write_timeout_s: float = WRITE_TIMEOUT_S) -> LocalBus:
        """Open the bus of the service.

        Raises:
            BusNotFound: the service has never begun.
        """
        from ...bus.local_bus import LocalBus

        directory = self.bus_directory()
        if not os.path.exists(os.path.join(directory, "bus.db")):
            raise BusNotFound(
                f"no bus in {directory}: start the service with 'bus automation start'"
            )
        return LocalBus.open(directory, write_timeout_s=write_timeout_s)


#: The default of a command's parameter for it, which Python requires; it is always given.
SERVICE: Any = None

# Exit codes for monitors: 0 well, 1 look, 2 broken, 3 not known.
#
# Errors of commands use the same numbers. So a check returns its answer with an offset until the
# command ends, and every other ending becomes 3, such as wrong usage or an unreadable bus.

_OPTION = "--exit-code"

ExitCode = Annotated[
    bool,
    typer.Option(_OPTION, help="Exit as monitors expect: 0 well, 1 look, 2 broken, 3 not known."),
]

#: The commands with that option, as words of a command line begin.
_CHECKS = ("automation", "doctor")

#: Added to the code of an answer until the command ends.
_ANSWERED = 64

#: The exit code for "not known".
_NOT_KNOWN = 3


def answer(states: Iterable[str], *, is_broken: bool = False) -> int:
    """Return what a command returns for findings of these states."""
    return _ANSWERED + max([2 if is_broken else 0, *(GRADES[state] for state in states)])


def is_check(arguments: list[str]) -> bool:
    """Whether a command line asks for these codes, or would if its command were spelt rightly."""
    if _OPTION not in arguments[: arguments.index("--") if "--" in arguments else None]:
        return False
    from ..catalogue import MODULES

    return arguments[0] in _CHECKS or arguments[0] not in MODULES


def exit_code(code: int) -> int:
    """Return the exit code of a check that has ended with a code; signals keep theirs."""
    if code >= 128:
        return code
    return code - _ANSWERED if _ANSWERED <= code <= _ANSWERED + 2 else _NOT_KNOWN
