"""Metadata that a sender adds on the command line: `--meta KEY=VALUE`."""

from __future__ import annotations

from ...schema.errors import InvalidInput
from ...schema.message.canonical_json import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The header that holds the metadata of a message, an object.
META = "meta"


def parse_meta(pairs: Sequence[str]) -> dict[str, object]:
    """Return the object of `KEY=VALUE` pairs: a value is JSON if it parses, else text.

    Raises:
        InvalidInput: a pair has no `=`, or nothing before it.
    """
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput(f"--meta: expected KEY=VALUE, not {pair!a}")
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    try:
        return decode(text)
    except InvalidInput:
        return text
