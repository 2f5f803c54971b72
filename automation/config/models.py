"""The models of a configuration: the keys that files may have, and the records that are used.

What stands here is what CONFIG_REFERENCE, SCHEDULER, PIPELINES and WEBHOOKS of Ductile describe,
with what is only ours: `command` and `broadcast` of a route, `limits`, `on_failure`,
`catch_up_max`, `catch_up_age`, and of a webhook all but `name`, `path`, `plugin`, `command`,
`secret_ref`, `signature_header` and `max_body_size`. Times are seconds, sizes bytes, and each name
says so. A field that is `DERIVED` is no setting; one that is `_LOADING_ONLY` is used
while the configuration is loaded, and not after: dumps leave it out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, InstanceOf, SkipValidation, model_validator

from ...schema.directory.trust import Owners
from ...schema.message.names import MAX_PAYLOAD_BYTES
from .validation import (
    DERIVED,
    NOT_EMPTY,
    Count,
    Duration,
    Free,
    Header,
    Id,
    Name,
    Object,
    Pause,
    Settings,
    Size,
    Source,
    Target,
    Template,
    Templates,
    Text,
    TimeZone,
    UrlPath,
    parsed,
)
from .value_forms import check_cron, interval_s, minute_of_day, part_of, point_ms, rate_of, weekday
from .values import NOWHERE, Frozen, PartOf, Rate, Secret, SourceLocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .values import Fault

#: The seconds that each command may take, unless its plugin's `timeouts` say otherwise.
TIMEOUTS_S = {"poll": 60.0, "handle": 120.0, "health": 10.0, "init": 30.0}

_LOADING_ONLY = Field(exclude=True)

#: The file and line of the settings.
Place = Annotated[InstanceOf[SourceLocation], DERIVED, _LOADING_ONLY]
#: A secret that a token holds, to which the settings refer.
TokenSecret = Annotated[InstanceOf[Secret], DERIVED]

# The service.


class AdmissionConfig(Settings):
    """Conditions for taking a configuration; `strict_mode` asks for all four."""

    verify_integrity_on_boot: bool = False
    fail_on_drift: bool = False
    validate_config_on_boot: bool = False
    require_api_auth: bool = False


class AmendmentsConfig(Settings):
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


def _usual_workers() -> int:
    return max(1, (os.cpu_count() or 1) - 1)


class ServiceConfig(Settings):
    """`service`: the settings of the service.

    Attributes:
        tick_interval_s: the longest sleep of the scheduler.
        dedupe_ttl_s: how long a success refuses jobs of its dedupe key.
        max_workers: how many jobs run at a time, over all plugins.
        plugin_env_passthrough: environment variables that plugins get beside the usual ones.
        on_failure: the plugin, or plugin.command, that handles alarms of dead jobs, missed times
            and opened breakers; None: no alarms.
        place: where `on_failure` stands.
    """

    name: Text = "ductile"
    tick_interval_s: Annotated[Duration, Field(ge=0.1)] = 60.0
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    dedupe_ttl_s: Pause = 86_400.0
    job_log_retention_s: Duration = 30 * 86_400.0
    job_queue_retention_s: Annotated[Duration, _LOADING_ONLY] = 86_400.0
    max_workers: Annotated[int, Field(ge=1, le=256)] = Field(default_factory=_usual_workers)
    strict_mode: Annotated[bool, _LOADING_ONLY] = False
    allow_symlinks: bool = False
    admission: AdmissionConfig = AdmissionConfig()
    amendments: AmendmentsConfig = AmendmentsConfig()
    plugin_env_passthrough: tuple[Text, ...] = ()
    on_failure: Target | None = None
    place: Place = NOWHERE


class StateConfig(Settings):
    """`state`: the file in whose folder the lock and the bus of the service stand."""

    path: Text = "./data/state.db"


# Plugins and their schedules.


class Window(Settings):
    """A part of each day, in minutes after midnight; an end before the start is of the next day."""

    start_minute: Annotated[int, parsed(minute_of_day)]
    end_minute: Annotated[int, parsed(minute_of_day)]

    @model_validator(mode="after")
    def _is_not_empty(self) -> Window:
        if self.start_minute == self.end_minute:
            start = "{:02}:{:02}".format(*divmod(self.start_minute, 60))
            raise ValueError(f"the window begins and ends at {start}; write two different times")
        return self


def window_of(text: str) -> Window:
    """Return the window that ``08:00-22:00`` names; ``22:00-06:00`` wraps over midnight."""
    start, dash, end = text.partition("-")
    if not dash:
        raise ValueError(f"{text!r} is not a window; write one such as 08:00-22:00")
    return Window(start_minute=minute_of_day(start.strip()), end_minute=minute_of_day(end.strip()))


class ScheduleEntry(Settings):
    """An entry of `schedules`: times at which a command of a plugin is due.

    Exactly one of every_s, cron, at_ms and after_s is set.

    Attributes:
        every_s: the interval; months have 30 days.
        cron: five fields.
        at_ms: once, in UTC milliseconds of the epoch.
        after_s: once, counted from the start of the service.
        jitter_s: the width of the band around a time of `every_s`; 0 is none.
        only_between, not_on: times outside the window, or on these weekdays (as in cron, 0 is
            Sunday), are skipped.
        timezone: of both; None is the machine's own.
        preferred_window: times outside move to its next start.
        catch_up: what becomes of missed times; at most `catch_up_max` run, and none older than
            `catch_up_age_s` (None: any age).
        hash: of all that decides its times: another hash is another schedule.
    """

    plugin: Annotated[str, DERIVED] = ""
    id: Id = "default"
    command: Id = "poll"
    payload: Object = Field(default_factory=Frozen)
    every_s: Annotated[float, parsed(interval_s)] | None = None
    cron: Annotated[str, parsed(check_cron)] | None = None
    at_ms: Annotated[int, parsed(point_ms)] | None = None
    after_s: Pause | None = None
    jitter_s: Pause = 0.0
    only_between: Annotated[Window, parsed(window_of)] | None = None
    timezone: TimeZone | None = None
    not_on: frozenset[Annotated[int, parsed(weekday)]] = frozenset()
    preferred_window: Window | None = None
    catch_up: Literal["skip", "run_once", "run_all"] = "skip"
    catch_up_max: Annotated[int, Field(ge=1, le=100)] = 100
    catch_up_age_s: Duration | None = None
    if_running: Literal["skip", "queue", "cancel"] = "skip"
    hash: Annotated[str, DERIVED] = ""
    place: Place = NOWHERE


class RetryConfig(Settings):
    """The attempts of a job in all, and the base of the growing pauses between."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 4
    backoff_base_s: Pause = 30.0


