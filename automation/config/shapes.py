"""Shapes of the parts of a configuration, and the check of a tree by them.

A key that no shape has is an error. Values come as text, so each field says its type. What stands
here is what CONFIG_REFERENCE, SCHEDULER, PIPELINES and WEBHOOKS of Ductile describe, with what is
only ours: `command` and `broadcast` of a route, `limits`, `on_failure`, `catch_up_max`,
`catch_up_age`, and of a webhook all but `name`, `path`, `plugin`, `command`, `secret_ref`,
`signature_header` and `max_body_size`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ...schema.message.names import MAX_PAYLOAD_BYTES
from .durations import (
    check_cron,
    duration_or_zero_s,
    duration_s,
    interval_s,
    named_zone,
    part_of,
    point_ms,
    rate_of,
    size_bytes,
    weekday,
    window_of,
)
from .durations import window as window_between
from .faults import Fault, near
from .flows import SWITCH, SourceLocation
from .snapshot import PartOf, Rate, Window
from .yaml_tree import Items, Map, is_null, place_of, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .yaml_tree import Spot, Tree

# Checking parts of a tree by their shapes, with every fault in words and with its place.

Shaped = TypeVar("Shaped", bound=BaseModel)
Kind = TypeVar("Kind", Map, Items)

#: Where something stands, from the top of a configuration on.
TreePath = tuple[str | int, ...]

#: Keys that were renamed or belong elsewhere, and what to write instead.
_OTHER_FORMS = {
    "schedule": "write schedules, a list: schedules: [{every: 5m}]",
    "plugins_dir": "write plugin_roots, a list: plugin_roots: [DIR]",
    "secret": "write secret_ref: NAME, and the secret itself under that name in tokens",
    "api_key": "write api.auth.tokens: [{token: ${NAME}, scopes: ['*']}]",
    "relay": "events are not relayed between services here; let a plugin send a webhook",
    "instances": "events are not relayed between services here; let a plugin send a webhook",
    "remote_ingress": "events are not relayed between services here; take them as a webhook",
    "secrets": "there is no store of secrets; write ${NAME}, and name a file of variables in"
    " environment_vars.include",
    "vault": "there is no store of secrets; write ${NAME}, and name a file of variables in"
    " environment_vars.include",
}

#: Our wording of pydantic's errors; {} stand for the error's facts.
_WORDS = {
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "greater_than_equal": "write at least {ge}",
    "less_than_equal": "write at most {le}",
    "dict_type": "write a map",
    "model_type": "write a map",
    "list_type": "write a list",
    "tuple_type": "write a list",
    "string_too_short": "write a word",
    "string_type": "write a word",
    "too_short": "write at least one",
    "literal_error": "write {expected}",
}


def dotted(path: TreePath) -> str:
    """Return a path as it is shown: ``plugins.echo.schedules[0].every``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def known_keys(shape: type[BaseModel]) -> list[str]:
    """Return the keys that a shape has."""
    return [field.alias or name for name, field in shape.model_fields.items()]


class Validation:
    """One run over a tree, which collects faults and warnings.

    Args:
        tree: the configuration.
        file: the file that faults without a place are reported for.
    """

    def __init__(self, tree: Map, file: str) -> None:
        self.tree = tree
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._top: Spot = (file, 0)

    def place(self, *path: str | int) -> SourceLocation:
        """Return where the value of a path stands."""
        return SourceLocation(*place_of(self.tree, path, self._top), dotted(path))

    def refuse(self, message: str, *path: str | int) -> None:
        """Note a fault of the value of a path."""
        self.faults.append(self.place(*path).fault(message))

    def warn(self, message: str, *path: str | int) -> None:
        """Note a warning about the value at a path."""
        self.warnings.append(self.place(*path).fault(message))

    def at(self, *path: str | int) -> Tree | None:
        """Return the value of a path, None where there is none, or nothing in it."""
        tree: Tree | None = self.tree
        for part in path:
            if isinstance(tree, Map):
                tree = tree.get(str(part))
            else:
                inside = isinstance(tree, Items) and isinstance(part, int) and part < len(tree)
                tree = tree[part] if inside else None  # type: ignore[index]
        return None if tree is None or is_null(tree) else tree

    def map(self, *path: str | int) -> Map:
        """Return the map of a path, an empty one where there is none or something else."""
        return self._of_kind(Map, "a map", path)

    def list(self, *path: str | int) -> Items:
        """Return the list of a path, an empty one where there is none or something else."""
        return self._of_kind(Items, "a list", path)

    def keys(self, allowed: tuple[str, ...], *path: str | int) -> None:
        """Refuse unknown keys of a map; at the top, keys that begin with `x-` are allowed."""
        for key in self.map(*path):
            if key not in allowed and not (not path and key.startswith("x-")):
                self.refuse(_unknown(key, list(allowed)), *path, key)

    def shaped(self, shape: type[Shaped], *path: str | int) -> Shaped | None:
        """Return the value of a path in its shape, or None where it has faults, which are noted."""
        value = self.at(*path)
        try:
            return shape.model_validate(Map() if value is None else value)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                inner = tuple(part for part in detail["loc"] if part != "[key]")
                self.refuse(self._message(detail, shape, (*path, *inner)), *path, *inner)
        return None

    def _message(self, error: Any, shape: type[BaseModel], path: TreePath) -> str:
        kind, facts = error["type"], error.get("ctx", {})
        if kind == "extra_forbidden":
            return _unknown(str(path[-1]), known_keys(_shape_at(shape, error["loc"][:-1])))
        if kind == "missing":
            return f"{path[-1]!r} is missing"
        if kind == "value_error":
            return str(facts["error"])
        if kind == "too_short" and isinstance(self.at(*path), str):
            return "write a word"
        if kind == "literal_error" and isinstance(value := self.at(*path), str):
            return f"{value!r} is not known; write {facts['expected']}"
        return _WORDS.get(kind, str(error["msg"]).lower()).format(**facts)

    def _of_kind(self, kind: type[Kind], name: str, path: TreePath) -> Kind:
        value = self.at(*path)
        if value is not None and not isinstance(value, kind):
            self.refuse(f"write {name}", *path)
        return value if isinstance(value, kind) else kind()


def _unknown(key: str, allowed: list[str]) -> str:
    if key in _OTHER_FORMS:
        return f"{key!r} is not a setting here: {_OTHER_FORMS[key]}"
    return f"{key!r} is not a setting here{near(key, allowed)}"


def _shape_at(shape: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel]:
    """Return the shape in which a place of another one stands."""
    for part in loc:
        for name, field in shape.model_fields.items():
            if part == (field.alias or name):
                shape = _shape_of(field.annotation) or shape
    return shape


def _shape_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = map(_shape_of, getattr(annotation, "__args__", ()))
    return next(filter(None, inner), None)


# Names of time zones.


@cache
def check_timezone(name: str) -> str:
    """Return the name of a time zone of the IANA database.

    Raises:
        ValueError: there is no such zone.
    """
    try:
        named_zone(name)
    except (
        KeyError,
        OSError,
        ValueError,
    ):  # what is no zone may name a folder, or leave the database
        raise ValueError(
            f"{name!r} is no time zone{_near(name)}; write one such as Australia/Sydney"
        ) from None
    return name


def _near(name: str) -> str:
    """Return the zones that a name may mean: a city alone, or a name with a mistake."""
    zones = sorted(available_timezones())
    of_city = [zone for zone in zones if zone.rpartition("/")[2].lower() == name.lower()]
    return near(of_city[0] if of_city else name, of_city or zones)


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
            return {key: entry for key, entry in value.items() if not is_null(entry)}
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
