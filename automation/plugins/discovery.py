"""Discovery: the plugins of all roots, with what the operator says of each.

The roots are looked through in their order, and the first plugin of a name is the one. A plugin
that may not run, or whose manifest has a fault, is left out, and says why; the others are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import orjson

from ...schema.directory.file_trust import Distrusted, check
from ...schema.errors import NotFound
from ..config.faults import Fault, near
from ..config.files.reading import hash_of, read_bytes
from ..config.records import Frozen
from .manifest import Manifest, name_in, read_manifest
from .trust import MANIFEST, faults_of_folder, faults_of_program, links_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config.snapshot import Config, PluginConfig
    from .manifest import Command

#: The folder that plugins may share, which is none.
SHARED = "lib"


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin as it lies in a root: its folder, its manifest, and the hash of that."""

    folder: Path
    manifest: Manifest
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that runs: an alias has the folder of another, and a name and settings of its own.

    Attributes:
        entrypoint: its program.
        fingerprint: of its manifest and its `config`: another one asks for another `init`.
        parallelism: how many of its jobs run at a time.
    """

    name: str
    folder: Path
    entrypoint: Path
    manifest: Manifest
    settings: PluginConfig
    fingerprint: str
    parallelism: int

    @property
    def working_directory(self) -> Path | None:
        """The folder in which it runs; None for the one in which the service was started."""
        return self.folder if self.manifest.working_directory == "plugin" else None

    def timeout_s(self, command: str) -> float:
        """Return the seconds that a command may take."""
        return self.settings.timeout_s(command)

    def command(self, name: str) -> Command:
        """Return a command.

        Raises:
            NotFound: the plugin has no such command.
        """
        if name not in self.manifest.commands:
            commands = self.manifest.commands
            raise NotFound(
                f"the plugin {self.name!r} has no command {name!r}{near(name, commands)}; it has"
                f" {', '.join(commands)}"
            )
        return self.manifest.commands[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The plugins of a configuration.

    Attributes:
        plugins: those that run, by name.
        found: all that lie in the roots and have no fault, configured or not, by manifest name.
        left_out: the configured ones that can't be loaded, by name, and why.
        faults: of those, and of others in the roots that could not be loaded.
        missing: of entries that lead to no plugin at all.
        warnings: what an operator should hear of.
        shadowed: those of them that tell of plugins behind others of their name.
    """

    plugins: Mapping[str, Plugin] = field(default_factory=Frozen)
    found: Mapping[str, Found] = field(default_factory=Frozen)
    left_out: Mapping[str, Fault] = field(default_factory=Frozen)
    faults: tuple[Fault, ...] = ()
    missing: tuple[Fault, ...] = ()
    warnings: tuple[Fault, ...] = ()
    shadowed: tuple[Fault, ...] = ()

    def plugin(self, name: str) -> Plugin:
        """Return a plugin that runs.

        Raises:
            NotFound: there is none of this name.
        """
        if name not in self.plugins:
            raise NotFound(f"there is no plugin {name!r}{near(name, self.plugins)}")
        return self.plugins[name]


def discover(config: Config) -> Registry:
    """Return the plugins of a configuration."""
    search = _Search(config)
    for root in config.plugin_roots:
        search.look_through(root)
    plugins = {
        name: plugin
        for name, settings in config.plugins.items()
        if settings.enabled and (plugin := search.plugin(settings)) is not None
    }
    used = {settings.uses for settings in config.plugins.values()}
    for name in search.found.keys() - used:
        told = f"the plugin {name!r} is not used; add plugins.{name} to run it"
        search.warn(search.found[name].folder / MANIFEST, told)
    return Registry(
        plugins=Frozen(plugins),
        found=Frozen(search.found),
        left_out=Frozen(search.left_out),
        faults=tuple(sorted(set(search.faults))),
        missing=tuple(search.missing),
        warnings=tuple(sorted(set(search.warnings))),
        shadowed=tuple(search.shadowed),
    )


