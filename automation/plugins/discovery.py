"""Discovery: the plugins of all roots, whether each is trusted, and references to them.

Roots are searched in order, and the first plugin of a name wins. A plugin that may not run, or
whose manifest has a fault, is left out with the reason; the others are loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

import orjson

from ...schema.directory.enclosure import EnclosedFile, Enclosure, LinkRefused
from ...schema.directory.trust import Distrusted, check
from ...schema.errors import AckbusError, NotFound, Refused
from ..config.files import NO_PATH, hash_of, read_bytes
from ..config.models import TIMEOUTS_S
from ..config.values import SWITCH, Fault, Frozen, near
from .manifest import Manifest, name_in, read_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...schema.directory.trust import Owners
    from ..config.models import Config, PipelineStep, PluginConfig, WebhookEndpoint
    from ..config.values import SourceLocation
    from .manifest import PluginCommand

# Trust: which folders hold plugins that may run.
#
# A plugin lies under one of the roots that the operator named, whatever links lead there, and
# nobody else owns it, can write into it, or can put another one in its place. Its program is a
# file of it that the service's user may execute.

#: The file of a plugin that names its program.
MANIFEST = "manifest.yaml"


def faults_of_folder(folder: Path, roots: Sequence[Path], owners: Owners) -> Iterator[str]:
    """Yield why no plugin of a folder may run, nothing where one may.

    Args:
        folder: the folder of a plugin.
        roots: the roots that the operator named.
        owners: the users whose files are trusted.
    """
    real = Path(os.path.realpath(folder))
    root = _root_of(real, roots)
    if root is None:
        yield f"{folder} leads to {real}, outside of plugin_roots"
        return
    for path, reads_names in ((folder, True), (folder / MANIFEST, False)):
        yield from _distrusted(path, owners, reads_names=reads_names)


def _distrusted(path: Path, owners: Owners, *, reads_names: bool = False) -> Iterator[str]:
    try:
        check(path, owners, reads_names=reads_names)
    except OSError as error:
        yield error.strerror or str(error)


def faults_of_program(
    folder: Path, entrypoint: str, roots: Sequence[Path], owners: Owners
) -> Iterator[str]:
    """Yield why the program of a plugin may not run, nothing where it may.

    Args:
        folder: the folder of the plugin.
        entrypoint: its program, as its manifest names it.
        roots: the roots that the operator named.
        owners: the users whose files are trusted.
    """
    parts = PurePosixPath(entrypoint)
    if ".." in parts.parts:
        yield "'..' leads out of the plugin's folder; name a file in it"
        return
    if parts.is_absolute():
        yield f"{entrypoint!r} is absolute; name a file of the plugin's folder"
        return
    if "\0" in entrypoint:
        yield NO_PATH
        return
    program = folder / parts
    real = Path(os.path.realpath(program))
    if _root_of(real, roots) is None:
        yield f"{program} leads to {real}, outside of plugin_roots"
    elif not os.path.isfile(real):
        yield f"there is no file {program}"
    else:
        yield from _faults_of_file(real, program, owners)


def links_of(folder: Path, entrypoint: str | None = None) -> list[str]:
    """Return the symlinks on the way to a plugin, or to its program: each is a warning at least."""
    paths = [folder]
    if entrypoint is not None:
        parts = PurePosixPath(entrypoint)
        paths = [folder / part for part in (parts, *parts.parents) if str(part) != "."]
    return [str(path) for path in paths if os.path.islink(path)]


def _faults_of_file(real: Path, program: Path, owners: Owners) -> Iterator[str]:
    if not os.stat(real).st_mode & 0o111 or not os.access(real, os.X_OK):
        yield f"{program} is not executable; chmod +x it"
    yield from _distrusted(program, owners)
    yield from _distrusted(real.parent, owners, reads_names=True)


def _root_of(real: Path, roots: Sequence[Path]) -> Path | None:
    """Return the root that a real path lies under, or None."""
    for root in roots:
        resolved = Path(os.path.realpath(root))
        if resolved in real.parents:
            return resolved
    return None


#: The folder that plugins share; it is no plugin itself.
SHARED = "lib"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
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

    def command(self, name: str) -> PluginCommand:
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
        warnings: what an operator should know.
        shadowed: the warnings about plugins behind another one of the same name.
    """

    plugins: Mapping[str, Plugin] = field(default_factory=Frozen)
    found: Mapping[str, FoundPlugin] = field(default_factory=Frozen)
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
        message = f"the plugin {name!r} is not used; add plugins.{name} to run it"
        search.warn(search.found[name].folder / MANIFEST, message)
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
        self.found: dict[str, FoundPlugin] = {}
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
        #: Names that two plugins of one root have, so that the name is ambiguous.
        self._double: set[str] = set()

    def warn(self, path: Path, message: str) -> None:
        self.warnings.append(Fault(str(path), 0, "", message))

    def look_through(self, root: Path) -> None:
        try:
            check(root, self._config.owners, reads_names=True)
            folders = sorted(entry for entry in root.iterdir() if entry.is_dir())
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
        messages = list(faults_of_folder(folder, roots, self._config.owners))
        manifest, faults = read_manifest(file, self._config.owners) if not messages else (None, [])
        if manifest is not None:
            messages += faults_of_program(folder, manifest.entrypoint, roots, self._config.owners)
        messages += self._links(folder, manifest)
        faults += [Fault(str(file), 0, "", message) for message in messages]
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
            self.found[name] = FoundPlugin(
                folder, manifest, hash_of(read_bytes(file, self._config.owners))
            )

    def _refuse_both(self, file: Path, name: str, earlier: FoundPlugin) -> None:
        self._refuse_again(file, name)
        self._refuse_again(earlier.folder / MANIFEST, name)
        self._double.add(name)
        self._refused[name] = self.faults[-1]
        del self.found[name]

    def _refuse_again(self, file: Path, name: str) -> None:
        message = (
            f"two plugins of one folder have the name {name!r}, and neither runs; move one away"
        )
        self.faults.append(Fault(str(file), 0, "", message))

    def _links(self, folder: Path, manifest: Manifest | None) -> list[str]:
        """Warn of symlinks, and return them as faults where they are not allowed."""
        links = links_of(folder) + (links_of(folder, manifest.entrypoint) if manifest else [])
        for link in links:
            self.warn(folder / MANIFEST, f"{link} is a symlink")
        if self._config.service.allow_symlinks:
            return []
        advice = "is a symlink; move the plugin there, or set service.allow_symlinks: true"
        return [f"{link} {advice}" for link in links]

    def plugin(self, settings: PluginConfig) -> Plugin | None:
        """Return the plugin of an entry of `plugins`, None where it can't run, which is noted."""
        candidate = self.found.get(settings.uses)
        if candidate is None:
            self._note_absent(settings)
            return None
        required = candidate.manifest.config_keys.required
        missing = [key for key in required if settings.config.get(key) is None]
        if missing:
            fault = settings.place.fault(f"the plugin asks for config: {', '.join(missing)}")
            self.faults.append(fault)
            self.left_out[settings.name] = fault
            return None
        return Plugin(
            name=settings.name,
            folder=candidate.folder,
            entrypoint=candidate.folder / candidate.manifest.entrypoint,
            manifest=candidate.manifest,
            settings=settings,
            fingerprint=_fingerprint(candidate, settings),
            parallelism=_parallelism(
                candidate.manifest, settings, self._config.service.max_workers
            ),
        )

    def _note_absent(self, settings: PluginConfig) -> None:
        """Note an entry whose plugin could not be loaded, or is nowhere."""
        why = self._refused.get(settings.uses) or self._unread
        if why is not None:
            self.left_out[settings.name] = why
            return
        message = f"no plugin {settings.uses!r} is in plugin_roots{near(settings.uses, self.found)}"
        self.missing.append(settings.place.fault(message))


