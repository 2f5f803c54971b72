"""Manifests of plugins: the description of a plugin, its commands, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, SkipValidation

from ..config.files import read_bytes
from ..config.validation import Free, Id, Name, Object, Settings, Template, Text, Validation
from ..config.values import Frozen
from ..config.yaml_tree import Items, Map, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ...schema.directory.trust import Owners
    from ..config.values import Fault

#: The one protocol that is spoken.
PROTOCOL = 2

#: How a new fact becomes the plugin's state: in place of it, or merged into it.
View = Literal["mirror_object", "merge_object"]


class PluginCommand(Settings):
    """A command of a plugin.

    Attributes:
        type: `read` changes nothing outside of the plugin, `write` may.
        idempotent, retry_safe: its author's promise about repetitions; None: no promise.
        input_schema, output_schema, values: what it takes and gives, for readers.
    """

    name: Id
    type: Literal["read", "write"] = "write"
    description: Template = ""
    idempotent: bool | None = None
    retry_safe: bool | None = None
    input_schema: Free = None
    output_schema: Free = None
    values: Object | None = None


class When(Settings):
    """The command whose state updates a rule is for."""

    command: Id


class FactOutput(Settings):
    """A rule that records the state updates of a command as facts, which become the plugin's state.

    Attributes:
        when: the command.
        fact_type: the type of the facts.
        compatibility_view: what a new fact does to the state: `mirror_object` replaces the state,
            `merge_object` sets the fact's keys in it, and leaves those of other commands.
    """

    when: When
    from_: Literal["state_updates"]
    fact_type: Text
    compatibility_view: View = "mirror_object"

    @property
    def command(self) -> str:
        """The command whose state updates are recorded."""
        return self.when.command


class ConfigKeys(Settings):
    """The keys of a plugin's `config` that it asks for, and that it knows besides."""

    required: tuple[Text, ...] = ()
    optional: tuple[Text, ...] = ()


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


class Manifest(Settings):
    """A plugin's description of itself.

    Attributes:
        entrypoint: its program, as a path from its folder on.
        concurrency_safe: whether several of its jobs may run at a time.
        working_directory: where it runs: in its own folder, or where the service was started.
        commands: each is checked by itself.
    """

    manifest_spec: Literal["ductile.plugin"]
    manifest_version: Annotated[Literal[1], BeforeValidator(_number)]
    name: Name
    version: Text
    protocol: Annotated[Literal[2], BeforeValidator(_number)]
    entrypoint: Text
    description: Template = ""
    concurrency_safe: bool = True
    working_directory: Literal["plugin", "service"] = "service"
    commands: SkipValidation[Mapping[str, PluginCommand]]
    fact_outputs: tuple[FactOutput, ...] = ()
    config_keys: ConfigKeys = ConfigKeys()


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
    commands = _commands(validation)  # each by itself: one that is wrong hides no fault of others
    manifest = validation.model(Manifest)
    if validation.at("protocol") == "1":
        message = "plugins of protocol 1 are not run; write protocol: 2, and commands as a map"
        validation.refuse(f"{message}: poll: {{type: read}}", "protocol")
    if manifest is not None:
        _check_facts(validation, manifest.fact_outputs, commands)
    if manifest is None or validation.faults:
        return None, validation.faults
    return manifest.model_copy(update={"commands": Frozen(commands)}), []


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
        commands = _listed_commands(validation, tree)
    elif isinstance(tree, Map):
        commands = _mapped_commands(validation, tree)
    if tree is not None and not commands and not validation.faults:
        validation.refuse("write at least one: commands: {poll: {type: read}}", "commands")
    return commands


def _listed_commands(validation: Validation, items: Items) -> dict[str, PluginCommand]:
    commands: dict[str, PluginCommand] = {}
    for number, entry in enumerate(items):
        path = ("commands", number)
        if not isinstance(entry, Map):
            message = f"write commands as a map: {entry}: {{type: read}}, or {{type: write}}"
            validation.refuse(message, *path)
        elif (command := validation.model(PluginCommand, *path)) is not None:
            if command.name in commands:
                validation.refuse(f"{command.name!r} stands twice", *path)
            commands[command.name] = command
    return commands


def _mapped_commands(validation: Validation, tree: Map) -> dict[str, PluginCommand]:
    """Return the commands of a map by name; writes the name into each entry, as the model needs."""
    commands: dict[str, PluginCommand] = {}
    for name, entry in tree.items():
        settings = entry if isinstance(entry, Map) else Map()  # a command needs no settings
        tree[name] = settings
        if "name" not in settings:
            settings["name"], settings.at["name"] = name, tree.at[name]
        elif settings["name"] != name:
            validation.refuse("this is another command's name", "commands", name, "name")
        if (command := validation.model(PluginCommand, "commands", name)) is not None:
            commands[name] = command
    return commands


def _check_facts(
    validation: Validation, rules: tuple[FactOutput, ...], commands: Mapping[str, PluginCommand]
) -> None:
    for number, rule in enumerate(rules):
        path = ("fact_outputs", number, "when", "command")
        if rule.command not in commands:
            validation.refuse(f"{rule.command!r} is none of its commands", *path)
        if any(rule.command == earlier.command for earlier in rules[:number]):
            validation.refuse(f"{rule.command!r} has a rule already", *path)
