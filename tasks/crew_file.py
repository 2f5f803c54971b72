"""The file of a crew: its form, its layers, and each fault with its line.

folder: .                     # where all roles run; default: that of the file
environment: {LOG: debug}     # of all roles
planner: {command: ./plan}
workers: {count: 3, program: claude, permissions: edit, timeout: 30m}
integrator: {into: main, check: [make test]}
processes: {api: bus serve}   # further ones, kept running

Other layers may override parts of it; see `read_layers`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ..automation.config.files import read_bytes
from ..automation.config.validation import Settings, Validation, named, parsed
from ..automation.config.values import ConfigFaults, Fault
from ..automation.config.yaml_tree import Items, Map, Plain, is_null, parse, typed
from ..schema.directory.trust import trusted_owners
from ..schema.errors import InvalidInput
from ..schema.message.names import check_agent
from ..schema.message.times import parse_duration_ms
from .agent_program import MODES, PRESETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..schema.directory.trust import Owners

    #: Some settings of a crew, and what is wrong with the form of their file.
    Layer = tuple[Map, list[Fault]]

# The form of a crew file.

#: How many workers a crew has at most.
MAX_WORKERS = 64

#: The name of a role is that of its log, too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_FORM_OF_NAMES = "letters, digits, - and _"


def _words(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("write a text")
    return text


def _value(value: Any) -> Any:
    if isinstance(value, Items | Map) or is_null(value) or "\0" in value:
        raise ValueError("write a text")
    return str(value)


def _line(value: Any) -> str:
    if not isinstance(typed(value), str):
        raise ValueError("write a text")
    return _words(value)


def _duration(text: str) -> str:
    try:
        parse_duration_ms(text)
    except InvalidInput:
        raise ValueError(f"{text!r} is no time; write one such as 90s or 30m") from None
    return text


def _agent(name: str) -> str:
    check_agent(name)
    return name


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _command(value: Any) -> tuple[str, ...]:
    """Return the words of a command: of a line, split as a shell does, or of a list."""
    try:
        listed = value if isinstance(value, Items) else shlex.split(_line(value))
        words = [_value(word) for word in listed]
    except ValueError:
        words = []
    if not words:
        raise ValueError("write a command: a text, or a list of words")
    return tuple(words)


def _setup(value: Any) -> str:
    """Return a line for the shell, for which the words of a list stand as they are."""
    try:
        return shlex.join(_command(value)) if isinstance(value, Items) else _line(value)
    except ValueError:
        raise ValueError("write a line for the shell, or a list of words") from None


def _one_of(*choices: str) -> Any:
    def check(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{text!r} is not known; write one of {', '.join(choices)}")
        return text

    return parsed(check)


Words = Annotated[str, parsed(_words)]
Command = Annotated[tuple[str, ...], BeforeValidator(_command)]
Wait = Annotated[str, parsed(_duration)]
Number = Annotated[int, Field(ge=1, le=MAX_WORKERS)]
RoleName = Annotated[str, named(NAME.pattern, _FORM_OF_NAMES)]
Value = Annotated[str, BeforeValidator(_value)]
Variable = Annotated[str, named(r"[A-Za-z_][A-Za-z0-9_]*", "the name of a variable")]


class PlannerSettings(Settings):
    """`planner`."""

    timeout: Wait | None = None
    command: Command


class WorkerSettings(Settings):
    """`workers`: a command or a program, run `count` times, or while jobs wait `max` times."""

    timeout: Wait | None = None
    review: Literal["none", "required", "other"] | None = None
    base: Words | None = None
    into: Words | None = None
    setup: Annotated[str, BeforeValidator(_setup)] | None = None
    program: Annotated[str, _one_of(*PRESETS)] | None = None
    permissions: Annotated[str, _one_of(*MODES)] | None = None
    command: Command | None = None
    count: Annotated[int, Field(ge=0, le=MAX_WORKERS)] = 1
    max: Number | None = None
    name: Annotated[RoleName, AfterValidator(_agent)] = "worker"


class IntegratorSettings(Settings):
    """`integrator`."""

    into: Words | None = None
    strategy: Literal["merge", "cherry-pick", "ff"] | None = None
    remote: Words | None = None
    propose: Words | None = None
    batch: Number | None = None
    check: tuple[Words, ...] = ()
    push: Annotated[bool, parsed(_flag)] = False


class CrewSettings(Settings):
    """All layers of a crew's settings, joined."""

    folder: Words = "."
    environment: Mapping[Variable, Value] = Field(default_factory=dict)
    planner: PlannerSettings | None = None
    workers: WorkerSettings | None = None
    integrator: IntegratorSettings | None = None
    processes: Mapping[RoleName, Command] = Field(default_factory=dict)