def _fingerprint(candidate: FoundPlugin, settings: PluginConfig) -> str:
    config = orjson.dumps(settings.config, option=orjson.OPT_SORT_KEYS)
    return hash_of(candidate.hash.encode() + config)


def _parallelism(manifest: Manifest, settings: PluginConfig, max_workers: int) -> int:
    """Return how many jobs of a plugin run at a time: its operator decides, then its author."""
    if settings.parallelism is not None:
        return settings.parallelism
    return max_workers if manifest.concurrency_safe else 1


# References of a configuration to plugins and their commands: each leads to one that runs.


def check_references(config: Config, registry: Registry) -> tuple[list[Fault], list[Fault]]:
    """Return the faults of references, and the warnings.

    A name that is nowhere is a fault. What leads to a plugin that is disabled or left out waits for
    it, and is a warning.
    """
    references = _References(config, registry)
    for plugin in config.plugins.values():
        for entry in plugin.schedules if plugin.enabled else ():
            references.command(entry.plugin, entry.command, entry.place)
        references.timeouts(plugin)
        if plugin.on_failure:
            references.target(plugin.on_failure, plugin.place)
    if config.service.on_failure:
        references.target(config.service.on_failure, config.service.place)
    for route in config.routes:
        if route.source != SWITCH:
            references.plugin(route.source, route.place)
        references.command(route.to, route.command, route.place)
    for pipeline in config.pipelines:
        if pipeline.from_plugin not in (None, SWITCH):
            references.plugin(pipeline.from_plugin, pipeline.place)
        for step in pipeline.steps:
            references.step(step)
    for endpoint in config.webhooks.endpoints if config.webhooks else ():
        references.endpoint(endpoint)
    return references.faults, references.warnings


