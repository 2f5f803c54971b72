"""The values that steps of pipelines may name by dotted paths: payload, context and config."""

from __future__ import annotations

import re

import orjson

from ...schema.errors import shown
from ...schema.message.canonical_json import encode
from ..config.faults import near

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: The roots of paths, each with its value.
    Scope = Mapping[str, object]

#: How many names of what is there an error has at most, and how many are compared: it is slow.
_NAMED, _COMPARED = 10, 200

_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number"}

#: The result of a path that leads nowhere; None is the JSON value null.
ABSENT = object()

_REFERENCE = re.compile(r"\{([^{}]*)\}")
_PATH = re.compile(r"(payload|context)(\.[^.\s{}]+)*")


class FlowFault(Exception):
    """A step can't be given what its pipeline says; its job fails with this text."""


def look_up(scope: Scope, path: str) -> object:
    """Return the value at a dotted path, or ABSENT. A number is a place in a list, from 0."""
    value: object = scope
    for word in path.split("."):
        if isinstance(value, dict) and word in value:
            value = value[word]
        elif isinstance(value, list | tuple) and word.isdecimal() and int(word) < len(value):
            value = value[int(word)]
        else:
            return ABSENT
    return value


def required(scope: Scope, path: str) -> object:
    """Return the value at a dotted path.

    Raises:
        FlowFault: it leads nowhere; the text names what is there, and no value of it.
    """
    value = look_up(scope, path)
    if value is ABSENT:
        raise FlowFault(f"{path} is not there; {_what_is_there(scope, path)}")
    return value


def _what_is_there(scope: Scope, path: str) -> str:
    """Return what stands where a path leads as far as it leads."""
    words = path.split(".")
    while words and look_up(scope, ".".join(words)) is ABSENT:
        words.pop()
    known = ".".join(words)
    value = look_up(scope, known) if known else scope
    if isinstance(value, dict) and value:
        names = sorted(f"{known}.{key}" for key in value)
        likely = [name for name in names[:_COMPARED] if len(name) <= 2 * len(path)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"there is {', '.join(map(shown, names[:_NAMED]))}{more}{near(path, likely)}"
    if isinstance(value, list | tuple) and value:
        return f"{known} is a list of {len(value)}, from {known}.0 on"
    return f"{known} is {'empty' if value in ({}, [], ()) else _KINDS.get(type(value), 'null')}"


def fault_of_template(template: str) -> str | None:
    """Return what is wrong with the form of a template, or None."""
    for path in _REFERENCE.findall(template):
        if not _PATH.fullmatch(path):
            return f"{{{path}}} names nothing; write {{payload.PATH}} or {{context.PATH}}"
    if re.search(r"[{}]", _REFERENCE.sub("", template)):
        return f"a brace of {template!r} has no partner; write {{payload.PATH}}"
    return None


def filled(template: str, scope: Scope) -> object:
    """Return a template with its references filled in.

    One that is a reference and nothing else keeps the type of the value; all others are text.

    Raises:
        FlowFault: a reference leads nowhere, or the template has no proper form.
    """
    if fault := fault_of_template(template):
        raise FlowFault(fault)
    if whole := _REFERENCE.fullmatch(template):
        return required(scope, whole[1])
    return _REFERENCE.sub(lambda found: _text(required(scope, found[1])), template)


def is_same(one: object, other: object) -> bool:
    """Tell whether two JSON values are the same, in their types too: 1 is not true, nor 1.0."""
    return encode(one) == encode(other)


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
