"""The headers that the rarer options of `bus publish` give a message.

`--headers` is the base; `--meta` adds to its `meta`, and the work headers stand beside it.
(Plugboard's exit code for a bad `--meta` is 1; here it is 2, as for every broken rule.)
"""

from __future__ import annotations

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode
from ...schema.message.draft import AVAILABLE_AT, DEDUPE_KEY, DEDUPE_WINDOW
from ...schema.message.times import parse_ts
from ...subscribers.jobs.policy import work_headers
from .. import arguments
from .payload import json_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Metadata that a sender adds on the command line: `--meta KEY=VALUE`.

#: The header that holds the metadata of a message, an object.
META = "meta"


def parse_meta(pairs: Sequence[str]) -> dict[str, object]:
    """Return the object of `KEY=VALUE` pairs: a value is JSON if it parses, else text.

    Raises:
        InvalidInput: a pair has no `=`, or nothing before it.
    """
    meta: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(f"--meta: expected KEY=VALUE, not {pair!a}")
        meta[key] = _value(value)
    return meta


def _value(text: str) -> object:
    try:
        return decode(text)
    except InvalidInput:
        return text


def message_headers(
    headers: str | None,
    meta: Sequence[str] | None,
    at: str | None,
    dedupe_key: str | None,
    dedupe_window: str | None,
) -> dict[str, object] | None:
    """Return the headers that these options make, or None without any.

    Raises:
        InvalidInput: one is malformed, or two contradict each other.
    """
    composed: dict[str, object] = {} if headers is None else _object(headers)
    if meta:
        composed[META] = _base(composed) | parse_meta(meta)
    if (at, dedupe_key, dedupe_window) != (None, None, None):
        window_s = (
            None if dedupe_window is None else arguments.seconds(dedupe_window, "--dedupe-window")
        )
        composed |= work_headers(
            available_at_ms=None if at is None else _time(at),
            dedupe_key=dedupe_key,
            dedupe_window_s=window_s,
        )
    return composed or None


def check_wishes(headers: Mapping[str, object]) -> None:
    """Refuse work headers with values of a form that queues ignore.

    Raises:
        InvalidInput: a work header has a value of another form.
    """
    for name in (AVAILABLE_AT, DEDUPE_WINDOW):
        if name in headers and type(headers[name]) is not int:
            raise InvalidInput(
                f"header {name} must be a whole number, in milliseconds, not {headers[name]!r}"
            )
    if not isinstance(headers.get(DEDUPE_KEY, ""), str):
        raise InvalidInput(f"header {DEDUPE_KEY} must be text, not {headers[DEDUPE_KEY]!r}")
    at_ms: Any = headers.get(AVAILABLE_AT)
    key: Any = headers.get(DEDUPE_KEY)
    window_ms: Any = headers.get(DEDUPE_WINDOW)
    work_headers(
        available_at_ms=at_ms,
        dedupe_key=key,
        dedupe_window_s=None if window_ms is None else window_ms / 1000,
    )


def _object(text: str) -> dict[str, object]:
    value = json_argument(text, "--headers")
    if not isinstance(value, dict):
        raise InvalidInput("--headers must be a JSON object")
    return value


def _base(headers: dict[str, object]) -> dict[str, object]:
    base = headers.get(META, {})
    if not isinstance(base, dict):
        raise InvalidInput(f"--meta can't be added: {META!r} of --headers is not a JSON object")
    return base


def _time(at: str) -> int:
    try:
        return parse_ts(at)
    except InvalidInput as error:
        raise InvalidInput(f"--at: {error}") from error