# The layers of a crew's settings: the last one that has a setting wins.
#
# crew.yaml the crew crew.PROFILE.yaml of the profile that
# BUS_CREW_PROFILE names crew.local.yaml of this machine BUS_CREW_… the
# environment: BUS_CREW_WORKERS_COUNT=3

#: The beginning of the variables of crews.
PREFIX = "BUS_CREW_"

#: The variable that names the profile.
PROFILE = f"{PREFIX}PROFILE"

#: Two settings of a role that say the same: the last layer that has one of them wins.
_EITHER = ("command", "program")


def read_layers(path: str, environ: Mapping[str, str], *, is_named: bool = True) -> list[Layer]:
    """Return the layers of a crew, the first one from its file.

    Args:
        path: of the file.
        environ: where variables are looked for.
        is_named: whether the user named the file: then its owner is trusted as well.

    Raises:
        InvalidInput: a file can't be read, or others may have written it, or there is none where
            one must be.
    """
    owners = trusted_owners(*([path] if is_named else []))
    begin, end = os.path.splitext(path)
    profile = environ.get(PROFILE)
    if profile and not NAME.fullmatch(profile):
        raise InvalidInput(f"{PROFILE} must be a name of {_FORM_OF_NAMES}")
    hints = {path: "write the crew into crew.yaml"}
    if profile:
        hints[f"{begin}.{profile}{end}"] = f"{PROFILE} names it"
    local = f"{begin}.local{end}"
    if os.path.lexists(local):
        hints[local] = "it is a broken link"
    layers = [parse(_text(file, owners, hint), file) for file, hint in hints.items()]
    return [*layers, _of_environment(environ)]


def _text(path: str, owners: Owners, hint: str) -> str:
    try:
        return read_bytes(path, owners).decode()
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {path!a}; {hint}") from error
    except OSError as error:
        raise InvalidInput(f"{path!a} can't be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path!a} is not UTF-8: {error.reason}") from error


def _of_environment(environ: Mapping[str, str]) -> Layer:
    """Return the settings that variables have, each in the place of its variable."""
    paths = dict(_variables())
    tree = Map()
    faults = []
    for variable in sorted(environ.keys() - {PROFILE}):
        if not variable.startswith(PREFIX):
            continue
        if variable not in paths:
            message = f"{variable} is no setting of a crew; one is {PREFIX}WORKERS_COUNT"
            faults.append(Fault("the environment", 0, "", message))
            continue
        setting = _setting_of(variable, environ[variable], paths[variable])
        tree = over(tree, setting)
    return tree, faults


def _variables() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the variables that there are, each with the path of its setting."""
    roles: dict[str, type[Settings]] = {
        "planner": PlannerSettings,
        "workers": WorkerSettings,
        "integrator": IntegratorSettings,
    }
    yield f"{PREFIX}FOLDER", ("folder",)
    for role, settings in roles.items():
        for name in settings.setting_names():
            yield f"{PREFIX}{role}_{name}".upper(), (role, name)


def _setting_of(variable: str, text: str, path: tuple[str, ...]) -> Map:
    """Return a map with the value of a variable: a list as in YAML, else its text."""
    listed = parse(f"value: {text}", variable)[0].get("value")
    value: Any = listed if isinstance(listed, Items) else Plain(text)
    for name in reversed(path):
        value = Map({name: value})
        value.at[name] = (variable, 0)
    assert isinstance(value, Map)
    return value


def over(under: Map, upper: Map) -> Map:
    """Return settings with those of another layer over them; maps are joined key by key."""
    joined = under.copy()
    for name in _EITHER if any(name in upper for name in _EITHER) else ():
        joined.pop(name, None)
    for name, value in upper.items():
        below = joined.get(name)
        are_maps = isinstance(below, Map) and isinstance(value, Map)
        joined[name] = over(below, value) if are_maps else value  # type: ignore[arg-type]
        joined.at[name] = upper.at[name]
    return joined


# The crew that they describe.


class CrewFaults(ConfigFaults):
    """The settings of a crew are refused as a whole; it says every fault."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.faults))


