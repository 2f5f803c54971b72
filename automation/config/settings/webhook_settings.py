"""The listener of webhooks and its endpoints, as records."""

from __future__ import annotations

from ..signing_keys import key_of
from ..webhooks import REPLAY_WINDOW_S, WebhookEndpoint, WebhooksConfig
from .shapes import EndpointShape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..records import Secret
    from .access_settings import Access
    from .validation import Path, Validation

#: The path that the listener answers itself.
HEALTH_PATH = "/healthz"

#: How the name of the header with a signature of the standard form ends: those beside it have the
#: same beginning.
_STANDARD_END = "-signature"


def webhooks(validation: Validation, access: Access) -> WebhooksConfig | None:
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
    found: dict[str, WebhookEndpoint] = {}
    for number in range(len(validation.list("webhooks", "endpoints"))):
        path = ("webhooks", "endpoints", number)
        shape = validation.shaped(EndpointShape, *path)
        if shape is not None:
            _check(validation, shape, found, path)
            found.setdefault(shape.path, _endpoint(validation, access, shape, path))
    return WebhooksConfig(listen=listen, endpoints=tuple(found.values()))


def _endpoint(
    validation: Validation, access: Access, shape: EndpointShape, path: Path
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
    access: Access,
    shape: EndpointShape,
    name: str,
    path: Path,
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
    validation: Validation, shape: EndpointShape, others: Mapping[str, WebhookEndpoint], path: Path
) -> None:
    if shape.path in others or shape.path == HEALTH_PATH:
        validation.refuse(f"the path {shape.path} is taken", *path, "path")
    elif (name := shape.name or shape.path.strip("/")) in {each.name for each in others.values()}:
        validation.refuse(f"the name {name!r} is taken", *path, "name")
    _check_target(validation, shape, path)
    if shape.signature_format == "plain" and shape.replay_window is not None:
        told = "a plain signature signs no time; leave replay_window out, or write"
        validation.refuse(f"{told} signature_format: standard or stripe", *path, "replay_window")
    if shape.signature_format != "plain" and shape.signature_prefix is not None:
        told = "this signature_format has no prefix; leave signature_prefix out"
        validation.refuse(told, *path, "signature_prefix")
    named = shape.delivery_id
    if shape.signature_format != "plain" and named is not None and named.where == "header":
        told = "a header is not signed, so that a request could be repeated under another id"
        validation.refuse(f"{told}; write body:FIELD, or leave it out", *path, "delivery_id")
    header = shape.signature_header.lower()
    if shape.signature_format == "standard" and not header.endswith(_STANDARD_END):
        told = f"{shape.signature_header!r} does not end in -signature; write webhook-signature"
        validation.refuse(told, *path, "signature_header")


def _check_target(validation: Validation, shape: EndpointShape, path: Path) -> None:
    has_type = shape.event_type is not None or shape.event_type_from is not None
    if shape.plugin is None and shape.pipeline is None and not has_type:
        told = "'plugin' is missing; write plugin: NAME, pipeline: NAME or event_type: TYPE"
        validation.refuse(told, *path)
    if shape.plugin is not None and shape.pipeline is not None:
        validation.refuse("write plugin or pipeline, not both", *path, "pipeline")
    if shape.pipeline is not None and has_type:
        told = "a pipeline has the type of its `on`; leave event_type and event_type_from out"
        validation.refuse(told, *path, "pipeline")
    if shape.command is not None and shape.plugin is None:
        validation.refuse("command is of a plugin; write plugin: NAME", *path, "command")
