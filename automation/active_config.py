"""The active configuration of a service: router, rules and queues, made of one snapshot.

It is complete before anything uses it, and is stored in one transaction, so that a service that
fails or is killed meanwhile leaves the previous one as it was.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..schema.errors import AckbusError, Refused, TimedOut
from ..schema.queries import engine_of
from ..subscribers.queues.queue_set import QueueSet
from .config.load import TO_ACT, load
from .config.sources import ACCESS, BY_NAME, gather, hashes_of, read_seal
from .config.values import ConfigFaults, Frozen, without_values
from .jobs import submission as plugin_queues
from .jobs.dispatcher import DispatchRules
from .jobs.submission import JobRequest
from .plugins.discovery import check_references, discover
from .records.facts import Inits
from .routes.conditions import faults_of_pipelines
from .routes.flow import Contexts
from .routes.router import Router

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..bus.local_bus import LocalBus
    from .config.load import Demands
    from .config.models import Config
    from .config.sources import Origin
    from .config.values import Fault
    from .jobs.submission import Submission
    from .plugins.discovery import Plugin, Registry
    from .schedules.scheduler import Scheduler
    from .service import Service

# Snapshots: a configuration with its plugins, and what is wrong with them.
#
# A check, a start and a reload refuse the same faults. A plugin that can't be loaded is left out,
# and the rest runs, unless all plugins are demanded; to a check that is a fault all the same.

_plugin_log = logging.getLogger("ackbus.automation.plugins")


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """A complete configuration, with its plugins and faults.

    Attributes:
        config: the configuration.
        registry: its plugins.
        faults: of plugins that can't be loaded, and are left out.
        left_out: those of them that the configuration names, and why each one is.
        warnings: what an operator should know.
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
            _plugin_log.error("%s", fault)
        for warning in self.warnings:
            _plugin_log.warning("%s", warning)


def examine_folder(
    directory: Path,
    environ: Mapping[str, str],
    origin: Origin = BY_NAME,
    demands: Demands = TO_ACT,
) -> ConfigSnapshot:
    """Return the configuration of a folder with its plugins; nothing is logged.

    Args:
        directory: the folder.
        environ: where its variables are looked for.
        origin: how far the configuration is trusted.
        demands: what is refused instead of only reported.

    Raises:
        ConfigFaults: something is wrong that refuses the whole.
    """
    read = partial(load, directory, demands=demands)
    config = read(environ=environ, origin=origin)
    snapshot, refusing = _examined(config)
    reported = (*refusing, *snapshot.faults, *snapshot.registry.warnings)
    if reported and config.variables:
        values = [secret.reveal() for secret in config.variables.values()]
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


def _examined(config: Config) -> tuple[ConfigSnapshot, tuple[Fault, ...]]:
    """Return what is made of a configuration, and the faults that refuse the whole."""
    registry = discover(config)
    wrong, waiting = check_references(config, registry)
    warnings = tuple(sorted({*config.warnings, *registry.warnings, *waiting}))
    snapshot = ConfigSnapshot(config, registry, registry.faults, _why(registry), warnings)
    refusing = (*registry.missing, *wrong, *faults_of_pipelines(config))
    return snapshot, tuple(dict.fromkeys(refusing))


def _why(registry: Registry, hidden: Mapping[Fault, Fault] | None = None) -> Frozen[str]:
    """Return why each configured plugin is left out, with faults as they may be shown."""
    shown = hidden or {}
    return Frozen({name: str(shown.get(f, f)) for name, f in registry.left_out.items()})


def _plain(read: Callable[[], Config]) -> list[Fault]:
    """Return the faults and warnings of a configuration with unfilled variables."""
    try:
        config = read()
    except ConfigFaults as error:
        return [*error.faults, *error.warnings]
    snapshot, refusing = _examined(config)
    return [*refusing, *snapshot.faults, *snapshot.warnings]


# Differences between a folder of configuration, its seal, and the service that runs.


@dataclass(frozen=True, slots=True)
class SealDifference:
    """A file that is not as it was sealed.

    Attributes:
        file: its absolute path; with `#access` the settings of tokens and webhooks in all files.
        state: `new`, `changed`, `unused` where nothing includes it any more, or `gone`.
        sealed, now: its BLAKE3 hashes; None where it was not sealed, or is not there.
    """

    file: str
    state: str
    sealed: str | None
    now: str | None


