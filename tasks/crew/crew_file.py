"""The file of a crew: which roles run, checked whole, each fault with its line.

folder: .                     # where all roles run; default: that of the file
environment: {LOG: debug}     # of all roles
planner: {command: ./plan}
workers: {count: 3, program: claude, permissions: edit, timeout: 30m}
integrator: {into: main, check: [make test]}
processes: {api: bus serve}   # further ones, kept running
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field

from ...schema.errors import AckbusError, shown
from .crew_form import MAX_WORKERS, NAME, ROLES, TOP, VARIABLE, command, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .crew_form import Check


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


def read_crew(source: str, path: str, bus: Sequence[str]) -> CrewFile:
    """Return the crew that the text of a file describes.

    Args:
        source: the text of the file.
        path: of the file, for faults; its folder is where the roles run, unless it says otherwise.
        bus: the command `bus`, with its options, by which roles are started.

    Raises:
        CrewFaults: something in it is wrong.
    """
    tree, fault = _parsed(source)
    faults = [fault] if fault else _faults(tree)
    if faults:
        raise CrewFaults(path, faults)
    folder = os.path.join(os.path.dirname(os.path.abspath(path)), tree.get("folder") or ".")
    return CrewFile(
        os.path.abspath(path),
        os.path.normpath(folder),
        {name: str(value) for name, value in (tree.get("environment") or {}).items()},
        tuple(_roles(tree, list(bus))),
    )


# Checking --------------------------------------------------------------------------------------


def _parsed(source: str) -> tuple[Any, tuple[int, str] | None]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        tree = YAML(typ="rt").load(source)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        return {}, (line, f"this is no YAML: {error.problem or error.context}")
    except (YAMLError, RecursionError, ValueError) as error:
        return {}, (0, f"this is no YAML: {str(error).splitlines()[0]}")
    if not isinstance(tree, dict):
        return {}, (1, "write a map of roles, as 'workers: {count: 2, command: ./work}'")
    return tree, None


def _faults(tree: Any) -> list[tuple[int, str]]:
    found = list(_of_map(tree, "", TOP, None))
    for name, checks in ROLES.items():
        if isinstance(tree.get(name), dict):
            found += _of_map(tree[name], f"{name}.", checks, _line(tree, name))
    found += _of_names(tree, "environment", VARIABLE, text)
    found += _of_names(tree, "processes", NAME, command)
    if not found:
        found += _together(tree)
    return found


def _of_map(
    tree: Any, within: str, checks: Mapping[str, Check], line: int | None
) -> Iterable[tuple[int, str]]:
    for name, value in tree.items():
        check = checks.get(name) if isinstance(name, str) else None
        if check is None:
            known = ", ".join(checks)
            yield _line(tree, name), f"{within}{name} is not known; known here: {known}"
        elif wanted := check(value):
            yield _line(tree, name), f"{within}{name} must be {wanted}, not {shown(_plain(value))}"
    if line is not None and within in ("planner.", "workers."):
        given = [name for name in ("command", "program") if name in tree]
        needed = "command" if within == "planner." else "command or program"
        if len(given) != 1:
            yield line, f"{within[:-1]} needs one {needed}"


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
        yield 1, "there is no role; write planner, workers, integrator or processes"


def _line(tree: Any, name: Any) -> int:
    return int(tree.lc.key(name)[0]) + 1


def _plain(value: Any) -> object:
    return dict(value) if isinstance(value, dict) else value


# Roles -----------------------------------------------------------------------------------------


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
        argv = [*bus, "integrate", *_options(settings, "into", "strategy")]
        argv += [word for check in settings.get("check", ()) for word in ("--check", check)]
        yield Role("integrator", tuple(argv + ["--push"] * settings.get("push", False)))
    for name, words in (tree.get("processes") or {}).items():
        yield Role(str(name), tuple(_split(words)))


def _options(settings: Any, *names: str) -> list[str]:
    """Return settings as options of a command."""
    return [
        word for name in names if name in settings for word in (f"--{name}", f"{settings[name]}")
    ]


def _ending(settings: Any, *names: str) -> list[str]:
    """Return settings as options, and the command after them."""
    words = ["--", *_split(settings["command"])] if "command" in settings else []
    return [*_options(settings, *names), *words]


def _split(words: Any) -> list[str]:
    return shlex.split(words) if isinstance(words, str) else [str(word) for word in words]
