"""Settings of the API, its tokens and webhooks, as records."""

from __future__ import annotations

import ipaddress
import os

import orjson

from .faults import near
from .flows import Secret
from .reading import hash_of, read_bytes
from .shapes import ApiShape, ApiTokenShape, EndpointShape, TokenShape
from .snapshot import (
    REPLAY_WINDOW_S,
    ApiConfig,
    TokenConfig,
    WebhookEndpoint,
    WebhooksConfig,
    key_of,
)
from .sources import compare
from .yaml_tree import has_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .load import Demands
    from .shapes import TreePath, Validation
    from .sources import Sources
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
        tree = self._validation.map("api")
        auth = tree.pop("auth", None)
        shape = self._validation.shaped(ApiShape, "api")
        if auth is not None:
            tree["auth"] = auth
        if shape is None:
            return None
        host = self.listen(shape.listen, "api", "listen")
        has_tokens = any(token.scopes for token in (*self._named.values(), *self._of_api))
        if shape.enabled and not has_tokens and (must_have_tokens or not _is_local(host)):
            why = "service.admission" if must_have_tokens else f"an API that listens on {host}"
            self._validation.refuse(f"{why} asks for a token with scopes", "api")
        return ApiConfig(
            enabled=shape.enabled,
            listen=shape.listen,
            max_concurrent_sync=shape.max_concurrent_sync,
            max_sync_timeout_s=shape.max_sync_timeout,
        )

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
        """Warn of a secret that looks as if its quotes, or blanks, had come with it."""
        value = secret.reveal()
        if value and (value[0] in _AROUND or value[-1] in _AROUND):
            message = "the value begins or ends with a quote or a blank; are these a part of it?"
            self._validation.warn(message, *path)

    def _token(self, number: int) -> None:
        path = ("tokens", number)
        shape = self._validation.shaped(TokenShape, *path)
        if shape is None:
            return
        if shape.name in self._named:
            self._validation.refuse(f"the name {shape.name!r} is taken", *path, "name")
        if not self._is_variable(*path, "key"):
            message = "a key is never written here; write key: ${NAME}, and define that variable"
            self._validation.refuse(message, *path, "key")
        self._suspect(Secret(shape.key), *path, "key")
        file = self._directory / shape.scopes_file if shape.scopes_file else None
        scopes = self._scopes(file, shape.scopes_hash, number) if file else ()
        self._named[shape.name] = TokenConfig(
            name=shape.name,
            key=self._key(shape.key, *path, "key"),
            scopes=scopes,
            scopes_file=file,
            description=shape.description,
            place=self._validation.place(*path),
        )

    def _api_token(self, number: int) -> None:
        path = ("api", "auth", "tokens", number)
        shape = self._validation.shaped(ApiTokenShape, *path)
        if shape is None:
            return
        if (shape.token is None) == (shape.secret_ref is None):
            self._validation.refuse("write token: ${NAME}, or secret_ref: NAME", *path)
        if shape.token is not None and not self._is_variable(*path, "token"):
            message = "a token stands here for all to read; write token: ${NAME}"
            self._validation.warn(message, *path, "token")
        key = self._key(shape.token or "", *path, "token")
        self._suspect(key, *path, "token")
        if shape.secret_ref is not None:
            key = self.secret_of(shape.secret_ref, *path, "secret_ref")
        name = shape.name or f"api.auth.tokens[{number}]"
        scopes = self._known_scopes(shape.scopes, *path, "scopes")
        place = self._validation.place(*path)
        self._of_api.append(TokenConfig(name=name, key=key, scopes=scopes, place=place))

    def _key(self, text: str, *path: str | int) -> Secret:
        """Return a secret; refuse a line break at either end, which no sender would have."""
        if text.strip("\r\n") != text:
            message = (
                "it begins or ends with a line break; leave that out, as NAME=$(cat FILE) does"
            )
            self._validation.refuse(message, *path)
        return Secret(text)

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

    def _known_scopes(self, scopes: list[str], *path: str | int) -> tuple[str, ...]:
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


