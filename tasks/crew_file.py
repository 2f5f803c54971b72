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
import stat
from dataclasses import dataclass, field

from ..schema.bounded_read import read_at_most
from ..schema.directory.trust import open_checked, trusted_owners
from ..schema.errors import AckbusError, InvalidInput, shown
from ..schema.message.names import check_agent
from ..schema.message.times import parse_duration_ms
from .agent_program import MODES, PRESETS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..schema.directory.trust import Owners

    Check = Callable[[Any], str | None]

# The form of a crew file: for each field what its value must be.
#
# A check returns what a value must be, or None if the value is valid.

#: How many workers a crew has at most.
MAX_WORKERS = 64

#: The name of a role is that of its log, too.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

#: The name of a variable of the environment.
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _map(value: Any) -> str | None:
    return None if isinstance(value, dict) else "a map"


def text(value: Any) -> str | None:
    """Check a text, or a number that is meant as one."""
    is_text = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return None if is_text and "\0" not in str(value) else "text"


def _words(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() and "\0" not in value else "text"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def command(value: Any) -> str | None:
    """Check a command: a line for a shell's rules, or a list of words."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError:
        words = None
    is_command = isinstance(words, list) and words and not any(map(text, words))
    return None if is_command else "a command: a text, or a list of words"


def _setup(value: Any) -> str | None:
    is_setup = _words(value) is None if isinstance(value, str) else command(value) is None
    return None if is_setup else "a line for the shell, or a list of words"


def _commands(value: Any) -> str | None:
    is_list = isinstance(value, list) and not any(map(_words, value))
    return None if is_list else "a list of commands, each a text"


def _duration(value: Any) -> str | None:
    try:
        text(value) or parse_duration_ms(str(value))
    except InvalidInput:
        return "a time as 90s or 30m"
    return None if text(value) is None else "a time as 90s or 30m"


def _count(least: int) -> Check:
    def check(value: Any) -> str | None:
        is_count = isinstance(value, int) and not isinstance(value, bool)
        good = is_count and least <= value <= MAX_WORKERS
        return None if good else f"a whole number of {least} to {MAX_WORKERS}"

    return check


def _one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"one of {', '.join(choices)}"


def _name(value: Any) -> str | None:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        return "a name of letters, digits, - and _"
    try:
        check_agent(value)
    except InvalidInput:
        return "a name that an agent may have"
    return None


#: Of the file itself.
TOP: Mapping[str, Check] = {
    "folder": _words,
    "environment": _map,
    "planner": _map,
    "workers": _map,
    "integrator": _map,
    "processes": _map,
}

#: Of each role.
ROLES: Mapping[str, Mapping[str, Check]] = {
    "planner": {"command": command, "timeout": _duration},
    "workers": {
        "count": _count(0),
        "max": _count(1),
        "name": _name,
        "command": command,
        "program": _one_of(*PRESETS),
        "permissions": _one_of(*MODES),
        "timeout": _duration,
        "review": _one_of("none", "required", "other"),
        "base": _words,
        "into": _words,
        "setup": _setup,
    },
    "integrator": {
        "into": _words,
        "check": _commands,
        "strategy": _one_of("merge", "cherry-pick", "ff"),
        "push": _flag,
        "remote": _words,
        "propose": _words,
        "batch": _count(1),
    },
}

# The layers of a crew's settings: the last one that has a setting wins.
#
# crew.yaml the crew crew.PROFILE.yaml of the profile that
# BUS_CREW_PROFILE names crew.local.yaml of this machine BUS_CREW_… the
# environment: BUS_CREW_WORKERS_COUNT=3

#: The beginning of the variables of crews.
PREFIX = "BUS_CREW_"

#: The variable that names the profile.
PROFILE = f"{PREFIX}PROFILE"

#: How large a file of a crew may be, in bytes.
_MAX_BYTES = 1024 * 1024

#: Two settings of a role that say the same: the last layer that has one of them wins.
_EITHER = ("command", "program")


@dataclass(frozen=True, slots=True)
class Layer:
    """Some settings of a crew.

    Attributes:
        path: of their file, for faults.
        settings: a map; with the lines of its keys, where they come from a file.
        faults: where they can't be read: the line, and why.
    """

    path: str
    settings: Any
    faults: list[tuple[int, str]] = field(default_factory=list)


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
        raise InvalidInput(f"{PROFILE} must be a name of letters, digits, - and _")
    layers = [parsed(_text(path, owners, "write the crew into crew.yaml"), path)]
    if profile:
        of_profile = f"{begin}.{profile}{end}"
        layers.append(
            parsed(_text(of_profile, owners, f"{PROFILE} names it"), of_profile, is_whole=False)
        )
    local = f"{begin}.local{end}"
    if os.path.lexists(local):
        layers.append(parsed(_text(local, owners, "it is a broken link"), local, is_whole=False))
    layers.append(_of_environment(environ))
    return [layers[0], *(layer for layer in layers[1:] if layer.settings or layer.faults)]


def parsed(source: str, path: str, *, is_whole: bool = True) -> Layer:
    """Return the settings that the text of a file has.

    Args:
        source: the text.
        path: of the file, for faults.
        is_whole: whether a file without settings is a fault.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = YAML(typ="rt").load(source)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        return Layer(path, {}, [(line, f"this is no YAML: {error.problem or error.context}")])
    except (YAMLError, RecursionError, ValueError) as error:
        return Layer(path, {}, [(0, f"this is no YAML: {str(error).splitlines()[0]}")])
    if tree is None and not is_whole:
        return Layer(path, {})
    if not isinstance(tree, dict):
        message = "write a map of roles, as 'workers: {count: 2, command: ./work}'"
        return Layer(path, {}, [(1, message)])
    return Layer(path, tree)


def over(under: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with those of another layer over them; maps are joined key by key."""
    if any(name in upper for name in _EITHER):
        under = {name: value for name, value in under.items() if name not in _EITHER}
    joined = dict(under)
    for name, value in upper.items():
        below = joined.get(name)
        are_maps = isinstance(below, dict) and isinstance(value, dict)
        joined[name] = over(below, value) if are_maps else value  # type: ignore[arg-type]
    return joined


def _text(path: str, owners: Owners, hint: str) -> str:
    try:
        with open(open_checked(path, owners), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidInput(f"{path!a} is not a file")
            return read_at_most(file, ascii(path), _MAX_BYTES).decode()
    except FileNotFoundError as error:
        raise InvalidInput(f"there is no file {path!a}; {hint}") from error
    except OSError as error:
        raise InvalidInput(f"{path!a} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path!a} is not UTF-8: {error.reason}") from error


def _of_environment(environ: Mapping[str, str]) -> Layer:
    """Return the settings that variables have."""
    places = dict(_variables())
    settings: dict[str, Any] = {}
    faults = []
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable == PROFILE:
            continue
        place = places.get(variable)
        if place is None:
            faults.append((0, f"{variable} is no setting of a crew; one is {PREFIX}WORKERS_COUNT"))
            continue
        *within, name = place
        target = settings.setdefault(within[0], {}) if within else settings
        target[name] = _value(environ[variable])
    return Layer("the environment", settings, faults)


def _variables() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield f"{PREFIX}FOLDER", ("folder",)
    for role, settings in ROLES.items():
        for name in settings:
            yield f"{PREFIX}{role}_{name}".upper(), (role, name)


def _value(text: str) -> Any:
    """Return the value of a variable: a number, a flag or a list as in YAML, else its text."""
    read = parsed(f"value: {text}", shown(text))
    value = read.settings.get("value")
    is_value = isinstance(value, (bool, int, float, list)) and len(read.settings) == 1
    return value if is_value else text


class CrewFaults(AckbusError):
    """The file of a crew is refused as a whole.

    Attributes:
        faults: every fault, in order: the line, from 1, and what is wrong there.
    """

    exit_code = 78

    def __init__(self, path: str, faults: Iterable[tuple[int, str]]) -> None:
        self.faults = tuple(sorted(set(faults)))
        lines = [
            f"{path}:{line}: {message}" if line else f"{path}: {message}"
            for line, message in self.faults
        ]
        super().__init__("; ".join(lines))


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


def read_crew(layers: Sequence[Layer], bus: Sequence[str]) -> CrewFile:
    """Return the crew that the layers of its settings describe.

    Args:
        layers: the first is that of its file, whose folder is where the roles run, unless a
            setting says otherwise.
        bus: the command `bus`, with its options, by which roles are started.

    Raises:
        CrewFaults: something in it is wrong.
    """
    path = os.path.abspath(layers[0].path)
    tree = _checked(layers)
    folder = os.path.join(os.path.dirname(path), tree.get("folder") or ".")
    return CrewFile(
        path,
        os.path.normpath(folder),
        {name: str(value) for name, value in (tree.get("environment") or {}).items()},
        tuple(_roles(tree, list(bus))),
    )


# Checking --------------------------------------------------------------------------------------


def _checked(layers: Sequence[Layer]) -> Any:
    """Return the settings of all layers, after each has been checked, and then all together."""
    tree = layers[0].settings
    for layer in layers:
        faults = [*layer.faults, *_faults(layer.settings)]
        if len(layers) == 1 and not layer.faults:
            faults += _missing(tree)
        if faults:
            raise CrewFaults(layer.path, faults)
        if layer is not layers[0]:
            tree = over(tree, layer.settings)
    faults = [*_missing(tree)] or [*_together(tree)]
    if faults:
        raise CrewFaults(" with ".join(layer.path for layer in layers), faults)
    return tree


def _faults(tree: Any) -> Iterable[tuple[int, str]]:
    """Return what is wrong with the settings that a layer has."""
    yield from _of_map(tree, "", TOP)
    for name, checks in ROLES.items():
        if isinstance(tree.get(name), dict):
            yield from _of_map(tree[name], f"{name}.", checks)
    yield from _of_names(tree, "environment", VARIABLE, text)
    yield from _of_names(tree, "processes", NAME, command)


def _of_map(tree: Any, within: str, checks: Mapping[str, Check]) -> Iterable[tuple[int, str]]:
    for name, value in tree.items():
        check = checks.get(name) if isinstance(name, str) else None
        if check is None:
            names = ", ".join(checks)
            yield _line(tree, name), f"{within}{name} is not known; known here: {names}"
        elif expected := check(value):
            yield (
                _line(tree, name),
                f"{within}{name} must be {expected}, not {shown(_plain(value))}",
            )


def _missing(tree: Any) -> Iterable[tuple[int, str]]:
    """Return the roles that don't say what they run."""
    for role in ("planner", "workers"):
        if isinstance(tree.get(role), dict):
            present = [name for name in ("command", "program") if name in tree[role]]
            needed = "command" if role == "planner" else "command or program"
            if len(present) != 1:
                yield _line(tree, role), f"{role} needs one {needed}"


def _of_names(
    tree: Any, within: str, form: re.Pattern[str], check: Check
) -> Iterable[tuple[int, str]]:
    entries = tree.get(within)
    if not isinstance(entries, dict):
        return
    for name, value in entries.items():
        if not isinstance(name, str) or not form.fullmatch(name):
            yield _line(entries, name), f"{within}: {shown(_plain(name))} is no name"
        elif expected := check(value):
            message = f"{within}.{name} must be {expected}, not {shown(_plain(value))}"
            yield _line(entries, name), message


def _together(tree: Any) -> Iterable[tuple[int, str]]:
    """Return the faults between values that are valid by themselves."""
    workers = tree.get("workers") or {}
    if workers.get("max", MAX_WORKERS) < workers.get("count", 1):
        yield _line(workers, "max"), "workers.max must be at least workers.count"
    if "permissions" in workers and "program" not in workers:
        yield _line(workers, "permissions"), "workers.permissions goes with workers.program"
    names = [role.name for role in _roles(tree, ["bus"])]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield 0, f"two roles have the name {name!r}; give workers or a process another one"
    if not names:
        yield (
            int(hasattr(tree, "lc")),
            "there is no role; write planner, workers, integrator or processes",
        )


def _line(tree: Any, name: Any) -> int:
    """Return the line of a key; 0 if it has none, as in joined layers."""
    return int(tree.lc.key(name)[0]) + 1 if hasattr(tree, "lc") else 0


def _plain(value: Any) -> object:
    return dict(value) if isinstance(value, dict) else value


# Roles -----------------------------------------------------------------------------------------


#: The settings of an integrator that are options of its command.
_OF_INTEGRATOR = ("into", "strategy", "remote", "propose", "batch")


def _roles(tree: Any, bus: list[str]) -> Iterable[Role]:
    if "planner" in tree:
        yield Role("planner", (*bus, "task", "plan", *_ending(tree["planner"], "timeout")))
    workers = tree.get("workers")
    if workers is not None:
        count, name = workers.get("count", 1), workers.get("name", "worker")
        options = ("timeout", "review", "base", "into", "setup", "program", "permissions")
        for number in range(1, workers.get("max", count) + 1):
            worker = f"{name}-{number}"
            own = (*bus, "task", "work", "--worker", worker, *_ending(workers, *options))
            yield Role(worker, own, is_worker=True, is_spare=number > count)
    if "integrator" in tree:
        settings = tree["integrator"]
        argv = [*bus, "integrate", "--agent", "integrator", *_options(settings, *_OF_INTEGRATOR)]
        argv += [word for check in settings.get("check", ()) for word in ("--check", check)]
        yield Role("integrator", tuple(argv + ["--push"] * settings.get("push", False)))
    for name, words in (tree.get("processes") or {}).items():
        yield Role(str(name), tuple(_split(words)))


def _options(settings: Any, *names: str) -> list[str]:
    """Return settings as options of a command; words stand for the line that a shell splits so."""
    chosen = {name: settings[name] for name in names if name in settings}
    return [
        word
        for name, value in chosen.items()
        for word in (f"--{name}", _line_of(value) if isinstance(value, list) else f"{value}")
    ]


def _line_of(words: list[Any]) -> str:
    return shlex.join(str(word) for word in words)


def _ending(settings: Any, *names: str) -> list[str]:
    """Return settings as options, and the command after them."""
    words = ["--", *_split(settings["command"])] if "command" in settings else []
    return [*_options(settings, *names), *words]


def _split(words: Any) -> list[str]:
    return shlex.split(words) if isinstance(words, str) else [str(word) for word in words]
