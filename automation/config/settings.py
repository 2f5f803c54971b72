"""The checks that go beyond a single setting."""

from __future__ import annotations

import ipaddress
import os
import re

import orjson

from ...schema.errors import InvalidInput
from .files import hash_of, read_bytes
from .models import (
    ApiConfig,
    ApiToken,
    Pipeline,
    PipelineStep,
    PluginConfig,
    RetryConfig,
    Route,
    ScheduleEntry,
    TokenConfig,
    WebhookEndpoint,
    WebhooksConfig,
)
from .sources import compare
from .value_forms import own_zone
from .values import SWITCH, Frozen, Secret, key_of, near
from .yaml_tree import has_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .load import Demands
    from .models import Condition
    from .sources import Sources
    from .validation import TreePath, Validation
    from .yaml_tree import Map

# The checks of the API, its tokens and webhooks, and the secrets that they refer to.

#: The scopes that a token may have.
SCOPES = ("plugin:ro", "plugin:rw", "jobs:ro", "jobs:rw", "events:ro", "events:rw", "*")

_HASH = "blake3:"

#: Characters that a secret hardly begins or ends with: `docker --env-file` hands quotes on, say.
_AROUND = "\"'` \t\r\n"


class AccessReader:
    """Reads the tokens, then the settings of the API and webhooks that refer to them.

    Args:
        validation: a run over the configuration.
        raw: the configuration with its variables not filled.
        sources: its folder, the trusted owners of files, and whether variables are filled.
        seal: the sealed hashes.
        demands: what is refused.
    """

    def __init__(
        self,
        validation: Validation,
        raw: Map,
        sources: Sources,
        seal: Mapping[str, str],
        demands: Demands,
    ) -> None:
        self._fills = sources.fills
        self._demands = demands
        self._owners = sources.owners
        self._validation = validation
        self._raw = raw
        self._directory = sources.directory
        self._seal = seal
        self._named: dict[str, TokenConfig] = {}
        self._of_api: list[TokenConfig] = []
        #: The hashes of the files of scopes, by absolute path.
        self.files: dict[str, str] = {}

    def tokens(self) -> tuple[TokenConfig, ...]:
        """Return the tokens of `tokens` and of `api.auth.tokens`."""
        for number in range(len(self._validation.list("tokens"))):
            self._token(number)
        self._validation.keys(("tokens",), "api", "auth")
        for number in range(len(self._validation.list("api", "auth", "tokens"))):
            self._api_token(number)
        return (*self._named.values(), *self._of_api)

    def api(self, must_have_tokens: bool) -> ApiConfig | None:
        """Return the settings of the API, None where there are none."""
        if self._validation.at("api") is None:
            return None
        api = self._validation.model(ApiConfig, "api")
        if api is None:
            return None
        host = self.listen(api.listen, "api", "listen")
        has_tokens = any(token.scopes for token in (*self._named.values(), *self._of_api))
        if api.enabled and not has_tokens and (must_have_tokens or not _is_local(host)):
            why = "service.admission" if must_have_tokens else f"an API that listens on {host}"
            self._validation.refuse(f"{why} asks for a token with scopes", "api")
        return api

    def secret_of(self, name: str, *path: str | int) -> Secret:
        """Return the key of the token that the value at a path names; call `tokens` first."""
        token = self._named.get(name)
        if token is None:
            message = f"there is no token {name!r}{near(name, self._named)}; define it in tokens"
            self._validation.refuse(message, *path)
        if token is None or not self._fills:
            return Secret("")
        is_unfilled = not self._demands.variables and has_variable(token.key.reveal())
        return Secret("") if is_unfilled else token.key

    def _suspect(self, secret: Secret, *path: str | int) -> None:
        """Refuse a line break at either end, which no sender has; warn of quotes and blanks."""
        value = secret.reveal()
        if value.strip("\r\n") != value:
            message = (
                "it begins or ends with a line break; leave that out, as NAME=$(cat FILE) does"
            )
            self._validation.refuse(message, *path)
        if value and (value[0] in _AROUND or value[-1] in _AROUND):
            message = "the value begins or ends with a quote or a blank; are these a part of it?"
            self._validation.warn(message, *path)

    def _token(self, number: int) -> None:
        path = ("tokens", number)
        token = self._validation.model(TokenConfig, *path)
        if token is None:
            return
        if token.name in self._named:
            self._validation.refuse(f"the name {token.name!r} is taken", *path, "name")
        if not self._is_variable(*path, "key"):
            message = "a key is never written here; write key: ${NAME}, and define that variable"
            self._validation.refuse(message, *path, "key")
        self._suspect(token.key, *path, "key")
        file = self._directory / token.scopes_file if token.scopes_file else None
        scopes = self._scopes(file, token.scopes_hash, number) if file else ()
        update = {"scopes": scopes, "scopes_file": file and str(file)}
        self._named[token.name] = token.model_copy(update=update)

    def _api_token(self, number: int) -> None:
        path = ("api", "auth", "tokens", number)
        form = self._validation.model(ApiToken, *path)
        if form is None:
            return
        if (form.token is None) == (form.secret_ref is None):
            self._validation.refuse("write token: ${NAME}, or secret_ref: NAME", *path)
        if form.token is not None and not self._is_variable(*path, "token"):
            message = "a token stands here for all to read; write token: ${NAME}"
            self._validation.warn(message, *path, "token")
        key = Secret(form.token or "")
        self._suspect(key, *path, "token")
        if form.secret_ref is not None:
            key = self.secret_of(form.secret_ref, *path, "secret_ref")
        name = form.name or f"api.auth.tokens[{number}]"
        scopes = self._known_scopes(form.scopes, *path, "scopes")
        place = self._validation.place(*path)
        self._of_api.append(TokenConfig(name=name, key=key, scopes=scopes, place=place))

    def _is_variable(self, *path: str | int) -> bool:
        tree: object = self._raw
        for part in path:
            tree = tree[part]  # type: ignore[index]
        return isinstance(tree, str) and has_variable(tree)

    def _scopes(self, file: Path, hash: str | None, number: int) -> tuple[str, ...]:
        path = ("tokens", number, "scopes_file")
        if has_variable(str(file)):
            self._validation.refuse("a path of a file has no variables; write it out", *path)
            return ()
        try:
            data = read_bytes(file, self._owners)
            document = orjson.loads(data)
        except OSError as error:
            self._validation.refuse(f"can't read {file}: {error.strerror or error}", *path)
            return ()
        except orjson.JSONDecodeError as error:
            self._validation.refuse(f"{file} is no JSON: {error}", *path)
            return ()
        file_hash = self.files[os.path.abspath(file)] = hash_of(data)
        if hash is not None and hash != _HASH + file_hash:
            message = f"{file} is not the one that this hash is of; it has {_HASH}{file_hash}"
            self._validation.refuse(message, "tokens", number, "scopes_hash")
        if fault := compare(str(file), os.path.abspath(file), file_hash, self._seal):
            is_refused, run = self._demands.seal, self._validation
            (run.faults if is_refused else run.warnings).append(fault)
        scopes = document.get("scopes") if isinstance(document, dict) else document
        if not isinstance(scopes, list) or not scopes:
            self._validation.refuse(f'{file} has no scopes; write {{"scopes": ["…"]}}', *path)
            return ()
        return self._known_scopes([str(scope) for scope in scopes], *path)

    def _known_scopes(self, scopes: Iterable[str], *path: str | int) -> tuple[str, ...]:
        for scope in scopes:
            if scope not in SCOPES:
                message = f"the scope {scope!r} is not known; write {', '.join(SCOPES)}"
                self._validation.refuse(message, *path)
        return tuple(dict.fromkeys(scopes))

    def listen(self, listen: str, *path: str | int) -> str:
        """Return the host of HOST:PORT; another form is refused."""
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            self._validation.refuse(f"{listen!r} is no address; write HOST:PORT", *path)
        return host.strip("[]")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# The listener of webhooks and its endpoints.

