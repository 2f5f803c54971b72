"""A tool: its name, arguments, result and function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator

from ...records import former_names
from ..session import Session
from .quoted_messages import QUOTED, FramedMessage


class Arguments(BaseModel):
    """The arguments of a tool; unknown ones are refused.

    Clients with strict schemas send every argument: an optional one of null, "" or 0 is absent.

    Attributes:
        meant: the optional arguments of which "" and 0 are values like others.
    """

    meant: ClassVar[frozenset[str]] = frozenset()

    # Agents give a seq as a number where an id, which is text, would do as well.
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_absent(cls, given: dict[str, Any]) -> dict[str, Any]:
        optional = {
            called: name
            for name, field in cls.model_fields.items()
            if not field.is_required()
            for called in (name, *former_names(field))
        }
        return {
            called: value
            for called, value in given.items()
            if called not in optional
            or not (value is None or (value in ("", 0) and optional[called] not in cls.meant))
        }


class Result(BaseModel):
    """The structured output of a tool: all that its text says, since many agents see one of both.

    Attributes:
        next: what to do next.
        warning: what the agent might not expect.
        notice: how to take the words of others in it.
    """

    next: str | None = None
    warning: str | None = None
    notice: str | None = None

    def lines(self, head: str, *quoted: str) -> str:
        """Return the text of this result.

        Args:
            head: what happened, in a line of the bus.
            quoted: the words of others, each line of them behind a bar.
        """
        warning = f"Warning: {self.warning}." if self.warning else None
        notice = QUOTED if self.notice else None
        said = [each for each in (head, warning, self.next, notice) if each]
        return "\n".join([" ".join(said), *quoted])


@dataclass(frozen=True)
class Reply:
    """The result of a tool call.

    Attributes:
        record: its structured output.
        text: the same as short text.
        refused: whether the call was refused.
    """

    record: Result
    text: str
    refused: bool = False


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name, about: its name and description for agents.
        takes, gives: its arguments and its structured output.
        act: does it; may block.
        only_reads: whether it leaves everything that other agents see unchanged.
        spells: what its schema says for all tools: the fields of every result, those of a message.
        gives_as: the tool whose schema says what this one gives too, or None.
    """

    name: str
    about: str
    takes: type[Arguments]
    gives: type[Result]
    act: Callable[[Session, Any], Reply]
    only_reads: bool = False
    spells: tuple[type[BaseModel], ...] = ()
    gives_as: str | None = None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return compact(self.takes.model_json_schema())

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The JSON Schema of its structured output, without the list of required fields."""
        if self.gives_as is not None:
            return {"type": "object"}
        schema = self.gives.model_json_schema(mode="serialization")
        if FramedMessage not in self.spells and "FramedMessage" in schema.get("$defs", {}):
            schema["$defs"]["FramedMessage"] = {"type": "object"}
        if Result not in self.spells:
            for name in Result.model_fields:
                del schema["properties"][name]
        return compact(schema, noise=(*_NOISE, "required"))


#: The keywords that are left out of schemas.
_NOISE = ("$defs", "title", "additionalProperties")


def compact(schema: dict[str, Any], noise: Sequence[str] = _NOISE) -> dict[str, Any]:
    """Return a JSON Schema without the keywords that tell an agent nothing but cost context.

    Definitions are inlined, each where it comes first. `null` is dropped from types, since no
    result has one, and so is `additionalProperties`: the refusal of an unknown argument says it.
    """
    return _compact(schema, dict(schema.get("$defs", {})), noise)


def _compact(
    schema: dict[str, Any], defined: dict[str, Any], noise: Sequence[str]
) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _compact(defined.pop(name, {"type": "object"}), defined, noise)
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _compact(inner, defined, noise) for name, inner in value.items()}
        elif key == "items":
            made[key] = _compact(value, defined, noise)
        elif key == "anyOf":
            left = [_compact(each, defined, noise) for each in value if each != {"type": "null"}]
            made |= left[0] if len(left) == 1 else {"anyOf": left}
        elif not (key in noise or (key == "default" and not value)):
            made[key] = value
    if "const" in made or "enum" in made:
        made.pop("type", None)
    if "properties" in made:
        made.pop("description", None)  # the docstring of the class
    return made
