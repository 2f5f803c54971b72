"""Checking parts of a tree by their shapes, with every fault in words and with its place."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from ..faults import Fault, near
from ..files.yaml_tree import Items, Map, is_null, place_of
from ..records import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..files.yaml_tree import Spot, Tree

Shaped = TypeVar("Shaped", bound=BaseModel)
Kind = TypeVar("Kind", Map, Items)

#: Where something stands, from the top of a configuration on.
Path = tuple[str | int, ...]

#: Keys that were, or are elsewhere, and what to write instead.
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

#: The faults of pydantic in the words of ours; {} are its facts.
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
    "string_too_short": "write a word",
    "string_type": "write a word",
    "too_short": "write at least one",
    "literal_error": "write {expected}",
}


def dotted(path: Path) -> str:
    """Return a path as it is shown: ``plugins.echo.schedules[0].every``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def known_keys(shape: type[BaseModel]) -> list[str]:
    """Return the keys that a shape has."""
    return [field.alias or name for name, field in shape.model_fields.items()]


class Validation:
    """One run over a tree, which collects faults and warnings.

    Args:
        tree: the configuration.
        file: the file that has what stands nowhere.
    """

    def __init__(self, tree: Map, file: str) -> None:
        self.tree = tree
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self._top: Spot = (file, 0)

    def place(self, *path: str | int) -> Place:
        """Return where the value of a path stands."""
        return Place(*place_of(self.tree, path, self._top), dotted(path))

    def refuse(self, message: str, *path: str | int) -> None:
        """Note a fault of the value of a path."""
        self.faults.append(self.place(*path).fault(message))

    def warn(self, message: str, *path: str | int) -> None:
        """Note what an operator should hear of the value of a path."""
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

    def keys(self, known: tuple[str, ...], *path: str | int) -> None:
        """Refuse the keys of a map that are not known; `x-` is anybody's at the top."""
        for key in self.map(*path):
            if key not in known and not (not path and key.startswith("x-")):
                self.refuse(_unknown(key, list(known)), *path, key)

    def shaped(self, shape: type[Shaped], *path: str | int) -> Shaped | None:
        """Return the value of a path in its shape, or None where it has faults, which are noted."""
        found = self.at(*path)
        try:
            return shape.model_validate(Map() if found is None else found)
        except ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                inner = tuple(part for part in each["loc"] if part != "[key]")
                self.refuse(self._message(each, shape, (*path, *inner)), *path, *inner)
        return None

    def _message(self, error: Any, shape: type[BaseModel], path: Path) -> str:
        kind, facts = error["type"], error.get("ctx", {})
        if kind == "extra_forbidden":
            return _unknown(str(path[-1]), known_keys(_shape_at(shape, error["loc"][:-1])))
        if kind == "missing":
            return f"{path[-1]!r} is missing"
        if kind == "value_error":
            return str(facts["error"])
        if kind == "too_short" and isinstance(self.at(*path), str):
            return "write a word"
        if kind == "literal_error" and isinstance(given := self.at(*path), str):
            return f"{given!r} is not known; write {facts['expected']}"
        return _WORDS.get(kind, str(error["msg"]).lower()).format(**facts)

    def _of_kind(self, kind: type[Kind], name: str, path: Path) -> Kind:
        found = self.at(*path)
        if found is not None and not isinstance(found, kind):
            self.refuse(f"write {name}", *path)
        return found if isinstance(found, kind) else kind()


def _unknown(key: str, known: list[str]) -> str:
    if key in _OTHER_FORMS:
        return f"{key!r} is not a setting here: {_OTHER_FORMS[key]}"
    return f"{key!r} is not a setting here{near(key, known)}"


def _shape_at(shape: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel]:
    """Return the shape in which a place of another one stands."""
    for part in loc:
        for name, field in shape.model_fields.items():
            if part == (field.alias or name):
                shape = _shape_of(field.annotation) or shape
    return shape


def _shape_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = map(_shape_of, getattr(annotation, "__args__", ()))
    return next(filter(None, inner), None)
