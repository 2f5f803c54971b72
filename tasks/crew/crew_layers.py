"""The layers of a crew's settings: the last one that has a setting wins.

crew.yaml            the crew
crew.PROFILE.yaml    of the profile that BUS_CREW_PROFILE names
crew.local.yaml      of this machine
BUS_CREW_…           the environment: BUS_CREW_WORKERS_COUNT=3
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field

from ...schema.bounded_read import read_at_most
from ...schema.directory.file_trust import open_checked
from ...schema.directory.ownership import trusted_owners
from ...schema.errors import InvalidInput, shown
from .crew_form import NAME, ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ...schema.directory.file_trust import Owners

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
    found = [parsed(_text(path, owners, "write the crew into crew.yaml"), path)]
    if profile:
        of_profile = f"{begin}.{profile}{end}"
        found.append(
            parsed(_text(of_profile, owners, f"{PROFILE} names it"), of_profile, is_whole=False)
        )
    local = f"{begin}.local{end}"
    if os.path.lexists(local):
        found.append(parsed(_text(local, owners, "it is a broken link"), local, is_whole=False))
    found.append(_of_environment(environ))
    return [found[0], *(layer for layer in found[1:] if layer.settings or layer.faults)]


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
        told = "write a map of roles, as 'workers: {count: 2, command: ./work}'"
        return Layer(path, {}, [(1, told)])
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
    known = dict(_variables())
    settings: dict[str, Any] = {}
    faults = []
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        if variable == PROFILE:
            continue
        place = known.get(variable)
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
