"""Redaction: the part of a configuration that may be shown."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

from .records import Secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .snapshot import Config

REDACTED = "[REDACTED]"

#: The settings whose inner names are no settings of ours.
_FREE = ("config", "payload")

#: Words in the name of a setting that make its value a secret.
_SECRET = re.compile(
    r"secret|passw|passphrase|token|credential|private|bearer|authori[sz]ation|cookie"
    r"|webhook_url|dsn"
    r"|(^|[_\-.])(key|keys|auth|pwd|pat)([_\-.]|$)|api_?key",
    re.IGNORECASE,
)
#: Names that only sound like it: they say where a secret is.
_HARMLESS = re.compile(
    r"(previous_)?secret_ref|tokens?_file|.*_env|.*_header|key_id|scopes_(file|hash)"
)


def is_secret_key(name: str) -> bool:
    """Tell whether the value of a setting of this name is a secret."""
    return _SECRET.search(name) is not None and _HARMLESS.fullmatch(name) is None


def shown(config: Config) -> dict[str, Any]:
    """Return a configuration as JSON has it, with no secret in it.

    Secrets, and the values of settings whose names say that they are, become [REDACTED]; what came
    from a variable shows the variable.
    """
    variables = {secret.reveal(): name for name, secret in config.variables.items()}
    found = _Shown(variables).record(config)
    del found["variables"]
    return found


class _Shown:
    """Shows values, and knows which variables they may come from."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._long = sorted(filter(_is_long, variables), key=len, reverse=True)

    def record(self, record: Any) -> dict[str, Any]:
        names = [each.name for each in fields(record) if each.type != "Place"]
        return {each.rstrip("_"): self._value(getattr(record, each), each) for each in names}

    def _value(self, value: Any, name: str, is_free: bool = False) -> Any:
        """Return a value as it is shown; in a free one, the names of settings are the author's."""
        if is_dataclass(value) and not isinstance(value, Secret):
            return self.record(value)
        if isinstance(value, dict):
            free = is_free or name in _FREE
            return {str(key): self._value(each, str(key), free) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(each, name, is_free) for each in value]
        if isinstance(value, frozenset):
            return sorted(value)
        if isinstance(value, Secret) or (is_free and is_secret_key(name) and value):
            return REDACTED
        return self._scalar(str(value) if isinstance(value, Path) else value)

    def _scalar(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if variable := self._variables.get(str(value)):
            return f"${{{variable}}}"
        if isinstance(value, str):
            for filled in self._long:
                value = value.replace(filled, f"${{{self._variables[filled]}}}")
        return value


def _is_long(value: str) -> bool:
    """Tell whether a value is so long that it is no part of other words by chance."""
    return len(value) >= 6