class _Search:
    """Looks through the roots of a configuration."""

    def __init__(self, config: Config) -> None:
        self.found: dict[str, Found] = {}
        self.faults: list[Fault] = []
        self.missing: list[Fault] = []
        self.left_out: dict[str, Fault] = {}
        self.warnings: list[Fault] = []
        self._config = config
        self.shadowed: list[Fault] = []
        #: The first fault of each plugin that lies in a root and can't be loaded.
        self._refused: dict[str, Fault] = {}
        #: The first fault of a root whose plugins are not known.
        self._unread: Fault | None = None
        #: Names that two plugins of one root have: which one is meant can't be told.
        self._double: set[str] = set()

    def warn(self, path: Path, message: str) -> None:
        self.warnings.append(Fault(str(path), 0, "", message))

    def look_through(self, root: Path) -> None:
        try:
            check(root, self._config.owners, lists=True)
            folders = sorted(each for each in root.iterdir() if each.is_dir())
        except Distrusted as error:
            self._unread = Fault(str(root), 0, "", f"no plugin here is taken: {error}")
            self.faults.append(self._unread)
            return
        except FileNotFoundError:
            return  # the configuration warns of it, with the line that names it
        except OSError as error:
            self._unread = Fault(str(root), 0, "", f"can't look through it: {error.strerror}")
            self.faults.append(self._unread)
            return
        for folder in folders:
            if folder.name == SHARED:
                continue
            if (folder / MANIFEST).exists():
                self._look_at(folder, root)
            elif any(folder.glob("run.*")):
                self.warn(folder, f"it has a program and no {MANIFEST}, so it is no plugin")

    def _look_at(self, folder: Path, root: Path) -> None:
        file = folder / MANIFEST
        roots = self._config.plugin_roots
        told = list(faults_of_folder(folder, roots, self._config.owners))
        manifest, faults = read_manifest(file, self._config.owners) if not told else (None, [])
        if manifest is not None:
            told += faults_of_program(folder, manifest.entrypoint, roots, self._config.owners)
        told += self._links(folder, manifest)
        faults += [Fault(str(file), 0, "", message) for message in told]
        name = manifest.name if manifest else name_in(file, self._config.owners) or folder.name
        earlier = self.found.get(name)
        if earlier is not None and manifest is not None and earlier.folder.parent == root:
            return self._refuse_both(file, name, earlier)
        if earlier is not None:
            self.warn(file, f"the plugin {name!r} of {earlier.folder} comes first")
            self.shadowed.append(self.warnings[-1])
            return
        if name in self._double:
            return self._refuse_again(file, name)
        self.faults += faults
        if manifest is None or faults:
            self._refused.setdefault(name, sorted(faults)[0])
        else:
            self.found[name] = Found(
                folder, manifest, hash_of(read_bytes(file, self._config.owners))
            )

    def _refuse_both(self, file: Path, name: str, earlier: Found) -> None:
        self._refuse_again(file, name)
        self._refuse_again(earlier.folder / MANIFEST, name)
        self._double.add(name)
        self._refused[name] = self.faults[-1]
        del self.found[name]

    def _refuse_again(self, file: Path, name: str) -> None:
        told = f"two plugins of one folder have the name {name!r}, and neither runs; move one away"
        self.faults.append(Fault(str(file), 0, "", told))

    def _links(self, folder: Path, manifest: Manifest | None) -> list[str]:
        """Warn of symlinks, and return them as faults where they are not allowed."""
        links = links_of(folder) + (links_of(folder, manifest.entrypoint) if manifest else [])
        for link in links:
            self.warn(folder / MANIFEST, f"{link} is a symlink")
        if self._config.service.allow_symlinks:
            return []
        told = "is a symlink; move the plugin there, or set service.allow_symlinks: true"
        return [f"{link} {told}" for link in links]

    def plugin(self, settings: PluginConfig) -> Plugin | None:
        """Return the plugin of an entry of `plugins`, None where it can't run, which is noted."""
        found = self.found.get(settings.uses)
        if found is None:
            self._note_absent(settings)
            return None
        missing = [key for key in found.manifest.required if settings.config.get(key) is None]
        if missing:
            fault = settings.place.fault(f"the plugin asks for config: {', '.join(missing)}")
            self.faults.append(fault)
            self.left_out[settings.name] = fault
            return None
        return Plugin(
            name=settings.name,
            folder=found.folder,
            entrypoint=found.folder / found.manifest.entrypoint,
            manifest=found.manifest,
            settings=settings,
            fingerprint=_fingerprint(found, settings),
            parallelism=_parallelism(found.manifest, settings, self._config.service.max_workers),
        )

    def _note_absent(self, settings: PluginConfig) -> None:
        """Note an entry whose plugin could not be loaded, or is nowhere."""
        why = self._refused.get(settings.uses) or self._unread
        if why is not None:
            self.left_out[settings.name] = why
            return
        told = f"no plugin {settings.uses!r} is in plugin_roots{near(settings.uses, self.found)}"
        self.missing.append(settings.place.fault(told))


def _fingerprint(found: Found, settings: PluginConfig) -> str:
    config = orjson.dumps(settings.config, option=orjson.OPT_SORT_KEYS)
    return hash_of(found.hash.encode() + config)


def _parallelism(manifest: Manifest, settings: PluginConfig, max_workers: int) -> int:
    """Return how many jobs of a plugin run at a time: its operator decides, then its author."""
    if settings.parallelism is not None:
        return settings.parallelism
    return max_workers if manifest.concurrency_safe else 1
