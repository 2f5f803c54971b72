"""What a tool is: its name, what it takes and gives, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict

from .session import Session


class Arguments(BaseModel):
    """What an agent gives to a tool: nothing in it is ignored."""

    model_config = ConfigDict(extra="forbid")


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
        waits: whether it may take long because it waits for others.
    """

    name: str
    about: str
    takes: type[Arguments]
    gives: type[BaseModel]
    act: Callable[[Session, Any], Reply]
    scope: str = "messages:rw"
    only_reads: bool = False
    waits: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return compact(self.takes.model_json_schema())

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its structured output."""
        return compact(self.gives.model_json_schema(mode="serialization"))


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON Schema without what tells an agent nothing, which it pays for with each word.

    What may be left out is never null here, so `null` is no type of it.
    """
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            made[key] = {name: compact(inner) for name, inner in value.items()}
        elif key == "items":
            made[key] = compact(value)
        elif key == "anyOf":
            left = [compact(each) for each in value if each != {"type": "null"}]
            made |= left[0] if len(left) == 1 else {"anyOf": left}
        elif not (key == "title" or (key == "default" and value in (None, "", 0, False))):
            made[key] = value
    if "properties" in made:
        made.pop("description", None)  # the docstring of the class
    return made
