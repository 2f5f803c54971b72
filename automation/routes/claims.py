"""The payload of a step, by `with`, and the context of its run, by `baggage`."""

from __future__ import annotations

from ...schema.message.canonical_json import encode
from .scope import FlowFault, filled, is_same, required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config.flows import Step
    from .scope import Scope

    Context = Mapping[str, object]

#: The largest context of a run, in bytes of JSON: 1 MB.
MAX_CONTEXT_BYTES = 1_000_000


def payload_of(step: Step, scope: Scope) -> object:
    """Return the payload of a step's job: the one of the scope, with the keys of `with`.

    Every template sees the scope as it was; none sees what another one has set.

    Raises:
        FlowFault: a template leads nowhere, or the payload has no keys.
    """
    given = scope["payload"]
    if not step.with_:
        return given
    if given is not None and not isinstance(given, dict):
        raise FlowFault("with: the payload is no object, so it has no keys to set")
    return {**(given or {}), **_filled(step.with_, scope)}


def context_of(step: Step, scope: Scope) -> Context:
    """Return the context of a step: the inherited one, and what it claims.

    What is inherited never changes; saying it again is allowed.

    Raises:
        FlowFault: a source is not there, a claim would change what is inherited, or the context
            becomes too large.
    """
    inherited = scope["context"]
    assert isinstance(inherited, dict)
    context: dict[str, object] = dict(inherited)
    for path, value in _claims(step, scope).items():
        context = _accreted(context, _nested(path, value), path)
    if len(encode(context)) > MAX_CONTEXT_BYTES:
        raise FlowFault(f"baggage: the context is larger than {MAX_CONTEXT_BYTES} bytes")
    return context


def _filled(templates: Mapping[str, str], scope: Scope) -> dict[str, object]:
    found = {}
    for key, template in templates.items():
        try:
            found[key] = filled(template, scope)
        except FlowFault as fault:
            raise FlowFault(f"with.{key}: {fault}") from None
    return found


def _claims(step: Step, scope: Scope) -> dict[str, object]:
    """Return the claims of a step, by their durable paths."""
    sources = dict(step.baggage)
    if step.baggage_from is not None and step.namespace is not None:
        sources[step.namespace] = step.baggage_from
    found = {}
    for path, source in sources.items():
        try:
            found[path] = required(scope, source)
        except FlowFault as fault:
            raise FlowFault(f"baggage.{path}: {fault}") from None
        if path == step.namespace and not isinstance(found[path], dict):
            raise FlowFault(f"baggage.{path}: {source} is no object")
    return found


def _nested(path: str, value: object) -> dict[str, object]:
    for word in reversed(path.split(".")):
        value = {word: value}
    assert isinstance(value, dict)
    return value


def _accreted(
    inherited: Mapping[str, object], claimed: Mapping[str, object], path: str
) -> dict[str, object]:
    """Return an object with what is claimed beside what is inherited, at each depth."""
    merged = dict(inherited)
    for key, value in claimed.items():
        there = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(there, dict) and isinstance(value, dict):
            merged[key] = _accreted(there, value, path)
        elif not is_same(there, value):
            raise FlowFault(
                f"baggage.{path}: {key!r} is in the context with another value, which never"
                " changes; claim it under another name"
            )
    return merged