#: The path that the listener answers itself.
HEALTH_PATH = "/healthz"

#: How the name of the header with a signature of the standard form ends: those beside it have the
#: same beginning.
_STANDARD_END = "-signature"


def webhooks(validation: Validation, access: AccessReader) -> WebhooksConfig | None:
    """Return the listener of webhooks, None where there is none.

    Args:
        validation: a run over the configuration.
        access: has read the tokens, which hold the secrets.
    """
    if validation.at("webhooks") is None:
        return None
    listener = validation.model(WebhooksConfig, "webhooks") or WebhooksConfig()
    access.listen(listener.listen, "webhooks", "listen")
    endpoints: dict[str, WebhookEndpoint] = {}
    for number in range(len(validation.list("webhooks", "endpoints"))):
        path = ("webhooks", "endpoints", number)
        endpoint = validation.model(WebhookEndpoint, *path)
        if endpoint is None:
            continue
        endpoint = endpoint.model_copy(update={"name": endpoint.name or endpoint.path.strip("/")})
        _check(validation, endpoint, endpoints, path)
        secrets = _secrets(validation, access, endpoint, path)
        endpoints.setdefault(endpoint.path, endpoint.model_copy(update=secrets))
    return listener.model_copy(update={"endpoints": tuple(endpoints.values())})


