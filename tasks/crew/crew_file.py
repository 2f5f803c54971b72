"""The file of a crew: which roles run, checked whole, each fault with its line.

folder: .                     # where all roles run; default: that of the file
environment: {LOG: debug}     # of all roles
planner: {command: ./plan}
workers: {count: 3, program: claude, permissions: edit, timeout: 30m}
integrator: {into: main, check: [make test]}
processes: {api: bus serve}   # further ones, kept running

Other layers may say some of it otherwise; see `crew_layers`.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field

from ...schema.errors import AckbusError, shown
from .crew_form import MAX_WORKERS, NAME, ROLES, TOP, VARIABLE, command, text
from .crew_layers import over

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .crew_form import Check
    from .crew_layers import Layer


class CrewFaults(AckbusError):
    """The file of a crew is refused as a whole.

    Attributes:
        faults: every fault, in order: the line, from 1, and what is wrong there.
    """

    exit_code = 78

    def __init__(self, path: str, faults: Iterable[tuple[int, str]]) -> None:
        self.faults = tuple(sorted(set(faults)))
        lines = [
            f"{path}:{line}: {told}" if line else f"{path}: {told}" for line, told in self.faults
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
            known = ", ".join(checks)
            yield _line(tree, name), f"{within}{name} is not known; known here: {known}"
        elif wanted := check(value):
            yield _line(tree, name), f"{within}{name} must be {wanted}, not {shown(_plain(value))}"


def _missing(tree: Any) -> Iterable[tuple[int, str]]:
    """Return the roles that don't say what they run."""
    for role in ("planner", "workers"):
        if isinstance(tree.get(role), dict):
            given = [name for name in ("command", "program") if name in tree[role]]
            needed = "command" if role == "planner" else "command or program"
            if len(given) != 1:
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
        elif wanted := check(value):
            told = f"{within}.{name} must be {wanted}, not {shown(_plain(value))}"
            yield _line(entries, name), told


def _together(tree: Any) -> Iterable[tuple[int, str]]:
    """Return what is wrong between values that are all right by themselves."""
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
    """Return the line of a key, or 0 where it has none, as that of joined layers."""
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
    given = {name: settings[name] for name in names if name in settings}
    return [
        word
        for name, value in given.items()
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
