"""A configuration as frozen records, with its webhooks; and the part that may be shown.

This module imports none of the libraries that read and check a configuration, so that code which
only uses one does not load them. Times are seconds, sizes bytes, and each name says so.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Literal

from ...schema.directory.trust import Owners
from .faults import shares_piece
from .flows import NOWHERE, Frozen, Secret, SourceLocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .faults import Fault
    from .flows import Pipeline, Route

# The key that a secret of a webhook stands for.

#: The beginning of secrets of the standard form; the rest is the key, in base64.
_STANDARD_PREFIX = "whsec_"


def key_of(secret: str, form: str) -> bytes:
    """Return the key of a secret: its bytes, but in the standard form, which has it in base64.

    Raises:
        ValueError: it has another form; the secret is not repeated.
    """
    if form != "standard":
        return secret.encode(errors="surrogateescape")  # a variable may be any bytes
    text = secret.removeprefix(_STANDARD_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError("a secret of the standard form is whsec_ and base64") from error
    if not key:
        raise ValueError("a secret of the standard form is whsec_ and base64")
    return key


# Webhooks in, as a configuration has them: the listener, and the paths that it takes.

#: The forms of signatures: `automation/webhooks.py` says what each signs.
SignatureFormat = Literal["plain", "standard", "stripe"]

#: How far a signed time may be from now, in seconds, as senders' documents ask for.
REPLAY_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part of a request: a header, or a field of the JSON object that its body is."""

    where: Literal["header", "body"]
    name: str

    def __str__(self) -> str:
        return f"{self.where}:{self.name}"


@dataclass(frozen=True, slots=True)
class Rate:
    """A count of requests in a time; as many may come at once."""

    count: int
    per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """A path that takes signed requests.

    Each is a job of its plugin, a run of its pipeline, or else an event that begins pipelines.

    Attributes:
        path, name: where it listens; the name is the path unless it has one.
        plugin, command: the job.
        pipeline: the run.
        event_type, event_type_from: the type of the event, and a part of the request that is added
            to it after a dot, or is the type where there is no other.
        secret_ref, previous_secret_ref: the tokens with the secret, and with the one before it.
        signature_prefix: what a plain signature begins with; None takes bare ones and ``sha256=``.
        replay_window_s: how far a signed time may be from now.
        max_body_bytes: a longer body is refused.
        delivery_id: the part of the request that is the same when a delivery is repeated.
        rate: how many signed requests are taken; None is no limit.
    """

    path: str
    name: str = ""
    plugin: str | None = None
    command: str = "handle"
    pipeline: str | None = None
    event_type: str | None = None
    event_type_from: PartOf | None = None
    secret_ref: str
    secret: Secret
    previous_secret_ref: str | None = None
    previous_secret: Secret | None = None
    signature_header: str
    signature_prefix: str | None = None
    signature_format: SignatureFormat = "plain"
    replay_window_s: float = REPLAY_WINDOW_S
    max_body_bytes: int = 1_048_576
    delivery_id: PartOf | None = None
    rate: Rate | None = None
    place: SourceLocation = field(default=NOWHERE, compare=False)

    @property
    def target(self) -> str:
        """A word for what a request becomes: a job, a run, or an event."""
        if self.plugin is not None:
            return f"{self.plugin}.{self.command}"
        if self.pipeline is not None:
            return f"pipeline {self.pipeline}"
        parts = [self.event_type, self.event_type_from and f"<{self.event_type_from}>"]
        return f"event {'.'.join(part for part in parts if part)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhooksConfig:
    """The listener of webhooks, and its paths."""

    listen: str = "127.0.0.1:8081"
    endpoints: tuple[WebhookEndpoint, ...] = ()


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
        on_failure: the plugin, or plugin.command, that handles alarms of dead jobs, missed times
            and opened breakers; None: no alarms.
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
    place: SourceLocation = field(default=NOWHERE, compare=False)

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
        catch_up: what becomes of missed times; at most `catch_up_max` run, and none older than
            `catch_up_age_s` (None: any age).
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
    place: SourceLocation = field(default=NOWHERE, compare=False)


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
        config: the plugin's own settings, which it gets with each request.
        timeouts: by command, those that were set.
        timeout: of the commands that `timeouts` does not name; None is the usual ones.
        parallelism: how many of its jobs run at a time; None leaves it to the manifest.
        notify_on_complete: whether its jobs start pipelines with `on-hook`.
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
    place: SourceLocation = field(default=NOWHERE, compare=False)

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
    place: SourceLocation = field(default=NOWHERE, compare=False)


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
        warnings: what an operator should know.
        hash: of all files, as they stand.
        owners: the users whose files are trusted, here and in the folders of plugins.
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
        return {(entry.plugin, entry.id): entry for plugin in enabled for entry in plugin.schedules}


# Redaction: the part of a configuration that may be shown.

REDACTED = "[REDACTED]"

#: The settings whose inner names are no settings of ours.
_FREE = ("config", "payload")

#: Fields that are no settings, and the units in the names of fields, which settings have not.
_NOT_SHOWN = ("variables", "unfilled", "owners")
_UNIT = re.compile(r"_(s|ms|bytes|minute)$")

#: Fields that stand elsewhere in the files.
_MOVED = {"service.state_path": "state.path"}

