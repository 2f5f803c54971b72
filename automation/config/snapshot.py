"""A configuration that was taken: frozen records, which a running job may keep for its life.

Nothing of the libraries that read and check a configuration is in here, so that who only uses one
loads none of them. Times are seconds, sizes bytes, and each name says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...schema.directory.file_trust import Owners
from .records import NOWHERE, Frozen, Place, Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .faults import Fault
    from .flows import Pipeline, Route
    from .webhooks import WebhooksConfig

#: The seconds that each command may take, unless its plugin's `timeouts` say otherwise.
TIMEOUTS_S = {"poll": 60.0, "handle": 120.0, "health": 10.0, "init": 30.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionConfig:
    """Conditions for taking a configuration; `strict_mode` asks for all four."""

    verify_integrity_on_boot: bool = False
    fail_on_drift: bool = False
    validate_config_on_boot: bool = False
    require_api_auth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendmentsConfig:
    """Amendments of protocol 2, each of which has to be switched on.

    Attributes:
        protocol_echo: a response has to repeat `protocol`.
        exit_75_retries: exit code 75 asks for another attempt, whatever the response says.
        state_replace: a response may say `state_replace`: its updates are then the whole state.
        submitted_by_retry: attempts after the first are logged as submitted by `retry`.
    """

    protocol_echo: bool = False
    exit_75_retries: bool = False
    state_replace: bool = False
    submitted_by_retry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """The settings of the service.

    Attributes:
        tick_interval_s: the longest sleep of the scheduler.
        dedupe_ttl_s: how long a success refuses jobs of its dedupe key.
        max_workers: how many jobs run at a time, over all plugins.
        plugin_env_passthrough: environment variables that plugins get beside the usual ones.
        state_path: `state.path`; the lock of the service stands in its folder.
        on_failure: the plugin, or plugin.command, that hears of dead jobs, missed times and opened
            breakers; None is nobody.
        place: where `on_failure` stands.
    """

    name: str = "ductile"
    tick_interval_s: float = 60.0
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    dedupe_ttl_s: float = 86_400.0
    job_log_retention_s: float = 30 * 86_400.0
    max_workers: int = 1
    allow_symlinks: bool = False
    admission: AdmissionConfig = AdmissionConfig()
    amendments: AmendmentsConfig = AmendmentsConfig()
    plugin_env_passthrough: tuple[str, ...] = ()
    state_path: Path = Path("data/state.db")
    on_failure: str | None = None
    place: Place = field(default=NOWHERE, compare=False)

    @property
    def state_dir(self) -> Path:
        """The folder of the lock."""
        return self.state_path.parent


@dataclass(frozen=True, slots=True)
class Window:
    """A part of each day, in minutes after midnight; an end before the start is of the next day."""

    start_minute: int
    end_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEntry:
    """Times at which a command of a plugin is due.

    Exactly one of every_s, cron, at_ms and after_s is set.

    Attributes:
        every_s: the interval; months have 30 days.
        cron: five fields.
        at_ms: once, in UTC milliseconds of the epoch.
        after_s: once, counted from the start of the service.
        jitter_s: the width of the band around a time of `every_s`; 0 is none.
        only_between, timezone, not_on: times outside are skipped. Weekdays are those of cron, 0 is
            Sunday. The timezone None is the machine's own.
        preferred_window: times outside move to its next start.
        catch_up: what becomes of times that nobody saw, of which at most `catch_up_max` run, and
            none older than `catch_up_age_s` (None: any age).
        hash: of all that decides its times: another hash is another schedule.
    """

    plugin: str
    id: str = "default"
    command: str = "poll"
    payload: Mapping[str, object] = field(default_factory=Frozen)
    every_s: float | None = None
    cron: str | None = None
    at_ms: int | None = None
    after_s: float | None = None
    jitter_s: float = 0.0
    only_between: Window | None = None
    timezone: str | None = None
    not_on: frozenset[int] = frozenset()
    preferred_window: Window | None = None
    catch_up: Literal["skip", "run_once", "run_all"] = "skip"
    catch_up_max: int = 100
    catch_up_age_s: float | None = None
    if_running: Literal["skip", "queue", "cancel"] = "skip"
    hash: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """The attempts of a job in all, and the base of the growing pauses between."""

    max_attempts: int = 4
    backoff_base_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """The consecutive failures that open a breaker, and the seconds until its probe."""

    threshold: int = 3
    reset_after_s: float = 1_800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """Bounds of a process of the plugin; None is no limit of ours."""

    memory_bytes: int | None = None
    cpu_s: float | None = None
    processes: int | None = None
    open_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    """The settings of a plugin, by its operator.

    Attributes:
        name: its name here.
        uses: the name of the manifest that it runs, another one for an alias.
        config: what the plugin itself is told.
        timeouts: by command, those that were set.
        timeout: of the commands that `timeouts` does not name; None is the usual ones.
        parallelism: how many of its jobs run at a time; None leaves it to the manifest.
        notify_on_complete: whether pipelines with `on-hook` hear of its jobs.
        on_failure: as of the service, for this plugin.
    """

    name: str
    uses: str
    enabled: bool = True
    config: Mapping[str, object] = field(default_factory=Frozen)
    schedules: tuple[ScheduleEntry, ...] = ()
    retry: RetryConfig = RetryConfig()
    timeouts: Mapping[str, float] = field(default_factory=Frozen)
    timeout: float | None = None
    circuit_breaker: BreakerConfig = BreakerConfig()
    max_outstanding_polls: int = 1
    parallelism: int | None = None
    notify_on_complete: bool = False
    limits: LimitsConfig = LimitsConfig()
    on_failure: str | None = None
    place: Place = field(default=NOWHERE, compare=False)

    def timeout_s(self, command: str) -> float:
        """Return the seconds that a command may take; a name of its own counts as `handle`."""
        usual = TIMEOUTS_S.get(command, TIMEOUTS_S["handle"])
        return self.timeouts.get(command, usual if self.timeout is None else self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenConfig:
    """A token of the API: who it is for, and what it may do; without scopes it is a secret only."""

    name: str
    key: Secret
    scopes: tuple[str, ...] = ()
    scopes_file: Path | None = None
    description: str = ""
    place: Place = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """The API: where it listens, and how many callers may wait how long for a pipeline."""

    enabled: bool = False
    listen: str = "127.0.0.1:8080"
    max_concurrent_sync: int = 10
    max_sync_timeout_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A folder of configuration, whole and checked.

    Attributes:
        directory: the folder.
        files: every file that was read, each with the BLAKE3 hash of its bytes, in order.
        plugin_roots: folders of plugins in order of precedence, each once.
        tokens: those of `tokens` and of `api.auth.tokens`.
        variables: those of the environment that are in use.
        warnings: what an operator should hear of.
        hash: of all files, as they stand.
        owners: whose files count: those of plugins are looked at as these were.
        unfilled: the text of each value with variables, as it stands in the files, by its path.
    """

    directory: Path
    files: Mapping[str, str] = field(default_factory=Frozen)
    service: ServiceConfig = ServiceConfig()
    plugin_roots: tuple[Path, ...] = ()
    plugins: Mapping[str, PluginConfig] = field(default_factory=Frozen)
    routes: tuple[Route, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    webhooks: WebhooksConfig | None = None
    api: ApiConfig | None = None
    tokens: tuple[TokenConfig, ...] = ()
    variables: Mapping[str, Secret] = field(default_factory=Frozen)
    warnings: tuple[Fault, ...] = ()
    hash: str = ""
    owners: Owners = field(default_factory=Owners, compare=False)
    unfilled: Mapping[str, str] = field(default_factory=Frozen, compare=False)

    def schedules(self) -> dict[tuple[str, str], ScheduleEntry]:
        """Return the schedules of the plugins that are enabled, by plugin and id."""
        enabled = [plugin for plugin in self.plugins.values() if plugin.enabled]
        return {(each.plugin, each.id): each for plugin in enabled for each in plugin.schedules}
