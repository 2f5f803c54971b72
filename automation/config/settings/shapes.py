"""Shapes of what stands in a configuration: the keys of each part, and the form of each value.

A key that no shape has is an error. Values come as text, so each field says its type. What stands
here is what CONFIG_REFERENCE, SCHEDULER, PIPELINES and WEBHOOKS of Ductile describe, with what is
only ours: `command` and `broadcast` of a route, `limits`, `on_failure`, `catch_up_max`,
`catch_up_age`, and of a webhook all but `name`, `path`, `plugin`, `command`, `secret_ref`,
`signature_header` and `max_body_size`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from ....schema.message.limits import MAX_PAYLOAD_BYTES
from ..cron_form import check_cron
from ..durations import (
    duration_or_zero_s,
    duration_s,
    interval_s,
    part_of,
    point_ms,
    rate_of,
    size_bytes,
    weekday,
    window_of,
)
from ..durations import window as window_between
from ..files.yaml_tree import Items, Map, is_null, typed
from ..flows import SWITCH
from ..snapshot import Window
from ..webhooks import PartOf, Rate
from .timezones import check_timezone

#: Names of plugins, pipelines and their like.
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_ID = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"


def _text(value: Any) -> str:
    if isinstance(value, Map | Items):
        raise ValueError(f"write a word, not {'a map' if isinstance(value, Map) else 'a list'}")
    return str(value)


def _parsed(parse: Any) -> Any:
    return BeforeValidator(lambda value: parse(_text(value)))


def _named(pattern: str, form: str) -> Any:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} has another form; write {form}")
        return text

    return _parsed(check)


Text = Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1)]
Name = Annotated[str, _named(_NAME, "letters, digits, _ and -")]
Id = Annotated[str, _named(_ID, "letters, digits, _, -, . and :")]
Target = Annotated[str, _named(rf"{_NAME}(\.{_ID})?", "PLUGIN or PLUGIN.COMMAND")]
#: Whose events they are: of a plugin, or of conditions.
Source = Annotated[str, _named(rf"{_NAME}|{re.escape(SWITCH)}", f"PLUGIN, or {SWITCH}")]
UrlPath = Annotated[str, _named(r"/[A-Za-z0-9._~/-]*", "/PATH")]
Header = Annotated[str, _named(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "the name of a header")]
Duration = Annotated[float, _parsed(duration_s)]
Pause = Annotated[float, _parsed(duration_or_zero_s)]
Size = Annotated[int, _parsed(size_bytes)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Free = Annotated[Any, BeforeValidator(typed)]
Object = Annotated[dict[str, Any], BeforeValidator(typed)]
Template = Annotated[str, BeforeValidator(_text)]


class Shape(BaseModel):
    """A map with known keys; one that is empty counts as left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, value: Any) -> Any:
        if isinstance(value, Map):
            return {key: each for key, each in value.items() if not is_null(each)}
        return {} if isinstance(value, str) and is_null(value) else value


class AdmissionShape(Shape):
    """`service.admission`."""

    verify_integrity_on_boot: bool = False
    fail_on_drift: bool = False
    validate_config_on_boot: bool = False
    require_api_auth: bool = False


class AmendmentsShape(Shape):
    """`service.amendments`."""

    protocol_echo: bool = False
    exit_75_retries: bool = False
    state_replace: bool = False
    submitted_by_retry: bool = False


class ServiceShape(Shape):
    """`service`."""

    name: Text = "ductile"
    tick_interval: Annotated[Duration, Field(ge=0.1)] = 60.0
    log_level: Literal["debug", "info", "warn", "error"] = "info"
    log_format: Literal["json", "text"] = "json"
    dedupe_ttl: Pause = 86_400.0
    job_log_retention: Duration = 30 * 86_400.0
    job_queue_retention: Duration = 86_400.0
    max_workers: Annotated[int, Field(ge=1, le=256)] | None = None
    strict_mode: bool = False
    admission: AdmissionShape = AdmissionShape()
    amendments: AmendmentsShape = AmendmentsShape()
    allow_symlinks: bool = False
    plugin_env_passthrough: list[Text] = []
    on_failure: Target | None = None


class StateShape(Shape):
    """`state`."""

    path: Text = "./data/state.db"


class PreferredWindowShape(Shape):
    """`preferred_window`."""

    start: Text
    end: Text

    @model_validator(mode="after")
    def _is_a_window(self) -> PreferredWindowShape:
        window_between(self.start, self.end)
        return self

    def window(self) -> Window:
        """Return it as a window."""
        return window_between(self.start, self.end)


