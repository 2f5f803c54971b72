"""A tool: its name, arguments, result and function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from ..session import Session
from .quoted_messages import QUOTED, FramedMessage


class Arguments(BaseModel):
    """The arguments of a tool; unknown ones are refused.

    Clients differ in how they send what a model means, so one rule holds for all tools:

    - null is absent, and so are, of optional arguments, "" and a number of 0 that can't be meant.
    - Where a list is declared, a text is its one item, or the list that it holds as JSON.
    - A number is a text where a seq does as well; elsewhere nothing is made of a value of another
      kind, but for the digits of a number. What takes any value is taken as it is.

    Attributes:
        meant: the optional arguments of which "" is a value, or an error.
    """

    meant: ClassVar[frozenset[str]] = frozenset()

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_absent(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in given.items()
            if name not in cls.model_fields or not cls._is_absent(name, value)
        }

    @classmethod
    def _is_absent(cls, name: str, value: object) -> bool:
        if value is None:
            return True
        if cls.model_fields[name].is_required():
            return False
        if value == "":
            return name not in cls.meant
        is_nought = type(value) in (int, float) and value == 0
        return is_nought and name != _WAIT and not {int, float}.isdisjoint(kinds_of(cls, name))

    @field_validator("*", mode="before")
    @classmethod
    def _of_its_kind(cls, value: Any, about: ValidationInfo) -> Any:
        name = str(about.field_name)
        kinds = kinds_of(cls, name)
        if Any in kinds:
            return value
        if type(value) is bool and bool not in kinds:
            raise _wrong(kinds)
        if type(value) in (int, float) and kinds.isdisjoint((int, float, bool)):
            if name in _SEQ_OR_ID and (type(value) is int or value.is_integer()):
                return str(int(value))
            raise _wrong(kinds)
        return listed(value) if list in kinds and type(value) is str else value


#: The argument of which 0 is a value.
_WAIT = "wait_s"

#: The texts for which a seq does as well, or that look like one.
_SEQ_OR_ID = frozenset({"in_reply_to", "conversation", "cursor"})

#: The right forms of an argument, by its kinds.
_MUST_BE = {
    list: "a list",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Literal: "one of the words of its schema",
}


def kinds_of(takes: type[Arguments], name: str) -> frozenset[Any]:
    """Return the kinds of values that an argument is declared to take."""
    return frozenset(_kinds(takes.model_fields[name].annotation))


def _kinds(declared: Any) -> Iterator[Any]:
    origin = get_origin(declared)
    if origin in (Union, UnionType):
        for each in get_args(declared):
            yield from _kinds(each)
    elif declared is not NoneType:
        yield origin or declared


def _wrong(kinds: Collection[Any]) -> PydanticCustomError:
    what = " or ".join(said for kind, said in _MUST_BE.items() if kind in kinds)
    return PydanticCustomError("kind", "it must be {what}", {"what": what or "of another kind"})


def listed(text: str) -> list[Any]:
    """Return the list that a text holds as JSON, or a list of the text."""
    if text.lstrip().startswith("["):
        with suppress(ValueError):
            held = orjson.loads(text)
            if type(held) is list:
                return held
    return [text]


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
