"""Manifests of plugins: the description of a plugin, its commands, and its settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..config.flows import Frozen
from ..config.plugin_settings import frozen
from ..config.reading import read_bytes
from ..config.shapes import Free, Id, Name, Object, Shape, Template, Text, Validation
from ..config.yaml_tree import Items, Map, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ...schema.directory.trust import Owners
    from ..config.faults import Fault

#: The one protocol that is spoken.
PROTOCOL = 2

#: How a state is made of a fact.
View = Literal["mirror_object", "merge_object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCommand:
    """A command of a plugin.

    Attributes:
        type: `read` changes nothing outside of the plugin, `write` may.
        idempotent, retry_safe: its author's promise about repetitions; None: no promise.
        input_schema, output_schema, values: what it takes and gives, for readers.
    """

    name: str
    type: Literal["read", "write"] = "write"
    description: str = ""
    idempotent: bool | None = None
    retry_safe: bool | None = None
    input_schema: object = None
    output_schema: object = None
    values: object = None


@dataclass(frozen=True, slots=True)
class FactOutput:
    """The state updates of a command are a fact of this type, and the plugin's state is the newest.

    Attributes:
        command: whose they are.
        fact_type: the type of the fact.
        compatibility_view: how the state is made of it: `mirror_object` takes it whole,
            `merge_object` sets its keys, and leaves those of other commands.
    """

    command: str
    fact_type: str
    compatibility_view: View = "mirror_object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A plugin's description of itself.

    Attributes:
        entrypoint: its program, as a path from its folder on.
        concurrency_safe: whether several of its jobs may run at a time.
        working_directory: where it runs: in its own folder, or where the service was started.
        required, optional: the keys of its `config`.
    """

    name: str
    version: str
    entrypoint: str
    description: str = ""
    protocol: int = PROTOCOL
    concurrency_safe: bool = True
    working_directory: Literal["plugin", "service"] = "service"
    commands: Mapping[str, PluginCommand] = field(default_factory=Frozen)
    fact_outputs: tuple[FactOutput, ...] = ()
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


class _CommandShape(Shape):
    name: Id
    type: Literal["read", "write"] = "write"
    description: Template = ""
    idempotent: bool | None = None
    retry_safe: bool | None = None
    input_schema: Free = None
    output_schema: Free = None
    values: Object | None = None


class _WhenShape(Shape):
    command: Id


class _FactShape(Shape):
    when: _WhenShape
    from_: Annotated[Literal["state_updates"], Field(alias="from")]
    fact_type: Text
    compatibility_view: View = "mirror_object"


class _KeysShape(Shape):
    required: tuple[Text, ...] = ()
    optional: tuple[Text, ...] = ()


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class _ManifestShape(Shape):
    manifest_spec: Literal["ductile.plugin"]
    manifest_version: Annotated[Literal[1], BeforeValidator(_number)]
    name: Name
    version: Text
    protocol: Annotated[Literal[2], BeforeValidator(_number)]
    entrypoint: Text
    description: Template = ""
    concurrency_safe: bool = True
    working_directory: Literal["plugin", "service"] = "service"
    commands: Any
    fact_outputs: tuple[_FactShape, ...] = ()
    config_keys: _KeysShape = _KeysShape()


def read_manifest(path: Path, owners: Owners | None = None) -> tuple[Manifest | None, list[Fault]]:
    """Return the manifest of a file and its faults; it is None where there are any.

    Args:
        path: of the file.
        owners: the users whose files are trusted; None: no check.
    """
    try:
        tree, faults = parse(read_bytes(path, owners).decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        validation = Validation(Map(), str(path))
        validation.refuse(f"can't read it: {error}")
        return None, validation.faults
    validation = Validation(tree, str(path))
    validation.faults += faults
    commands = _commands(validation)
    shape = validation.shaped(_ManifestShape)
    if validation.at("protocol") == "1":
        message = "plugins of protocol 1 are not run; write protocol: 2, and commands as a map"
        validation.refuse(f"{message}: poll: {{type: read}}", "protocol")
    facts = _fact_outputs(validation, shape.fact_outputs if shape else (), commands)
    if shape is None or validation.faults:
        return None, validation.faults
    manifest = Manifest(
        name=shape.name,
        version=shape.version,
        entrypoint=shape.entrypoint,
        description=shape.description,
        concurrency_safe=shape.concurrency_safe,
        working_directory=shape.working_directory,
        commands=Frozen(commands),
        fact_outputs=facts,
        required=shape.config_keys.required,
        optional=shape.config_keys.optional,
    )
    return manifest, []


def name_in(path: Path, owners: Owners | None = None) -> str | None:
    """Return the name in a manifest that has faults, or None where none can be read."""
    try:
        name = parse(read_bytes(path, owners).decode("utf-8"), str(path))[0].get("name")
    except (OSError, UnicodeDecodeError):
        return None
    return name if isinstance(name, str) else None


def _commands(validation: Validation) -> dict[str, PluginCommand]:
    """Return the commands: a map of them by name, or a list of maps that have their names."""
    tree = validation.at("commands")
    commands: dict[str, PluginCommand] = {}
    if isinstance(tree, Items):
        for number, entry in enumerate(tree):
            path = ("commands", number)
            if not isinstance(entry, Map):
                message = f"write commands as a map: {entry}: {{type: read}}, or {{type: write}}"
                validation.refuse(message, *path)
            elif (shape := validation.shaped(_CommandShape, *path)) is not None:
                if shape.name in commands:
                    validation.refuse(f"{shape.name!r} stands twice", *path)
                commands[shape.name] = _command(shape)
    elif isinstance(tree, Map):
        for name, entry in tree.items():
            if isinstance(entry, Map) and "name" not in entry:
                entry["name"], entry.at["name"] = name, tree.at[name]
            elif not isinstance(entry, Map):
                tree[name] = entry = Map({"name": name})
                entry.at["name"] = tree.at[name]
            elif entry["name"] != name:
                validation.refuse("this is another command's name", "commands", name, "name")
            if (shape := validation.shaped(_CommandShape, "commands", name)) is not None:
                commands[name] = _command(shape)
    if tree is not None and not commands and not validation.faults:
        validation.refuse("write at least one: commands: {poll: {type: read}}", "commands")
    return commands


def _command(shape: _CommandShape) -> PluginCommand:
    return PluginCommand(**{name: frozen(value) for name, value in shape})


def _fact_outputs(
    validation: Validation, shapes: tuple[_FactShape, ...], commands: Mapping[str, PluginCommand]
) -> tuple[FactOutput, ...]:
    outputs: dict[str, FactOutput] = {}
    for number, shape in enumerate(shapes):
        command, path = shape.when.command, ("fact_outputs", number, "when", "command")
        if command not in commands:
            validation.refuse(f"{command!r} is none of its commands", *path)
        if command in outputs:
            validation.refuse(f"{command!r} has a rule already", *path)
        outputs[command] = FactOutput(command, shape.fact_type, shape.compatibility_view)
    return tuple(outputs.values())