def _secrets(
    validation: Validation, access: AccessReader, endpoint: WebhookEndpoint, path: TreePath
) -> dict[str, Secret]:
    secrets = {}
    for field in ("previous_secret", "secret"):
        name: str | None = getattr(endpoint, f"{field}_ref")
        if name is None:
            continue
        secrets[field] = secret = access.secret_of(name, *path, f"{field}_ref")
        try:
            if secret.reveal():  # else it has a fault of its own
                key_of(secret.reveal(), endpoint.signature_format)
        except ValueError as error:
            message = f"{error}; that of the token {name!r} is not"
            validation.refuse(message, *path, f"{field}_ref")
    return secrets


def _check(
    validation: Validation,
    endpoint: WebhookEndpoint,
    others: Mapping[str, WebhookEndpoint],
    path: TreePath,
) -> None:
    if endpoint.path in others or endpoint.path == HEALTH_PATH:
        validation.refuse(f"the path {endpoint.path} is taken", *path, "path")
    elif any(other.name == endpoint.name for other in others.values()):
        validation.refuse(f"the name {endpoint.name!r} is taken", *path, "name")
    _check_target(validation, endpoint, path)
    if endpoint.signature_format == "plain" and "replay_window_s" in endpoint.model_fields_set:
        message = "a plain signature signs no time; leave replay_window out, or write"
        validation.refuse(f"{message} signature_format: standard or stripe", *path, "replay_window")
    if endpoint.signature_format != "plain" and endpoint.signature_prefix is not None:
        message = "this signature_format has no prefix; leave signature_prefix out"
        validation.refuse(message, *path, "signature_prefix")
    named = endpoint.delivery_id
    if endpoint.signature_format != "plain" and named is not None and named.where == "header":
        message = "a header is not signed, so that a request could be repeated under another id"
        validation.refuse(f"{message}; write body:FIELD, or leave it out", *path, "delivery_id")
    header = endpoint.signature_header.lower()
    if endpoint.signature_format == "standard" and not header.endswith(_STANDARD_END):
        wrong = f"{endpoint.signature_header!r} does not end in -signature"
        validation.refuse(f"{wrong}; write webhook-signature", *path, "signature_header")


def _check_target(validation: Validation, endpoint: WebhookEndpoint, path: TreePath) -> None:
    has_type = endpoint.event_type is not None or endpoint.event_type_from is not None
    if endpoint.plugin is None and endpoint.pipeline is None and not has_type:
        message = "'plugin' is missing; write plugin: NAME, pipeline: NAME or event_type: TYPE"
        validation.refuse(message, *path)
    if endpoint.plugin is not None and endpoint.pipeline is not None:
        validation.refuse("write plugin or pipeline, not both", *path, "pipeline")
    if endpoint.pipeline is not None and has_type:
        message = "a pipeline has the type of its `on`; leave event_type and event_type_from out"
        validation.refuse(message, *path, "pipeline")
    if "command" in endpoint.model_fields_set and endpoint.plugin is None:
        validation.refuse("command is of a plugin; write plugin: NAME", *path, "command")