class BreakerConfig(Settings):
    """The consecutive failures that open a breaker, and the seconds until its probe."""

    threshold: Count = 3
    reset_after_s: Duration = 1_800.0


class LimitsConfig(Settings):
    """Bounds of a process of the plugin; None is no limit of ours."""

    memory_bytes: Size | None = None
    cpu_s: Duration | None = None
    processes: Count | None = None
    open_files: Count | None = None


class PluginConfig(Settings):
    """An entry of `plugins`: the settings of a plugin, by its operator.

    Attributes:
        name: its name here.
        uses: the name of the manifest that it runs, another one for an alias.
        config: the plugin's own settings, which it gets with each request.
        schedules: each is checked by itself.
        max_attempts: an older form of that of `retry`.
        timeouts: by command, those that were set.
        timeout: of the commands that `timeouts` does not name; None is the usual ones.
        parallelism: how many of its jobs run at a time; None leaves it to the manifest.
        notify_on_complete: whether its jobs start pipelines with `on-hook`.
        on_failure: as of the service, for this plugin.
    """

    name: Annotated[str, DERIVED] = ""
    uses: Name = ""
    enabled: bool = True
    config: Object = Field(default_factory=Frozen)
    schedules: SkipValidation[tuple[ScheduleEntry, ...]] = ()
    retry: RetryConfig = RetryConfig()
    max_attempts: Annotated[int, Field(ge=1, le=100), _LOADING_ONLY] = 4
    timeouts: Annotated[Mapping[Id, Duration], AfterValidator(Frozen)] = Field(
        default_factory=Frozen
    )
    timeout: Duration | None = None
    circuit_breaker: BreakerConfig = BreakerConfig()
    max_outstanding_polls: Count = 1
    parallelism: Count | None = None
    notify_on_complete: bool = False
    limits: LimitsConfig = LimitsConfig()
    on_failure: Target | None = None
    place: Place = NOWHERE

    def timeout_s(self, command: str) -> float:
        """Return the seconds of a command; one without a usual time has that of `handle`."""
        usual = TIMEOUTS_S.get(command, TIMEOUTS_S["handle"])
        return self.timeouts.get(command, usual if self.timeout is None else self.timeout)