class _References:
    def __init__(self, config: Config, registry: Registry) -> None:
        self._config = config
        self._registry = registry
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def plugin(self, name: str, place: SourceLocation) -> None:
        if name in self._registry.plugins:
            return
        settings = self._config.plugins.get(name)
        if settings is None:
            message = f"there is no plugin {name!r}{near(name, self._config.plugins)}"
            if name in self._registry.found:
                message = f"the plugin {name!r} is not used; add plugins.{name} to run it"
            self.faults.append(place.fault(message))
        elif not settings.enabled:
            self.warnings.append(place.fault(f"the plugin {name!r} is disabled"))
        elif name in self._registry.left_out:
            message = f"the plugin {name!r} is left out, so nothing comes of this"
            self.warnings.append(place.fault(message))
        # else the entry itself leads nowhere, and has a fault

    def command(self, plugin: str, command: str, place: SourceLocation) -> None:
        self.plugin(plugin, place)
        if (loaded := self._registry.plugins.get(plugin)) is None:
            return
        commands = loaded.manifest.commands
        if command not in commands:
            message = f"the plugin {plugin!r} has no command {command!r}{near(command, commands)}"
            self.faults.append(place.fault(message))

    def timeouts(self, settings: PluginConfig) -> None:
        plugin = self._registry.plugins.get(settings.name)
        commands = {*TIMEOUTS_S, *(plugin.manifest.commands if plugin else settings.timeouts)}
        for command in settings.timeouts:
            if command not in commands:
                message = (
                    f"timeouts.{command}: the plugin has no such command{near(command, commands)}"
                )
                self.faults.append(settings.place.fault(message))

    def target(self, target: str, place: SourceLocation) -> None:
        plugin, _, command = target.partition(".")
        self.command(plugin, command or "handle", place)

    def endpoint(self, endpoint: WebhookEndpoint) -> None:
        if endpoint.plugin is not None:
            self.command(endpoint.plugin, endpoint.command, endpoint.place)
        pipelines = {pipeline.name for pipeline in self._config.pipelines}
        if endpoint.pipeline is not None and endpoint.pipeline not in pipelines:
            message = (
                f"there is no pipeline {endpoint.pipeline!r}{near(endpoint.pipeline, pipelines)}"
            )
            self.faults.append(endpoint.place.fault(message))

    def step(self, step: PipelineStep) -> None:
        if step.uses is not None:
            self.command(step.plugin, step.command, step.place)
        for inner in (*step.steps, *step.split):
            self.step(inner)