# The checks of plugins, schedules, routes and pipelines that go beyond a single setting.

#: The kinds of times, of which a schedule has one, with their keys.
_KINDS = {"every_s": "every", "cron": "cron", "at_ms": "at", "after_s": "after"}

#: The fields that decide the times of a schedule; the rest decides what is done at them.
_TIMING = ("every_s", "cron", "at_ms", "after_s", "jitter_s", "timezone", "preferred_window")


def plugin_settings(validation: Validation, max_workers: int) -> dict[str, PluginConfig]:
    """Return the settings of all plugins that have no fault.

    Args:
        validation: a run over the configuration, which takes the faults.
        max_workers: the most that a plugin's `parallelism` may be.
    """
    settings = {}
    for name in validation.map("plugins"):
        if not _is_name(name):
            validation.refuse(f"{name!r}: write letters, digits, _ and -", "plugins", name)
        elif (plugin := _plugin(validation, name, max_workers)) is not None:
            settings[name] = plugin
    return settings


def _is_name(name: str) -> bool:
    return name.replace("_", "").replace("-", "").isalnum() and name.isascii() and len(name) <= 128


def _plugin(validation: Validation, name: str, max_workers: int) -> PluginConfig | None:
    path = ("plugins", name)
    plugin = validation.model(PluginConfig, *path)
    schedules = _schedules(validation, name)
    if plugin is None:
        return None
    if plugin.parallelism is not None and plugin.parallelism > max_workers:
        message = f"write at most {max_workers}, which is service.max_workers"
        validation.refuse(message, *path, "parallelism")
    retry = plugin.retry
    if "max_attempts" in plugin.model_fields_set:
        if "retry" in plugin.model_fields_set:
            validation.refuse("it stands in retry, too", *path, "max_attempts")
        retry = RetryConfig(max_attempts=plugin.max_attempts)
    return plugin.model_copy(
        update={
            "name": name,
            "uses": plugin.uses or name,
            "schedules": schedules,
            "retry": retry,
        }
    )


def _schedules(validation: Validation, plugin: str) -> tuple[ScheduleEntry, ...]:
    entries: list[ScheduleEntry] = []
    for number in range(len(validation.list("plugins", plugin, "schedules"))):
        path = ("plugins", plugin, "schedules", number)
        entry = validation.model(ScheduleEntry, *path)
        if entry is None:
            continue
        if any(other.id == entry.id for other in entries):
            message = f"the id {entry.id!r} is taken; give each schedule of a plugin its own"
            validation.refuse(message, *path)
        _check_kind(validation, entry, path)
        if entry.command == "handle":
            message = "'handle' answers events and has no times; schedule poll, or write a route"
            validation.refuse(message, *path, "command")
        if entry.preferred_window is not None:
            message = "times outside of it are moved to its next start, here; Ductile ignores it"
            validation.warn(message, *path, "preferred_window")
        _check_own_zone(validation, entry, path)
        update = {"plugin": plugin, "hash": _hash(entry)}
        entries.append(entry.model_copy(update=update))
    return tuple(entries)


def _hash(entry: ScheduleEntry) -> str:
    times = entry.model_dump(include=set(_TIMING))
    return hash_of(orjson.dumps([times[key] for key in _TIMING]))[:16]


def _check_own_zone(validation: Validation, entry: ScheduleEntry, path: TreePath) -> None:
    """Refuse a schedule in the machine's own time zone if that can't be read."""
    goes_by_clock = entry.cron or entry.only_between or entry.not_on or entry.preferred_window
    if goes_by_clock and entry.timezone is None:
        try:
            own_zone()
        except InvalidInput as error:
            validation.refuse(str(error), *path)


