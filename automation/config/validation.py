"""The check of a tree by models, and the types of the values that a model's fields may have.

A key that no model has is an error. Values of a file come as text, so each field says its type;
values that code gives have theirs already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Self, TypeVar
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticKnownError

from .value_forms import duration_or_zero_s, duration_s, named_zone, size_bytes
from .values import SWITCH, Fault, Frozen, SourceLocation, frozen, near
from .yaml_tree import Items, Map, is_null, place_of, typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .yaml_tree import Spot, Tree

Model = TypeVar("Model", bound="Settings")
Kind = TypeVar("Kind", Map, Items)

#: Where something stands, from the top of a configuration on.
TreePath = tuple[str | int, ...]

#: Keys that were renamed or belong elsewhere, and what to write instead.
_OTHER_FORMS = {
    "schedule": "write schedules, a list: schedules: [{every: 5m}]",
    "plugins_dir": "write plugin_roots, a list: plugin_roots: [DIR]",
    "secret": "write secret_ref: NAME, and the secret itself under that name in tokens",
    "api_key": "write api.auth.tokens: [{token: ${NAME}, scopes: ['*']}]",
    "relay": "events are not relayed between services here; let a plugin send a webhook",
    "instances": "events are not relayed between services here; let a plugin send a webhook",
    "remote_ingress": "events are not relayed between services here; take them as a webhook",
    "secrets": "there is no store of secrets; write ${NAME}, and name a file of variables in"
    " environment_vars.include",
    "vault": "there is no store of secrets; write ${NAME}, and name a file of variables in"
    " environment_vars.include",
}

#: Our wording of pydantic's errors; {} stand for the error's facts.
_WORDS = {
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "greater_than_equal": "write at least {ge}",
    "less_than_equal": "write at most {le}",
    "dict_type": "write a map",
    "model_type": "write a map",
    "list_type": "write a list",
    "tuple_type": "write a list",
    "frozen_set_type": "write a list",
    "string_too_short": "write a word",
    "too_short": "write a word",
    "string_type": "write a word",
    "literal_error": "write {expected}",
}


def dotted(path: TreePath) -> str:
    """Return a path as it is shown: ``plugins.echo.schedules[0].every``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class Validation:
    """One run over a tree, which collects faults and warnings.

    Args:
        tree: the configuration.
        file: the file that faults without a place are reported for.
    """

    def __init__(self, tree: Map, file: str) -> None:
        self.tree = tree
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._top: Spot = (file, 0)

    def place(self, *path: str | int) -> SourceLocation:
        """Return where the value of a path stands."""
        return SourceLocation(*place_of(self.tree, path, self._top), dotted(path))

    def refuse(self, message: str, *path: str | int) -> None:
        """Note a fault of the value of a path."""
        self.faults.append(self.place(*path).fault(message))

    def warn(self, message: str, *path: str | int) -> None:
        """Note a warning about the value at a path."""
        self.warnings.append(self.place(*path).fault(message))

    def at(self, *path: str | int) -> Tree | None:
        """Return the value of a path, None where there is none, or nothing in it."""
        tree: Tree | None = self.tree
        for part in path:
            if isinstance(tree, Map):
                tree = tree.get(str(part))
            else:
                inside = isinstance(tree, Items) and isinstance(part, int) and part < len(tree)
                tree = tree[part] if inside else None  # type: ignore[index]
        return None if tree is None or is_null(tree) else tree

    def map(self, *path: str | int) -> Map:
        """Return the map of a path, an empty one where there is none or something else."""
        return self._of_kind(Map, "a map", path)

    def list(self, *path: str | int) -> Items:
        """Return the list of a path, an empty one where there is none or something else."""
        return self._of_kind(Items, "a list", path)

    def keys(self, allowed: tuple[str, ...], *path: str | int) -> None:
        """Refuse unknown keys of a map; at the top, keys that begin with `x-` are allowed."""
        for key in self.map(*path):
            if key not in allowed and not (not path and key.startswith("x-")):
                self.refuse(_unknown(key, allowed), *path, key)

    def model(self, kind: type[Model], *path: str | int) -> Model | None:
        """Return the value of a path as a model, or None where it has faults, which are noted."""
        value = self.at(*path)
        try:
            model = kind.of_tree(Map() if value is None else value)
        except ValidationError as error:
            for detail in error.errors(include_url=False, include_input=False):
                inner = tuple(part for part in detail["loc"] if part != "[key]")
                self.refuse(self._message(detail, kind, (*path, *inner)), *path, *inner)
            return None
        has_place = "place" in kind.model_fields
        return model.model_copy(update={"place": self.place(*path)}) if has_place else model

    def _message(self, error: Any, model: type[Settings], path: TreePath) -> str:
        kind, facts = error["type"], error.get("ctx", {})
        if kind == "extra_forbidden":
            return _unknown(str(path[-1]), _model_at(model, error["loc"][:-1]).setting_names())
        if kind == "missing":
            return f"{path[-1]!r} is missing"
        if kind == "value_error":
            return str(facts["error"])
        if kind == "literal_error" and isinstance(value := self.at(*path), str):
            return f"{value!r} is not known; write {facts['expected']}"
        return _WORDS.get(kind, str(error["msg"]).lower()).format(**facts)

    def _of_kind(self, kind: type[Kind], name: str, path: TreePath) -> Kind:
        value = self.at(*path)
        if value is not None and not isinstance(value, kind):
            self.refuse(f"write {name}", *path)
        return value if isinstance(value, kind) else kind()