class ScheduleShape(Shape):
    """An entry of `schedules`."""

    id: Id = "default"
    command: Id = "poll"
    payload: Object = {}
    every: Annotated[float, _parsed(interval_s)] | None = None
    cron: Annotated[str, _parsed(check_cron)] | None = None
    at: Annotated[int, _parsed(point_ms)] | None = None
    after: Pause | None = None
    jitter: Pause = 0.0
    only_between: Annotated[Window, _parsed(window_of)] | None = None
    timezone: Annotated[Text, AfterValidator(check_timezone)] | None = None
    not_on: list[Annotated[int, _parsed(weekday)]] = []
    preferred_window: PreferredWindowShape | None = None
    catch_up: Literal["skip", "run_once", "run_all"] = "skip"
    catch_up_max: Annotated[int, Field(ge=1, le=100)] = 100
    catch_up_age: Duration | None = None
    if_running: Literal["skip", "queue", "cancel"] = "skip"


class RetryShape(Shape):
    """`retry` of a plugin."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 4
    backoff_base: Pause = 30.0


class BreakerShape(Shape):
    """`circuit_breaker` of a plugin."""

    threshold: Count = 3
    reset_after: Duration = 1_800.0


class LimitsShape(Shape):
    """`limits` of a plugin."""

    memory: Size | None = None
    cpu: Duration | None = None
    processes: Count | None = None
    open_files: Count | None = None


class PluginShape(Shape):
    """An entry of `plugins`."""

    enabled: bool = True
    uses: Name | None = None
    config: Object = {}
    schedules: list[Any] = []
    retry: RetryShape | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    timeouts: dict[Id, Duration] = {}
    timeout: Duration | None = None
    circuit_breaker: BreakerShape = BreakerShape()
    max_outstanding_polls: Count = 1
    parallelism: Count | None = None
    notify_on_complete: bool = False
    limits: LimitsShape = LimitsShape()
    on_failure: Target | None = None


class RouteShape(Shape):
    """An entry of `routes`."""

    from_: Annotated[Source, Field(alias="from")]
    event_type: Text
    to: Target
    command: Id | None = None
    broadcast: bool = False


class ConditionShape(Shape):
    """An `if`: a comparison, or `all`, `any` or `not` of others."""

    path: Text | None = None
    op: str | None = None
    value: Free = None
    all: list[ConditionShape] | None = None
    any: list[ConditionShape] | None = None
    not_: Annotated[ConditionShape | None, Field(alias="not")] = None


class StepShape(Shape):
    """A step of a pipeline."""

    id: Id | None = None
    uses: Target | None = None
    call: Name | None = None
    steps: list[StepShape] | None = None
    split: list[StepShape] | None = None
    if_: Annotated[ConditionShape | None, Field(alias="if")] = None
    with_: Annotated[dict[str, Template], Field(alias="with")] = {}
    baggage: dict[str, Template] = {}


class PipelineShape(Shape):
    """An entry of `pipelines`."""

    name: Name
    on: Text | None = None
    on_hook: Annotated[
        Literal["job.completed", "job.failed", "job.timed_out"] | None, Field(alias="on-hook")
    ] = None
    from_plugin: Source | None = None
    if_: Annotated[ConditionShape | None, Field(alias="if")] = None
    max_depth: Annotated[int, Field(ge=0)] | None = None
    execution_mode: Literal["async", "synchronous"] = "async"
    timeout: Duration = 30.0
    steps: Annotated[list[StepShape], Field(min_length=1)]


class EndpointShape(Shape):
    """An entry of `webhooks.endpoints`."""

    name: Text | None = None
    path: UrlPath
    plugin: Name | None = None
    command: Id | None = None
    pipeline: Name | None = None
    event_type: Text | None = None
    event_type_from: Annotated[PartOf, _parsed(part_of)] | None = None
    secret_ref: Text
    previous_secret_ref: Text | None = None
    signature_header: Header
    signature_prefix: Template | None = None
    signature_format: Literal["plain", "standard", "stripe"] = "plain"
    replay_window: Duration | None = None
    max_body_size: Annotated[Size, Field(le=MAX_PAYLOAD_BYTES)] = 1_048_576
    delivery_id: Annotated[PartOf, _parsed(part_of)] | None = None
    rate_limit: Annotated[Rate, _parsed(rate_of)] | None = None


class ApiTokenShape(Shape):
    """An entry of `api.auth.tokens`."""

    name: Text | None = None
    token: Text | None = None
    secret_ref: Text | None = None
    scopes: Annotated[list[Text], Field(min_length=1)]


class TokenShape(Shape):
    """An entry of `tokens`."""

    name: Text
    key: Text
    scopes_file: Text | None = None
    scopes_hash: Text | None = None
    created_at: Text | None = None
    description: Template = ""


class ApiShape(Shape):
    """`api` without its tokens."""

    enabled: bool = False
    listen: Text = "127.0.0.1:8080"
    max_concurrent_sync: Count = 10
    max_sync_timeout: Duration = 300.0
