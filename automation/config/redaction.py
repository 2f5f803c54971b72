"""The part of a configuration that may be shown."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

from .models import Condition
from .validation import Settings
from .values import Secret, shares_piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .models import Config

REDACTED = "[REDACTED]"

#: The settings whose inner names are no settings of ours.
_FREE = ("config", "payload")

#: Fields that are no settings.
_NOT_SHOWN = ("variables", "unfilled", "owners")

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
    from a variable is shown as it stands in the files, also where it is a number by now.
    """
    variables = {secret.reveal(): name for name, secret in config.variables.items()}
    return _Shown(variables, config.unfilled).record(config, "")


class _Shown:
    """Shows values, and knows which of them come from variables."""

    def __init__(self, variables: Mapping[str, str], unfilled: Mapping[str, str]) -> None:
        self._variables = variables
        self._unfilled = unfilled
        self._long = sorted(filter(_is_long, variables), key=len, reverse=True)

    def record(self, record: Any, path: str) -> dict[str, Any]:
        """Return a record that stands under a path of the configuration."""
        place = getattr(record, "place", None)
        if place and place.path and not place.path.startswith(f"{path}."):  # of a part of it
            path = place.path
        above = f"{path}." if path else ""
        keys = {name: f"{above}{key}" for name, key in _keys_of(record).items()}
        is_elsewhere = self._has_other(path, set(keys.values()))
        fields_shown = {}
        for name, inner in keys.items():
            value = getattr(record, name)
            is_derived = path != "" and self._has_under(path) and self._is_derived(name, value)
            if (is_derived and inner not in self._unfilled) or (
                is_elsewhere and name != "name" and not self._is_whole(value)
            ):
                fields_shown[name.rstrip("_")] = self._unfilled.get(inner, REDACTED)
            else:
                fields_shown[name.rstrip("_")] = self._value(value, name, inner)
        return fields_shown

    def _has_under(self, path: str) -> bool:
        inner = (f"{path}.", f"{path}[")
        return any(unfilled == path or unfilled.startswith(inner) for unfilled in self._unfilled)

    def _has_other(self, path: str, field_paths: set[str]) -> bool:
        """Whether a setting of a record came from a variable, and is none of its fields."""
        ends = tuple(f"{field_path}{end}" for field_path in field_paths for end in (".", "["))
        return bool(path) and any(
            unfilled.startswith(f"{path}.")
            and unfilled not in field_paths
            and not unfilled.startswith(ends)
            for unfilled in self._unfilled
        )

    def _is_derived(self, name: str, value: Any) -> bool:
        """Whether a field may be made of a value that came from a variable: it shows a part."""
        if name == "hash":
            return True
        if not isinstance(value, str) or not value or name == "name":
            return False
        return any(
            value in variable or shares_piece(value, variable) for variable in self._variables
        )

    @staticmethod
    def _is_whole(value: Any) -> bool:
        """Whether a value has parts, each of which is looked at by itself."""
        return value is None or isinstance(value, dict | list | tuple) or _is_record(value)

    def _value(self, value: Any, name: str, path: str, is_free: bool = False) -> Any:
        """Return a value as it is shown; in a free one, the names of settings are the author's."""
        has_parts = isinstance(value, dict | list | tuple)
        is_secret = is_free and is_secret_key(name) and value and not has_parts
        if isinstance(value, Secret) or is_secret:
            return REDACTED
        if path in self._unfilled:
            return self._unfilled[path]
        return self._inner(value, name, path, is_free)

    def _inner(self, value: Any, name: str, path: str, is_free: bool) -> Any:
        if _is_record(value):
            return self.record(value, path)
        if isinstance(value, dict):
            free = is_free or name in _FREE
            return {
                str(key): self._value(member, str(key), f"{path}.{key}", free)
                for key, member in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self._value(member, name, f"{path}[{number}]", is_free)
                for number, member in enumerate(value)
            ]
        if isinstance(value, frozenset):
            return REDACTED if self._has_under(path) else sorted(value)
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


def _is_record(value: Any) -> bool:
    return isinstance(value, Settings) or is_dataclass(value)


def _keys_of(record: Any) -> dict[str, str]:
    """Return the key of each field of a record that is shown."""
    if isinstance(record, Settings):
        settings = type(record).model_fields.items()
        keys = {name: str(field.alias) for name, field in settings if not field.exclude}
        # A condition has one of several forms.
        chosen = record.model_fields_set if isinstance(record, Condition) else keys.keys()
        return {name: key for name, key in keys.items() if name in chosen}
    names = [field.name for field in fields(record)]
    return {name: name for name in names if name not in _NOT_SHOWN}


def _is_long(value: str) -> bool:
    """Tell whether a value is so long that it is no part of other words by chance."""
    return len(value) >= 6