# The listener of webhooks and its endpoints, as records.

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
    validation.keys(("listen", "endpoints"), "webhooks")
    listen = str(validation.at("webhooks", "listen") or WebhooksConfig().listen)
    access.listen(listen, "webhooks", "listen")
    endpoints: dict[str, WebhookEndpoint] = {}
    for number in range(len(validation.list("webhooks", "endpoints"))):
        path = ("webhooks", "endpoints", number)
        shape = validation.shaped(EndpointShape, *path)
        if shape is not None:
            _check(validation, shape, endpoints, path)
            endpoints.setdefault(shape.path, _endpoint(validation, access, shape, path))
    return WebhooksConfig(listen=listen, endpoints=tuple(endpoints.values()))


def _endpoint(
    validation: Validation, access: AccessReader, shape: EndpointShape, path: TreePath
) -> WebhookEndpoint:
    previous = None
    if shape.previous_secret_ref is not None:
        previous = _secret(validation, access, shape, shape.previous_secret_ref, path, "previous_")
    return WebhookEndpoint(
        name=shape.name or shape.path.strip("/"),
        path=shape.path,
        plugin=shape.plugin,
        command=shape.command or "handle",
        pipeline=shape.pipeline,
        event_type=shape.event_type,
        event_type_from=shape.event_type_from,
        secret_ref=shape.secret_ref,
        secret=_secret(validation, access, shape, shape.secret_ref, path),
        previous_secret_ref=shape.previous_secret_ref,
        previous_secret=previous,
        signature_header=shape.signature_header,
        signature_prefix=shape.signature_prefix,
        signature_format=shape.signature_format,
        replay_window_s=shape.replay_window or REPLAY_WINDOW_S,
        max_body_bytes=shape.max_body_size,
        delivery_id=shape.delivery_id,
        rate=shape.rate_limit,
        place=validation.place(*path),
    )


def _secret(
    validation: Validation,
    access: AccessReader,
    shape: EndpointShape,
    name: str,
    path: TreePath,
    which: str = "",
) -> Secret:
    setting = f"{which}secret_ref"
    secret = access.secret_of(name, *path, setting)
    try:
        if secret.reveal():  # else it has a fault of its own
            key_of(secret.reveal(), shape.signature_format)
    except ValueError as error:
        validation.refuse(f"{error}; that of the token {name!r} is not", *path, setting)
    return secret


def _check(
    validation: Validation,
    shape: EndpointShape,
    others: Mapping[str, WebhookEndpoint],
    path: TreePath,
) -> None:
    if shape.path in others or shape.path == HEALTH_PATH:
        validation.refuse(f"the path {shape.path} is taken", *path, "path")
    elif (name := shape.name or shape.path.strip("/")) in {
        endpoint.name for endpoint in others.values()
    }:
        validation.refuse(f"the name {name!r} is taken", *path, "name")
    _check_target(validation, shape, path)
    if shape.signature_format == "plain" and shape.replay_window is not None:
        message = "a plain signature signs no time; leave replay_window out, or write"
        validation.refuse(f"{message} signature_format: standard or stripe", *path, "replay_window")
    if shape.signature_format != "plain" and shape.signature_prefix is not None:
        message = "this signature_format has no prefix; leave signature_prefix out"
        validation.refuse(message, *path, "signature_prefix")
    named = shape.delivery_id
    if shape.signature_format != "plain" and named is not None and named.where == "header":
        message = "a header is not signed, so that a request could be repeated under another id"
        validation.refuse(f"{message}; write body:FIELD, or leave it out", *path, "delivery_id")
    header = shape.signature_header.lower()
    if shape.signature_format == "standard" and not header.endswith(_STANDARD_END):
        message = f"{shape.signature_header!r} does not end in -signature; write webhook-signature"
        validation.refuse(message, *path, "signature_header")


def _check_target(validation: Validation, shape: EndpointShape, path: TreePath) -> None:
    has_type = shape.event_type is not None or shape.event_type_from is not None
    if shape.plugin is None and shape.pipeline is None and not has_type:
        message = "'plugin' is missing; write plugin: NAME, pipeline: NAME or event_type: TYPE"
        validation.refuse(message, *path)
    if shape.plugin is not None and shape.pipeline is not None:
        validation.refuse("write plugin or pipeline, not both", *path, "pipeline")
    if shape.pipeline is not None and has_type:
        message = "a pipeline has the type of its `on`; leave event_type and event_type_from out"
        validation.refuse(message, *path, "pipeline")
    if shape.command is not None and shape.plugin is None:
        validation.refuse("command is of a plugin; write plugin: NAME", *path, "command")