# Plugins that come with the package: each is copied into a root of the operator, to run there.

#: Where they are in the package: what lies here is never run.
_PLACE = Path(__file__).parents[1] / "shipped"


#: A name that no file of a plugin has: the walk to it ends in the plugin's folder.
_NO_FILE = ".new"


@dataclass(frozen=True, slots=True)
class AddedPlugin:
    """A plugin that was copied.

    Attributes:
        folder: its copy.
        manifest: its description of itself.
        state: whether it is `new`, was the `same`, or was `changed`.
    """

    folder: Path
    manifest: Manifest
    state: Literal["new", "same", "changed"]


def shipped() -> list[Manifest]:
    """Return the manifests of the plugins that come with the package, by name."""
    return [_manifest(path.parent) for path in sorted(_PLACE.glob(f"*/{MANIFEST}"))]


def add(
    name: str,
    root: Path,
    within: Path | None = None,
    *,
    replace: bool = False,
    dry_run: bool = False,
) -> AddedPlugin:
    """Copy a plugin of the package into a root of plugins; a repetition finishes a partial copy.

    Args:
        name: the plugin.
        root: the folder that holds plugins.
        within: the folder of the configuration: a root in it is not written to through a link that
            leaves it; another root, or any where this is None, through none that leaves the root.
        replace: whether a copy that differs is brought up to this version.
        dry_run: whether nothing is written.

    Raises:
        NotFound: no such plugin comes with the package.
        Refused: files of another one are there, or of one that was changed; or a link leads out.
        AckbusError: the root can't be written to.
    """
    manifest = next((plugin for plugin in shipped() if plugin.name == name), None)
    if manifest is None:
        names = ", ".join(plugin.name for plugin in shipped())
        raise NotFound(f"no plugin {name!r} comes with the package; there are {names}")
    folder, files = root / name, _files(name)
    there = {file: _read(folder / file) for file in files}
    if there == files:
        return AddedPlugin(folder, manifest, "same")
    others = [file for file, data in files.items() if there[file] not in (None, data)]
    if others and not replace:
        differing = ", ".join(others)
        raise Refused(f"{folder} has another {differing}; --replace puts this one in its place")
    state: Literal["new", "changed"] = "changed" if others else "new"
    if dry_run:
        return AddedPlugin(folder, manifest, state)
    modes = {file: 0o755 if file == manifest.entrypoint else 0o644 for file in files}
    top = within if within is not None and root.is_relative_to(within) else root
    _write(folder, Enclosure(str(top)), files, modes)
    return AddedPlugin(folder, manifest, state)


def _write(folder: Path, within: Enclosure, files: dict[str, bytes], modes: dict[str, int]) -> None:
    """Write the files of a plugin; one that is a link is replaced, and never followed.

    Raises:
        LinkRefused: a link on the way to the folder leads out of the enclosure.
        AckbusError: they can't be written.
    """
    try:
        with within.spot(str(folder / _NO_FILE), make=0o755) as there:
            for file, data in files.items():
                spot = EnclosedFile(str(folder / file), file, there.folder)
                spot.remove_link()
                spot.replace(data, mode=modes[file])
    except LinkRefused:
        raise
    except Refused as error:
        raise AckbusError(f"can't write to {folder}: {error}") from error
    except OSError as error:
        raise AckbusError(f"can't write to {error.filename or folder}: {error.strerror}") from error


def _manifest(folder: Path) -> Manifest:
    manifest, faults = read_manifest(folder / MANIFEST)
    assert manifest is not None, faults
    return manifest


def _files(name: str) -> dict[str, bytes]:
    """Return the files of a plugin, its manifest last: without one nothing is a plugin."""
    files = [path for path in (_PLACE / name).iterdir() if path.is_file()]
    files.sort(key=lambda path: (path.name == MANIFEST, path.name))
    return {path.name: read_bytes(path) for path in files}


def _read(path: Path) -> bytes | None:
    """Return what a file holds; None: nothing is there. What can't be read counts as empty."""
    try:
        return read_bytes(path)
    except OSError:
        return b"" if os.path.lexists(path) else None