#: Words in the name of a setting that make its value a secret.
_SECRET = re.compile(
    r"secret|passw|passphrase|token|credential|private|bearer|authori[sz]ation|cookie"
    r"|webhook_url|dsn"
    r"|(^|[_\-.])(key|keys|auth|pwd|pat)([_\-.]|$)|api_?key",
    re.IGNORECASE,
)
#: Names that only sound like it: they say where a secret is.
_HARMLESS = re.compile(
    r"(previous_)?secret_ref|tokens?_file|.*_env|.*_header|key_id|scopes_(file|hash)"
)


def is_secret_key(name: str) -> bool:
    """Tell whether the value of a setting of this name is a secret."""
    return _SECRET.search(name) is not None and _HARMLESS.fullmatch(name) is None


def shown(config: Config) -> dict[str, Any]:
    """Return a configuration as JSON has it, with no secret in it.

    Secrets, and the values of settings whose names say that they are, become [REDACTED]; what came
    from a variable is shown as it stands in the files, also where it is a number by now.
    """
    variables = {secret.reveal(): name for name, secret in config.variables.items()}
    return _Shown(variables, config.unfilled).record(config, "")


class _Shown:
    """Shows values, and knows which of them come from variables."""

    def __init__(self, variables: Mapping[str, str], unfilled: Mapping[str, str]) -> None:
        self._variables = variables
        self._unfilled = unfilled
        self._long = sorted(filter(_is_long, variables), key=len, reverse=True)

    def record(self, record: Any, path: str) -> dict[str, Any]:
        """Return a record that stands under a path of the configuration."""
        place = getattr(record, "place", None)
        if place and place.path and not place.path.startswith(f"{path}."):  # of a part of it
            path = place.path
        names = [
            attribute.name for attribute in fields(record) if attribute.type != "SourceLocation"
        ]
        names = [name for name in names if name not in _NOT_SHOWN]
        keys = {name: self._path_of(name, path) for name in names}
        is_elsewhere = self._has_other(path, set(keys.values()))
        fields_shown = {}
        for name, inner in keys.items():
            value = getattr(record, name)
            is_derived = path != "" and self._has_under(path) and self._is_derived(name, value)
            if (is_derived and inner not in self._unfilled) or (
                is_elsewhere and name != "name" and not self._is_whole(value)
            ):
                fields_shown[name.rstrip("_")] = self._unfilled.get(inner, REDACTED)
            else:
                fields_shown[name.rstrip("_")] = self._value(value, name, inner)
        return fields_shown

    def _path_of(self, name: str, path: str) -> str:
        """Return the path of the setting that a field is made of."""
        key = name.rstrip("_")
        short = _UNIT.sub("", key)
        above = f"{path}." if path else ""
        paths = [f"{above}{name}" for name in (key, short, key.replace("_", "-"))]
        paths.append(_MOVED.get(f"{above}{key}", paths[0]))
        return next((candidate for candidate in paths if self._has_under(candidate)), paths[0])

    def _has_under(self, path: str) -> bool:
        inner = (f"{path}.", f"{path}[")
        return any(unfilled == path or unfilled.startswith(inner) for unfilled in self._unfilled)

    def _has_other(self, path: str, field_paths: set[str]) -> bool:
        """Whether a setting of a record came from a variable, and is none of its fields."""
        ends = tuple(f"{field_path}{end}" for field_path in field_paths for end in (".", "["))
        return bool(path) and any(
            unfilled.startswith(f"{path}.")
            and unfilled not in field_paths
            and not unfilled.startswith(ends)
            for unfilled in self._unfilled
        )

    def _is_derived(self, name: str, value: Any) -> bool:
        """Whether a field may be made of a value that came from a variable: it shows a part."""
        if name == "hash":
            return True
        if not isinstance(value, str) or not value or name == "name":
            return False
        return any(
            value in variable or shares_piece(value, variable) for variable in self._variables
        )

    @staticmethod
    def _is_whole(value: Any) -> bool:
        """Whether a value has parts, each of which is looked at by itself."""
        return value is None or isinstance(value, dict | list | tuple) or is_dataclass(value)

    def _value(self, value: Any, name: str, path: str, is_free: bool = False) -> Any:
        """Return a value as it is shown; in a free one, the names of settings are the author's."""
        has_parts = isinstance(value, dict | list | tuple)
        is_secret = is_free and is_secret_key(name) and value and not has_parts
        if isinstance(value, Secret) or is_secret:
            return REDACTED
        if path in self._unfilled:
            return self._unfilled[path]
        return self._inner(value, name, path, is_free)

    def _inner(self, value: Any, name: str, path: str, is_free: bool) -> Any:
        if is_dataclass(value):
            return self.record(value, path)
        if isinstance(value, dict):
            free = is_free or name in _FREE
            return {
                str(key): self._value(member, str(key), f"{path}.{key}", free)
                for key, member in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self._value(member, name, f"{path}[{number}]", is_free)
                for number, member in enumerate(value)
            ]
        if isinstance(value, frozenset):
            return REDACTED if self._has_under(path) else sorted(value)
        return self._scalar(str(value) if isinstance(value, Path) else value)

    def _scalar(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if variable := self._variables.get(str(value)):
            return f"${{{variable}}}"
        if isinstance(value, str):
            for filled in self._long:
                value = value.replace(filled, f"${{{self._variables[filled]}}}")
        return value


def _is_long(value: str) -> bool:
    """Tell whether a value is so long that it is no part of other words by chance."""
    return len(value) >= 6
