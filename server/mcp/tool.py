"""What a tool is: its name, what it takes and gives, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from ..principals import Scope
from .session import Session


class Arguments(BaseModel):
    """What an agent gives to a tool: nothing in it is ignored."""

    # Agents give a seq as a number where an id, which is text, would do as well.
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


@dataclass(frozen=True)
class Reply:
    """What a tool gives back.

    Attributes:
        record: its structured output.
        text: the same for reading, short.
        refused: whether what was asked for was not done.
    """

    record: BaseModel
    text: str
    refused: bool = False


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name, about: what the agent reads of it.
        takes, gives: its arguments and its structured output.
        act: does it; may block.
        scope: what a token must be good for.
        only_reads: whether it changes nothing that another agent sees.
    """

    name: str
    about: str
    takes: type[Arguments]
    gives: type[BaseModel]
    act: Callable[[Session, Any], Reply]
    scope: Scope = Scope.MESSAGES_RW
    only_reads: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return compact(self.takes.model_json_schema())

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its structured output; what is always there, the output shows."""
        schema = self.gives.model_json_schema(mode="serialization")
        return compact(schema, noise=(*_NOISE, "required"))


#: What is left out of schemas.
_NOISE = ("$defs", "title", "additionalProperties")


def compact(schema: dict[str, Any], noise: Sequence[str] = _NOISE) -> dict[str, Any]:
    """Return a JSON Schema without what tells an agent nothing, which it pays for with each word.

    What is defined once stands where it is used. What may be left out is never null here, so
    `null` is no type of it. That unknown arguments are refused, the refusal says.
    """
    return _compact(schema, schema.get("$defs", {}), noise)


def _compact(
    schema: dict[str, Any], defined: dict[str, Any], noise: Sequence[str]
) -> dict[str, Any]:
    if "$ref" in schema:
        return _compact(defined[schema["$ref"].rpartition("/")[2]], defined, noise)
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _compact(inner, defined, noise) for name, inner in value.items()}
        elif key == "items":
            made[key] = _compact(value, defined, noise)
        elif key == "anyOf":
            (left,) = (each for each in value if each != {"type": "null"})
            made |= _compact(left, defined, noise)
        elif not (key in noise or (key == "default" and not value)):
            made[key] = value
    if "const" in made or "enum" in made:
        made.pop("type", None)
    if "properties" in made:
        made.pop("description", None)  # the docstring of the class
    return made