def _unknown(key: str, allowed: tuple[str, ...]) -> str:
    if key in _OTHER_FORMS:
        return f"{key!r} is not a setting here: {_OTHER_FORMS[key]}"
    return f"{key!r} is not a setting here{near(key, allowed)}"


def _model_at(model: type[Settings], loc: TreePath) -> type[Settings]:
    """Return the model of a place within another one."""
    for part in loc:
        for field in model.model_fields.values():
            if part == field.alias:
                model = _model_of(field.annotation) or model
    return model


def _model_of(annotation: Any) -> type[Settings] | None:
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation
    inner = map(_model_of, getattr(annotation, "__args__", ()))
    return next(filter(None, inner), None)


# Names of time zones.


@cache
def check_timezone(name: str) -> str:
    """Return the name of a time zone of the IANA database.

    Raises:
        ValueError: there is no such zone.
    """
    try:
        named_zone(name)
    except (
        KeyError,
        OSError,
        ValueError,
    ):  # what is no zone may name a folder, or leave the database
        raise ValueError(
            f"{name!r} is no time zone{_near(name)}; write one such as Australia/Sydney"
        ) from None
    return name


def _near(name: str) -> str:
    """Return the zones that a name may mean: a city alone, or a name with a mistake."""
    zones = sorted(available_timezones())
    of_city = [zone for zone in zones if zone.rpartition("/")[2].lower() == name.lower()]
    return near(of_city[0] if of_city else name, of_city or zones)


#: Names of plugins, pipelines and their like.
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_ID = r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}"


def _is_tree(value: Any) -> bool:
    return isinstance(value, str | Map | Items)


def _text(value: Any) -> Any:
    if isinstance(value, Map | Items):
        raise ValueError(f"write a word, not {'a map' if isinstance(value, Map) else 'a list'}")
    return str(value)


def _json(value: Any) -> Any:
    return frozen(typed(value) if _is_tree(value) else value)


def parsed(parse: Any) -> Any:
    """Return the check of a field whose value a function makes of its text."""
    return BeforeValidator(lambda value: parse(_text(value)) if _is_tree(value) else value)


def named(pattern: str, form: str) -> Any:
    """Return the check of a text that has to match a pattern, which `form` says in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r} has another form; write {form}")
        return text

    return parsed(check)


Text = Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1)]
Name = Annotated[str, named(_NAME, "letters, digits, _ and -")]
Id = Annotated[str, named(_ID, "letters, digits, _, -, . and :")]
Target = Annotated[str, named(rf"{_NAME}(\.{_ID})?", "PLUGIN or PLUGIN.COMMAND")]
#: Whose events they are: of a plugin, or of conditions.
Source = Annotated[str, named(rf"{_NAME}|{re.escape(SWITCH)}", f"PLUGIN, or {SWITCH}")]
UrlPath = Annotated[str, named(r"/[A-Za-z0-9._~/-]*", "/PATH")]
Header = Annotated[str, named(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", "the name of a header")]
TimeZone = Annotated[Text, AfterValidator(check_timezone)]
Duration = Annotated[float, parsed(duration_s)]
Pause = Annotated[float, parsed(duration_or_zero_s)]
Size = Annotated[int, parsed(size_bytes)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Free = Annotated[Any, BeforeValidator(_json)]
Object = Annotated[Mapping[str, Any], BeforeValidator(_json), AfterValidator(Frozen)]
Template = Annotated[str, BeforeValidator(_text)]
Templates = Annotated[Mapping[str, Template], AfterValidator(Frozen)]


def _not_empty(value: Any) -> Any:
    if not value:
        raise ValueError("write at least one")
    return value


#: Marks a list with one entry at least. A `min_length` would not count those that have a fault.
NOT_EMPTY = AfterValidator(_not_empty)


def _derived(value: Any, info: ValidationInfo) -> Any:
    if info.context is not None:
        raise PydanticKnownError("extra_forbidden")
    return value


#: Marks a field that is no setting: it is made of others.
DERIVED = BeforeValidator(_derived)


def _key(name: str) -> str:
    return re.sub(r"_(s|ms|bytes|minute)$|_$", "", name)


class Settings(BaseModel):
    """A map with known keys; one that is empty counts as left out.

    A field whose name ends in a unit, or in the _ of a word of Python, has the rest as its key.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        alias_generator=_key,
        validate_by_name=True,
    )

    @classmethod
    def of_tree(cls, tree: Any) -> Self:
        """Return the model of a value of a file, which knows fields by their keys only.

        Raises:
            ValidationError: it has faults.
        """
        return cls.model_validate(tree, context=tree, by_alias=True, by_name=False)

    @classmethod
    def setting_names(cls) -> tuple[str, ...]:
        """Return the keys that a file may have."""
        fields = cls.model_fields.values()
        return tuple(str(field.alias) for field in fields if DERIVED not in field.metadata)

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, value: Any) -> Any:
        if isinstance(value, Map):
            return {key: entry for key, entry in value.items() if not is_null(entry)}
        return {} if isinstance(value, str) and is_null(value) else value

    def __eq__(self, other: object) -> bool:
        """Compare settings; where they stand in the files is no difference."""
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(tuple(self._values().values()))

    def _values(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "place"}