# Where events go: routes, pipelines, their steps and conditions.


class Route(Settings):
    """An entry of `routes`: each event of this type from this plugin makes a job of that command.

    `broadcast` sends the event to everybody, not only to the automation.
    """

    source: Annotated[Source, Field(alias="from")]
    event_type: Text
    to: Target
    command: Id = "handle"
    broadcast: bool = False
    place: Place = NOWHERE


class Condition(Settings):
    """An `if`: a comparison of the value at a path, or `all`, `any` or `not` of other conditions.

    Attributes:
        path: a dotted path of payload, context or config.
        op: the comparison of its value with `value`.
    """

    path: Text | None = None
    op: str | None = None
    value: Free = None
    all: tuple[Condition, ...] | None = None
    any: tuple[Condition, ...] | None = None
    not_: Condition | None = None


class PipelineStep(Settings):
    """A step of a pipeline: exactly one of uses, call, steps and split is set.

    Attributes:
        uses: a plugin, or plugin.command.
        call: the name of another pipeline.
        steps, split: steps one after another, and side by side.
        condition: the step is left out where it does not hold.
        with_: keys of the next payload, each a template.
        baggage: dotted paths in the run's baggage, each with the path of its value.
        baggage_from, namespace: an object that is taken whole, and the path that it goes to:
            `from` and `namespace` of `baggage`.
    """

    id: Id | None = None
    uses: Target | None = None
    call: Name | None = None
    steps: tuple[PipelineStep, ...] = ()
    split: tuple[PipelineStep, ...] = ()
    condition: Annotated[Condition | None, Field(alias="if")] = None
    with_: Templates = Field(default_factory=Frozen)
    baggage: Templates = Field(default_factory=Frozen)
    baggage_from: Annotated[str | None, DERIVED] = None
    namespace: Annotated[str | None, DERIVED] = None
    place: Place = NOWHERE

    @property
    def plugin(self) -> str:
        """The plugin that `uses` names, or ""."""
        return (self.uses or "").partition(".")[0]

    @property
    def command(self) -> str:
        """The command that `uses` names: `handle`, unless it says otherwise."""
        return (self.uses or "").partition(".")[2] or "handle"


class Pipeline(Settings):
    """An entry of `pipelines`: steps that an event, or the end of a job, begins.

    Attributes:
        on: the type of event; None where `on_hook` names a signal.
        from_plugin: the one plugin whose events begin it; None is any.
        max_depth: the author's limit of hops; 0 is no limit, None is the default.
        timeout_s: how long a synchronous caller waits.
    """

    name: Name
    on: Text | None = None
    on_hook: Annotated[
        Literal["job.completed", "job.failed", "job.timed_out"] | None, Field(alias="on-hook")
    ] = None
    from_plugin: Source | None = None
    condition: Annotated[Condition | None, Field(alias="if")] = None
    max_depth: Annotated[int, Field(ge=0)] | None = None
    execution_mode: Literal["async", "synchronous"] = "async"
    timeout_s: Duration = 30.0
    steps: Annotated[tuple[PipelineStep, ...], NOT_EMPTY]
    place: Place = NOWHERE


