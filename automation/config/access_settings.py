"""The checks of the API, its tokens and webhooks, and the secrets that they refer to."""

from __future__ import annotations

import ipaddress
import os

import orjson

from .faults import near
from .models import ApiConfig, ApiToken, TokenConfig, WebhookEndpoint, WebhooksConfig
from .reading import hash_of, read_bytes
from .sources import compare
from .values import Secret, key_of
from .yaml_tree import has_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .load import Demands
    from .sources import Sources
    from .validation import TreePath, Validation
    from .yaml_tree import Map

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