def _check_kind(validation: Validation, entry: ScheduleEntry, path: TreePath) -> None:
    kinds = [key for name, key in _KINDS.items() if getattr(entry, name) is not None]
    if not kinds:
        validation.refuse("it has no times; write one of every, cron, at and after", *path)
    elif len(kinds) > 1:
        message = f"{' and '.join(kinds)} are two kinds of times; write one of them"
        validation.refuse(message, *path, kinds[1])
    if entry.jitter_s and kinds != ["every"]:
        validation.warn("jitter is for every; it has no effect here", *path, "jitter")
    if entry.every_s is not None and entry.jitter_s >= entry.every_s:
        validation.refuse("the jitter must be shorter than the interval", *path, "jitter")


# Routes and pipelines.

_NUMERIC = ("gt", "gte", "lt", "lte")
_TEXTUAL = ("contains", "startswith", "endswith", "regex")
#: The comparisons that a condition has.
OPERATORS = ("exists", "eq", "neq", "in", *_NUMERIC, *_TEXTUAL)

#: How deeply conditions, and steps, may be nested.
MAX_DEPTH = 10

#: The source of a claim of baggage.
_SOURCE = re.compile(r"(payload|context)(\.[^.\s{}]+)*")
_DURABLE = re.compile(r"[^.\s{}]+(\.[^.\s{}]+)*")


def routes(validation: Validation) -> tuple[Route, ...]:
    """Return the routes that have no fault, in their order."""
    routes_by_key: dict[tuple[str, str, str, str], Route] = {}
    for number in range(len(validation.list("routes"))):
        path = ("routes", number)
        if (route := validation.model(Route, *path)) is None:
            continue
        plugin, _, command = route.to.partition(".")
        if command and "command" in route.model_fields_set:
            validation.refuse(f"{route.to!r} names a command already", *path, "command")
        route = route.model_copy(update={"to": plugin, "command": command or route.command})
        if route.broadcast and route.source == SWITCH:
            validation.refuse("events of conditions can't be broadcast", *path, "broadcast")
        key = (route.source, route.event_type, route.to, route.command)
        if first := routes_by_key.get(key):
            at = f"{first.place.file}:{first.place.line}"
            validation.warn(f"this route stands already, at {at}, and has no effect", *path)
        else:
            routes_by_key[key] = route
    return tuple(routes_by_key.values())


def pipelines(validation: Validation) -> tuple[Pipeline, ...]:
    """Return the pipelines that have no fault, in their order."""
    pipelines_by_name: dict[str, Pipeline] = {}
    for number in range(len(validation.list("pipelines"))):
        path = ("pipelines", number)
        if (pipeline := validation.model(Pipeline, *path)) is None:
            continue
        if first := pipelines_by_name.get(pipeline.name):
            at = f"{first.place.file}:{first.place.line}"
            validation.refuse(f"the name {pipeline.name!r} is taken, at {at}", *path, "name")
        if (pipeline.on is None) == (pipeline.on_hook is None):
            validation.refuse("write on: EVENT, or on-hook: job.completed", *path)
        _check_condition(validation, pipeline.condition, _ROOTS_OF_EVENTS, (*path, "if"))
        steps = _Steps(validation).steps(pipeline.steps, (*path, "steps"))
        pipelines_by_name[pipeline.name] = pipeline.model_copy(update={"steps": steps})
    return tuple(pipelines_by_name.values())