@dataclass(frozen=True, slots=True)
class Role:
    """One process of a crew.

    Attributes:
        name: of the role, of its log, and of a worker.
        argv: its command.
        is_worker: whether it is a worker of tasks.
        is_spare: whether it starts only when another worker is wanted.
    """

    name: str
    argv: tuple[str, ...]
    is_worker: bool = False
    is_spare: bool = False


@dataclass(frozen=True, slots=True)
class CrewFile:
    """A crew, as its file describes it.

    Attributes:
        path: of the file.
        folder: where all roles run.
        environment: variables of all roles besides those of the crew.
        roles: the processes.
    """

    path: str
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[Role, ...] = ()


def read_crew(path: str, layers: Sequence[Layer], bus: Sequence[str]) -> CrewFile:
    """Return the crew that the layers of its settings describe.

    Args:
        path: of its file, in whose folder the roles run, unless a setting says otherwise.
        layers: the last one that has a setting wins.
        bus: the command `bus`, with its options, by which roles are started.

    Raises:
        CrewFaults: something in it is wrong.
    """
    path = os.path.abspath(path)
    tree = Map()
    for layer, _ in layers:
        tree = over(tree, layer)
    validation = Validation(tree, path)
    validation.faults += [fault for _, faults in layers for fault in faults]
    workers = validation.at("workers")
    if isinstance(workers, Map) and sum(name in workers for name in _EITHER) != 1:
        validation.refuse("write one of command and program", "workers")
    crew = validation.model(CrewSettings)
    roles = tuple(_roles(crew, list(bus))) if crew else ()
    if crew and not validation.faults:
        _check_together(validation, crew, roles)
    if crew is None or validation.faults:
        raise CrewFaults(validation.faults)
    folder = os.path.normpath(os.path.join(os.path.dirname(path), crew.folder))
    return CrewFile(path, folder, crew.environment, roles)


def _check_together(validation: Validation, crew: CrewSettings, roles: Sequence[Role]) -> None:
    """Note the faults between settings that are valid by themselves."""
    workers = crew.workers
    if workers and workers.max is not None and workers.max < workers.count:
        validation.refuse("write at least workers.count", "workers", "max")
    if workers and workers.permissions and not workers.program:
        validation.refuse("it goes with workers.program", "workers", "permissions")
    names = [role.name for role in roles]
    for name in sorted({name for name in names if names.count(name) > 1}):
        validation.refuse(
            f"two roles have the name {name!r}; give workers or a process another one"
        )
    if not names:
        validation.refuse("there is no role; write planner, workers, integrator or processes")


def _roles(crew: CrewSettings, bus: list[str]) -> Iterable[Role]:
    if (planner := crew.planner) is not None:
        argv = [*bus, "task", "plan", *_options(planner), "--", *planner.command]
        yield Role("planner", tuple(argv))
    if (workers := crew.workers) is not None:
        words = [*_options(workers, "count", "max", "name"), *_ending(workers.command)]
        for number in range(1, (workers.max or workers.count) + 1):
            worker = f"{workers.name}-{number}"
            argv = [*bus, "task", "work", "--worker", worker, *words]
            is_spare = number > workers.count
            yield Role(worker, tuple(argv), is_worker=True, is_spare=is_spare)
    if (integrator := crew.integrator) is not None:
        argv = [*bus, "integrate", "--agent", "integrator"]
        argv += _options(integrator, "check", "push")
        argv += [word for check in integrator.check for word in ("--check", check)]
        yield Role("integrator", tuple(argv + ["--push"] * integrator.push))
    for name, command in crew.processes.items():
        yield Role(name, command)


def _options(settings: Settings, *others: str) -> list[str]:
    """Return settings as options of a command, without its command and others."""
    values = settings.model_dump(exclude_none=True, exclude={"command", *others})
    return [word for name, value in values.items() for word in (f"--{name}", f"{value}")]


def _ending(command: tuple[str, ...] | None) -> tuple[str, ...]:
    return ("--", *command) if command else ()