def files_of(directory: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of a configuration, and the hash of each file that a seal has.

    Raises:
        ConfigFaults: a file can't be read; what variables hold does not matter.
    """
    sources = gather(directory)
    sources.raise_faults()
    return sources.directory, hashes_of(sources.files, sources.directory)


def from_seal(directory: Path) -> list[SealDifference]:
    """Return the files of a configuration that are not as they were sealed.

    Raises:
        ConfigFaults: a file can't be read.
    """
    folder, now = files_of(directory)
    sealed, _ = read_seal(folder)
    now = {path: hash for path, hash in now.items() if path in sealed or ACCESS not in path}
    return [
        SealDifference(path, _state(path, sealed, now), sealed.get(path), now.get(path))
        for path in sorted({*sealed, *now})
        if sealed.get(path) != now.get(path)
    ]


def _state(path: str, sealed: Mapping[str, str], now: Mapping[str, str]) -> str:
    if path in now:
        return "changed" if path in sealed else "new"
    return "unused" if os.path.exists(path) else "gone"


_log = logging.getLogger("ackbus.automation.service")


@dataclass(frozen=True, slots=True)
class ActiveConfig:
    """A configuration as a service uses it.

    Attributes:
        snapshot: the configuration, and its plugins.
        router: follows its routes and pipelines.
        rules: of the dispatcher.
        queues: of its plugins.
    """

    snapshot: ConfigSnapshot
    router: Router
    rules: DispatchRules
    queues: QueueSet

    @property
    def in_use(self) -> set[str]:
        """The names of the plugins that the configuration has, loaded or not."""
        plugins = self.snapshot.config.plugins
        return {name for name, settings in plugins.items() if settings.enabled} | set(
            self.snapshot.plugins
        )

    def __str__(self) -> str:
        """Return its size, for people."""
        pipelines = self.snapshot.config.pipelines
        return f"{len(self.snapshot.plugins)} plugins and {len(pipelines)} pipelines"


def activate(
    bus: LocalBus,
    snapshot: ConfigSnapshot,
    scheduler: Scheduler,
    submission: Submission,
    check: Callable[[], None],
) -> ActiveConfig:
    """Store the changes of a configuration in one transaction, and return it as the active one.

    Args:
        bus: the bus.
        snapshot: the configuration.
        scheduler: stores its schedules.
        submission: takes in the jobs that set up plugins.
        check: is called in that transaction; it raises where another service has begun.

    Raises:
        AckbusError: something can't be stored; nothing was.
    """
    config, plugins = snapshot.config, snapshot.plugins
    with bus.transaction():
        check()
        for plugin in plugins.values():
            plugin_queues.follow(bus, plugin, config.service)
        scheduler.store(config, snapshot.registry)
        _begin_inits(Inits(engine_of(bus)), snapshot, submission)
        return ActiveConfig(
            snapshot,
            Router(bus, config, plugins),
            DispatchRules(plugins, config.service, Contexts.of(bus).values),
            QueueSet(bus, map(plugin_queues.queue_of, plugins)),
        )


def _begin_inits(inits: Inits, snapshot: ConfigSnapshot, submission: Submission) -> None:
    """Submit `init` for each plugin that is new, or has changed with its configuration."""
    stored_inits = inits.all()
    for name in stored_inits.keys() - snapshot.plugins.keys():
        inits.forget(name)
    for plugin in snapshot.plugins.values():
        init = stored_inits.get(plugin.name)
        is_known = init is not None and init.fingerprint == plugin.fingerprint
        if is_known or "init" not in plugin.manifest.commands:
            continue
        request = JobRequest(
            plugin=plugin.name,
            command="init",
            submitted_by="scheduler",
            dedupe_key=plugin.fingerprint,
            dedupe_ttl_s=0,  # while one waits or runs there is no second
        )
        try:
            submission.submit(request)
        except Refused as error:  # its queue is full: the next start or reload tries again
            _log.error("init can't be submitted: %s", error, extra={"plugin": plugin.name})


# Loading the configuration of a service; others can request a reload and wait for it.

#: How long a configuration may take to come into force, in seconds.
_WITHIN_S = 30.0


class ConfigLoader:
    """Loads the configuration of a service, and remembers the outcome of the last load.

    Args:
        read: reads it whole.
    """

    def __init__(self, read: Callable[[], ConfigSnapshot]) -> None:
        self._read = read
        self._change = threading.Condition()
        self._begun = self._ended = 0
        self._error: AckbusError | None = None

    def __call__(self) -> ConfigSnapshot:
        """Read the configuration, for the service.

        Raises:
            ConfigFaults: it is refused.
            Refused: it can't be read, for a reason that no check of ours foresees.
        """
        with self._change:
            self._begun += 1
        try:
            return self._read()
        except AckbusError:
            raise
        except Exception as error:  # whatever it is, the service that runs must go on
            _log.exception("the configuration can't be read")
            raise Refused(f"the configuration can't be read: {error}; see the log") from error

    def end(self, error: AckbusError | None) -> None:
        """Record that the loaded configuration is in force, or why it was refused."""
        with self._change:
            self._error, self._ended = error, self._begun
            self._change.notify_all()

    def reload(self, service: Service) -> None:
        """Make a service reload its configuration, and wait until it has.

        Raises:
            ConfigFaults: it is refused, and the one before it stays in force.
            Refused: likewise, for what the bus has.
            TimedOut: the service has not taken it yet.
        """
        with self._change:
            before = self._begun  # a reading that goes on may have missed the newest change
            service.reload()
            if not self._change.wait_for(lambda: self._ended > before, _WITHIN_S):
                raise TimedOut("the service has not loaded its configuration yet; see its log")
            error = self._error
        if isinstance(error, ConfigFaults):
            raise error
        if error is not None:
            raise Refused(f"the configuration is refused: {error}") from error