# Webhooks in: the listener, and the paths that it takes.


class WebhookEndpoint(Settings):
    """An entry of `webhooks.endpoints`: a path that takes signed requests.

    Each is a job of its plugin, a run of its pipeline, or else an event that begins pipelines.

    Attributes:
        path, name: where it listens; the name is the path unless it has one.
        plugin, command: the job.
        pipeline: the run.
        event_type: the type of the event.
        event_type_from: the part of the request that follows it after a dot; without `event_type`
            it is the whole type.
        secret_ref, previous_secret_ref: the tokens with the secret, and with the one before it.
        signature_prefix: what a plain signature begins with; None takes bare ones and ``sha256=``.
        signature_format: `automation/webhooks.py` says what each signs.
        replay_window_s: how far a signed time may be from now; the default is senders' advice.
        max_body_bytes: a longer body is refused.
        delivery_id: the part of the request that is the same when a delivery is repeated.
        rate: how many signed requests are taken; None is no limit.
    """

    path: UrlPath
    name: Text = ""
    plugin: Name | None = None
    command: Id = "handle"
    pipeline: Name | None = None
    event_type: Text | None = None
    event_type_from: Annotated[InstanceOf[PartOf], parsed(part_of)] | None = None
    secret_ref: Text
    secret: TokenSecret = Secret("")
    previous_secret_ref: Text | None = None
    previous_secret: TokenSecret | None = None
    signature_header: Header
    signature_prefix: Template | None = None
    signature_format: Literal["plain", "standard", "stripe"] = "plain"
    replay_window_s: Duration = 300.0
    max_body_bytes: Annotated[Size, Field(le=MAX_PAYLOAD_BYTES, alias="max_body_size")] = 1_048_576
    delivery_id: Annotated[InstanceOf[PartOf], parsed(part_of)] | None = None
    rate: Annotated[
        Annotated[InstanceOf[Rate], parsed(rate_of)] | None, Field(alias="rate_limit")
    ] = None
    place: Place = NOWHERE

    @property
    def target(self) -> str:
        """A word for what a request becomes: a job, a run, or an event."""
        if self.plugin is not None:
            return f"{self.plugin}.{self.command}"
        if self.pipeline is not None:
            return f"pipeline {self.pipeline}"
        parts = [self.event_type, self.event_type_from and f"<{self.event_type_from}>"]
        return f"event {'.'.join(part for part in parts if part)}"


class WebhooksConfig(Settings):
    """`webhooks`: the listener, and its paths, each of which is checked by itself."""

    listen: Text = "127.0.0.1:8081"
    endpoints: SkipValidation[tuple[WebhookEndpoint, ...]] = ()


# The API and its tokens.


def _secret(text: str) -> Secret:
    if not text:
        raise ValueError("write a word")
    return Secret(text)


class TokenConfig(Settings):
    """An entry of `tokens`: who it is for, and what it may do; without scopes only a secret."""

    name: Text
    key: Annotated[InstanceOf[Secret], parsed(_secret)]
    scopes: Annotated[tuple[str, ...], DERIVED] = ()
    scopes_file: Text | None = None
    scopes_hash: Annotated[Text | None, _LOADING_ONLY] = None
    created_at: Annotated[Text | None, _LOADING_ONLY] = None
    description: Template = ""
    place: Place = NOWHERE


class ApiToken(Settings):
    """An entry of `api.auth.tokens`, the older form of a token."""

    name: Text | None = None
    token: Text | None = None
    secret_ref: Text | None = None
    scopes: Annotated[tuple[Text, ...], NOT_EMPTY]


class ApiConfig(Settings):
    """`api`: where it listens, and how many callers may wait how long for a pipeline."""

    enabled: bool = False
    auth: Annotated[object, _LOADING_ONLY] = None
    listen: Text = "127.0.0.1:8080"
    max_concurrent_sync: Count = 10
    max_sync_timeout_s: Duration = 300.0


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
    service: ServiceConfig = field(default_factory=ServiceConfig)
    state: StateConfig = field(default_factory=StateConfig)
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