class _Steps:
    """Checks the steps of one pipeline, whose ids differ."""

    def __init__(self, validation: Validation) -> None:
        self._validation = validation
        self._ids: set[str] = set()

    def steps(self, steps: tuple[PipelineStep, ...], path: TreePath) -> tuple[PipelineStep, ...]:
        return tuple(self._step(step, (*path, number)) for number, step in enumerate(steps))

    def _step(self, step: PipelineStep, path: TreePath) -> PipelineStep:
        refuse = self._validation.refuse
        kinds = [kind for kind in ("uses", "call", "steps", "split") if getattr(step, kind)]
        if len(kinds) != 1:
            has = " and ".join(kinds) or "nothing to do"
            refuse(f"it has {has}; write one of uses, call, steps and split", *path)
        if step.id is not None:
            if step.id in self._ids:
                refuse(f"the id {step.id!r} is taken in this pipeline", *path, "id")
            self._ids.add(step.id)
        for key, setting in (("with", step.with_), ("baggage", step.baggage)):
            if setting and step.uses is None:
                refuse(f"{key!r} belongs to a step that uses a plugin", *path, key)
        if len(path) > 2 * MAX_DEPTH:
            refuse(f"steps are nested more than {MAX_DEPTH} deep", *path)
        _check_condition(self._validation, step.condition, _ALL_ROOTS, (*path, "if"))
        claims, source, namespace = self._baggage(step.baggage, (*path, "baggage"))
        return step.model_copy(
            update={
                "steps": self.steps(step.steps, (*path, "steps")),
                "split": self.steps(step.split, (*path, "split")),
                "baggage": Frozen(claims),
                "baggage_from": source,
                "namespace": namespace,
                "place": self._validation.place(*path),
            }
        )

    def _baggage(
        self, entries: Mapping[str, str], path: TreePath
    ) -> tuple[dict[str, str], str | None, str | None]:
        """Return the claims of a step, and the object that it claims whole, with its namespace."""
        claims = dict(entries)
        source, namespace = claims.pop("from", None), claims.pop("namespace", None)
        if (source is None) != (namespace is None):
            message = "claim an object by both: from: payload.PATH and namespace: NAME"
            self._validation.refuse(message, *path)
        for key, value in [*claims.items(), *([("from", source)] if source else [])]:
            if not _DURABLE.fullmatch(key):
                self._validation.refuse("write a dotted path, such as web.url", *path, key)
            if not _SOURCE.fullmatch(value):
                message = f"{value!r} is no source; write payload.PATH or context.PATH"
                self._validation.refuse(message, *path, key)
        return claims, source, namespace


#: The roots of paths in the conditions of pipelines, and of steps.
_ROOTS_OF_EVENTS = ("payload", "context")
_ALL_ROOTS = (*_ROOTS_OF_EVENTS, "config")


def _check_condition(
    validation: Validation,
    condition: Condition | None,
    roots: tuple[str, ...],
    path: TreePath,
    depth: int = 0,
) -> None:
    if condition is None:
        return
    forms = [key for key in ("path", "all", "any", "not_") if getattr(condition, key) is not None]
    if len(forms) != 1 or (forms != ["path"] and condition.op is not None):
        message = "write one of: path with op and value, all: [...], any: [...], not: {...}"
        validation.refuse(message, *path)
    elif depth > MAX_DEPTH:
        validation.refuse(f"conditions are nested more than {MAX_DEPTH} deep", *path)
    elif condition.path is not None:
        _check_comparison(validation, condition, roots, path)
    elif condition.not_ is not None:
        _check_condition(validation, condition.not_, roots, (*path, "not"), depth + 1)
    else:
        parts = condition.all or condition.any or ()
        for number, part in enumerate(parts):
            _check_condition(validation, part, roots, (*path, forms[0], number), depth + 1)
        if not parts:
            validation.refuse("write at least one condition", *path, forms[0])


def _check_comparison(
    validation: Validation, condition: Condition, roots: tuple[str, ...], path: TreePath
) -> None:
    op, value = condition.op or "", condition.value
    if (condition.path or "").split(".")[0] not in roots:
        message = f"{condition.path!r} begins nowhere; write a path of {', '.join(roots)}"
        validation.refuse(message, *path, "path")
    if op not in OPERATORS:
        message = f"{op!r} is no comparison{near(op, OPERATORS)}; write {', '.join(OPERATORS)}"
        validation.refuse(message, *path, "op")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if op in _NUMERIC and not is_number:
        validation.refuse(f"{op!r} compares numbers; write one", *path, "value")
    elif op in _TEXTUAL and not isinstance(value, str):
        validation.refuse(f"{op!r} compares text; write it in quotes", *path, "value")
    elif op == "in" and not isinstance(value, tuple):
        validation.refuse("'in' looks in a list; write value: [...]", *path, "value")
    elif op == "regex":
        try:
            re.compile(str(value))
        except re.error as error:
            validation.refuse(f"this is no regular expression: {error}", *path, "value")
