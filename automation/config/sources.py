"""The files of a configuration, grafted into one tree, and their checksums.

Nothing else is read. Files are read as they stand: paths of files have no variables.
"""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from ...schema.directory.trust import Owners, check, trusted_owners
from ...schema.message.times import format_ts, now_ms
from .files import hash_of, path_from, read_bytes, replace_file
from .values import ConfigFaults, Fault, near
from .yaml_tree import Items, Map, is_null, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .yaml_tree import Spot, Tree

# Grafting: how files of a configuration become one. Maps merge, lists append, the rest replaces.
#
# Before that, each file is brought from the older forms of Ductile's documentation into the present
# one.


def graft(base: Map, over: Map, faults: list[Fault], path: str = "") -> None:
    """Merge a later file's settings into those of earlier files, in place.

    Args:
        base: the earlier settings.
        over: the later ones, which win.
        faults: gets the faults of settings that can't be grafted.
        path: the path that both have.
    """
    for key, value in over.items():
        inner = f"{path}.{key}" if path else key
        earlier, spot = base.get(key), over.at[key]
        if isinstance(earlier, Map | Items) and is_null(value):
            continue
        if isinstance(earlier, Map) and isinstance(value, Map):
            merged = earlier.copy()
            graft(merged, value, faults, inner)
            base[key] = merged
        elif isinstance(earlier, Items) and isinstance(value, Items):
            base[key] = _appended(earlier, value)
        elif earlier is None or is_null(earlier) or _kind(earlier) == _kind(value):
            base[key], base.at[key] = value, spot
        else:
            first = "{}:{}".format(*base.at[key])
            message = (
                f"this is {_kind(value)}, but {_kind(earlier)} at {first}; write it in one form"
            )
            faults.append(Fault(*spot, inner, message))


def modernise(tree: Map, warnings: list[Fault]) -> Map:
    """Return a file's settings in the forms of today.

    `log_level` at the top moves into `service`; `database` at the top becomes `state`; the settings
    of `state.database` move up into `state`; `webhooks` may be a list of endpoints.
    """
    new = tree.copy()
    if "log_level" in new:
        _move(new, "log_level", "service", "log_level", warnings)
    if "database" in new and "state" not in new:
        new["state"], new.at["state"] = new.pop("database"), new.at["database"]
    state = new.get("state")
    inner = state.get("database") if isinstance(state, Map) else None
    if isinstance(state, Map) and isinstance(inner, Map):
        plain = state.copy()
        del plain["database"]
        graft(plain, inner, [])
        new["state"] = plain
    if isinstance(endpoints := new.get("webhooks"), Items):
        new["webhooks"] = _map_of("endpoints", endpoints, new.at["webhooks"])
    return new


def _move(tree: Map, key: str, section: str, to: str, warnings: list[Fault]) -> None:
    spot = tree.at[key]
    moved = _map_of(to, tree.pop(key), spot)
    warnings.append(Fault(*spot, key, f"this is an old place; write it as {section}.{to}"))
    present = tree.get(section)
    if isinstance(present, Map):
        graft(moved, present, [])
    tree[section] = moved
    tree.at.setdefault(section, spot)


def _map_of(key: str, value: Tree, spot: Spot) -> Map:
    mapping = Map({key: value})
    mapping.at[key] = spot
    return mapping


def _appended(earlier: Items, later: Items) -> Items:
    items = Items([*earlier, *later])
    items.at = [*earlier.at, *later.at]
    return items


def _kind(tree: Tree) -> str:
    return "a map" if isinstance(tree, Map) else "a list" if isinstance(tree, Items) else "a value"


# The origin of a configuration: it was named, is this user's own, or was only found.


@dataclass(frozen=True, slots=True)
class Origin:
    """The trust in a configuration, by the way in which it was found.

    Attributes:
        is_named: whether the user named its folder: then its owner is trusted as well.
        may_act: whether its variables are filled, and what it names is started and contacted.
    """

    is_named: bool
    may_act: bool


#: By an option, an argument or a variable.
BY_NAME = Origin(is_named=True, may_act=True)
#: In this user's own folder, or where the user's list says so.
OWN = Origin(is_named=False, may_act=True)
#: In the working directory: the files of a clone belong to the user who cloned it.
FOUND = Origin(is_named=False, may_act=False)

#: The folder that most people keep a configuration in, beside their work.
_USUAL_FOLDER = "automation"

#: The file that a folder of configuration begins with.
ROOT = "config.yaml"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that was read: its absolute path, its name as it is shown, hash and settings."""

    path: str
    name: str
    hash: str
    tree: Map


@dataclass(slots=True)
class Sources:
    """All files of a configuration.

    Attributes:
        directory: the folder, as it was named.
        files: the YAML, in the order in which it is grafted.
        variables: files of variables, each with its text.
        owners: the users whose files are trusted.
        fills: whether variables are filled.
        links: the paths that are symlinks, each with the place that names it.
        faults, warnings: what is wrong.
    """

    directory: Path
    owners: Owners = field(default_factory=Owners)
    fills: bool = True
    files: list[SourceFile] = field(default_factory=list)
    variables: list[tuple[str, str]] = field(default_factory=list)
    links: list[tuple[str, Spot]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    def raise_faults(self) -> None:
        """Raise ConfigFaults where there are any."""
        if self.faults:
            raise ConfigFaults(self.faults)


def gather(named: Path, origin: Origin = BY_NAME) -> Sources:
    """Read a folder of configuration.

    Args:
        named: the folder, or its `config.yaml`, which may have another name then.
        origin: how far it is this user's own: files of variables are read only where it may act.

    Raises:
        ConfigFaults: there is none.
    """
    directory, root = (named.parent, named.name) if named.is_file() else (named, ROOT)
    if not (directory / root).exists():
        raise no_configuration(directory)
    owners = _owners(named, directory / root) if origin.is_named else trusted_owners()
    reader = _SourceReader(Sources(directory, owners, origin.may_act))
    if directory.is_symlink():
        reader.sources.links.append((str(directory), (str(directory / root), 0)))
    reader.read(directory / root, (str(directory / root), 0))
    return reader.sources


def _owners(named: Path, root: Path) -> Owners:
    """Return the users whose files are trusted in a configuration that the user named.

    The owner of a file in a named folder is trusted as well, unless anybody may create files there.
    """
    try:
        check(named, trusted_owners(named), reads_names=True)
    except OSError:
        return trusted_owners(named)
    return trusted_owners(named, root)


def no_configuration(directory: Path) -> ConfigFaults:
    """Return the error of a folder without a configuration, with the command that makes one."""
    beside = directory / _USUAL_FOLDER
    if (beside / ROOT).is_file():
        hint = f"there is one in {beside}: name it with --config or BUS_CONFIG"
    else:
        hint = f"'bus automation init {shlex.quote(str(directory))}' makes one"
    return ConfigFaults([Fault(str(directory / ROOT), 0, "", f"there is no such file; {hint}")])


class _SourceReader:
    """Reads files one after another, and what each includes after it."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._read_at: dict[str, Spot] = {}
        self._open: list[str] = []

    def read(self, path: Path, spot: Spot, dotted: str = "") -> None:
        absolute, name = os.path.abspath(path), str(path)
        self._read_at[absolute] = spot
        self._note_links(path, spot)
        try:
            data = read_bytes(path, self.sources.owners)
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return self._refuse(spot, dotted, f"can't read {name}: {_reason(error)}")
        if text.startswith("\ufeff"):
            return self._refuse((name, 1), "", "a byte order mark begins it; leave it out")
        tree, faults = parse(text, name)
        self.sources.faults += faults
        modern = modernise(tree, self.sources.warnings)
        self.sources.files.append(SourceFile(absolute, name, hash_of(data), modern))
        self._open.append(absolute)
        self._include(path, modern)
        self._read_variables(path, modern)
        self._open.pop()

    def _include(self, path: Path, tree: Map) -> None:
        for number, (entry, spot) in enumerate(self._paths(path, tree.pop("include", None), tree)):
            dotted = f"include[{number}]"
            if os.path.isdir(entry):  # pathlib's raises where a name is too long
                self._read_folder(entry, spot, dotted)
            elif not os.path.exists(entry):
                message = f"there is no {entry}{_beside(entry)}"
                self._refuse(spot, dotted, message)
            elif os.path.abspath(entry) in self._open:
                self._refuse(spot, dotted, f"{entry} includes itself by this")
            elif first := self._read_at.get(os.path.abspath(entry)):
                at = "{}:{}".format(*first)
                self._refuse(spot, dotted, f"{entry} is included already, at {at}")
            else:
                self.read(entry, spot, dotted)

    def _read_folder(self, folder: Path, spot: Spot, dotted: str) -> None:
        try:
            check(folder, self.sources.owners, reads_names=True)
            entries = sorted(folder.iterdir())
        except OSError as error:
            return self._refuse(spot, dotted, f"can't read {folder}: {_reason(error)}")
        for entry in entries:
            if entry.suffix == ".yaml" and os.path.abspath(entry) not in self._read_at:
                self.read(entry, spot, dotted)
            elif entry.suffix == ".yml":
                message = f"{entry} is not read; name it {entry.stem}.yaml"
                self.sources.warnings.append(Fault(*spot, dotted, message))

    def _read_variables(self, path: Path, tree: Map) -> None:
        section = tree.get("environment_vars")
        if not isinstance(section, Map) or not self.sources.fills:
            return
        for number, (entry, spot) in enumerate(self._paths(path, section.get("include"), section)):
            self._note_links(entry, spot)
            try:
                self.sources.variables.append(
                    (str(entry), read_bytes(entry, self.sources.owners).decode("utf-8"))
                )
            except (OSError, UnicodeDecodeError) as error:
                dotted = f"environment_vars.include[{number}]"
                self._refuse(spot, dotted, f"can't read {entry}: {_reason(error)}")

    def _paths(self, path: Path, listed: object, parent: Map) -> list[tuple[Path, Spot]]:
        """Return the paths of an `include`, from the file that has it."""
        if listed is None:
            return []
        spot = parent.at["include"]
        if not isinstance(listed, Items):
            self._refuse(spot, "include", "write a list of paths: include: [FILE]")
            return []
        paths = []
        for entry, at in zip(listed, listed.at, strict=True):
            if not isinstance(entry, str) or not entry:
                self._refuse(at, "include", "write the path of a file or a folder")
            elif "${" in entry:
                message = "a path of a file has no variables, so that what is read can be verified"
                self._refuse(at, "include", f"{message}; write it out")
            else:
                try:
                    paths.append((path_from(path.parent, entry), at))
                except ValueError as error:
                    self._refuse(at, "include", str(error))
        return paths

    def _note_links(self, path: Path, spot: Spot) -> None:
        """Note the parts of a path that are symlinks, below the folder of the configuration."""
        part = path
        while part not in (self.sources.directory, part.parent):
            if os.path.islink(part):
                self.sources.links.append((str(part), spot))
            part = part.parent
            if self.sources.directory not in part.parents:
                break

    def _refuse(self, spot: Spot, dotted: str, message: str) -> None:
        self.sources.faults.append(Fault(*spot, dotted, message))


def _reason(error: OSError | UnicodeDecodeError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no UTF-8"
    return error.strerror or str(error)


def _beside(path: Path) -> str:
    try:
        names = [sibling.name for sibling in path.parent.iterdir()]
    except OSError:
        return ""
    return near(path.name, names)


# The seal of a configuration: `.checksums`, with the BLAKE3 hash of each file by absolute path.
#
# Files of tokens, webhooks and scopes must be sealed and unchanged. The settings of tokens and
# webhooks have a hash of their own, whichever file has them, and must be unchanged too. Any other
# change is a warning, unless the configuration asks for more. Ductile's own seals lack the second
# hash and are accepted.

#: The file of the seal, in the folder of the configuration.
NAME = ".checksums"
#: The version of its form.
VERSION = 2

_SECURE_NAMES = ("tokens.yaml", "webhooks.yaml")
#: Appended to the path of the first file: the entry with the hash of all access settings.
ACCESS = "#access"

_ASK = "look at what changed, then seal it by 'bus config lock'"


def is_secure(source: SourceFile, is_root: bool = False) -> bool:
    """Tell whether a file must be sealed: tokens or webhooks stand in it.

    Args:
        source: the file.
        is_root: whether it is `config.yaml`, which need not be sealed, whatever it holds.
    """
    webhooks = source.tree.get("webhooks")
    holds = "tokens" in source.tree or (isinstance(webhooks, Map) and "endpoints" in webhooks)
    return os.path.basename(source.path) in _SECURE_NAMES or (holds and not is_root)


def read_seal(directory: Path, owners: Owners | None = None) -> tuple[dict[str, str], list[Fault]]:
    """Return the sealed hashes by absolute path, none where there is no seal, and its faults.

    Args:
        directory: the folder of the configuration.
        owners: whose files count.
    """
    name = str(directory / NAME)
    try:
        tree, faults = parse(read_bytes(name, owners).decode("utf-8"), name)
    except FileNotFoundError:
        return {}, []
    except (OSError, UnicodeDecodeError) as error:
        return {}, [Fault(name, 0, "", f"can't read it: {error}")]
    hashes = tree.get("hashes", Map())
    if not faults and (tree.get("version") != str(VERSION) or not isinstance(hashes, Map)):
        faults = [Fault(name, 0, "", f"it has not the form of version {VERSION}; {_ASK}")]
    if faults or not isinstance(hashes, Map):
        return {}, faults
    return {path: str(hash).removeprefix("blake3:") for path, hash in hashes.items()}, []


def compare(name: str, path: str, hash: str, seal: Mapping[str, str]) -> Fault | None:
    """Return the fault of a file that is not as it was sealed, or None."""
    if _is_as_sealed(path, hash, seal):
        return None
    what = "is not sealed" if os.path.abspath(path) not in seal else "is not as it was sealed"
    return Fault(name, 0, "", f"this file {what} in {NAME}; {_ASK}")


def _is_as_sealed(path: str, hash: str, seal: Mapping[str, str]) -> bool:
    return seal.get(os.path.abspath(path)) == hash


def access_fault(root: SourceFile, tree: Map, seal: Mapping[str, str]) -> Fault | None:
    """Return the fault of tokens or webhooks that are not as they were sealed, or None.

    Args:
        root: the first file.
        tree: the merged settings of all files, with unfilled variables.
        seal: the sealed hashes.
    """
    if not seal:
        return None
    sealed = seal.get(os.path.abspath(root.path) + ACCESS)
    if sealed is None:
        # An older seal: if the first file changed, its access settings may have changed, too.
        is_same = not _access(root.tree) or _is_as_sealed(root.path, root.hash, seal)
    else:
        is_same = sealed == access_hash(tree)
    if is_same:
        return None
    message = f"its tokens, scopes or webhooks are not as they were sealed in {NAME}; {_ASK}"
    return Fault(root.name, 0, "", message)


def access_hash(tree: Map) -> str:
    """Return the hash of a configuration's tokens, webhooks and API tokens."""
    return hash_of(orjson.dumps(_access(tree), option=orjson.OPT_SORT_KEYS))


def _access(tree: Map) -> dict[str, Tree]:
    api = tree.get("api")
    access = {name: tree[name] for name in ("tokens", "webhooks") if name in tree}
    return access | ({"auth": api["auth"]} if isinstance(api, Map) and "auth" in api else {})


def unsealed(directory: Path) -> Fault:
    """Return the warning of a folder that was never sealed."""
    return Fault(str(directory / NAME), 0, "", f"the files here are not sealed; {_ASK}")


def hashes_of(sources: list[SourceFile], directory: Path) -> dict[str, str]:
    """Return all hashes of a seal: of files that were read, access settings, files of scopes."""
    hashes = {source.path: source.hash for source in sources}
    if sources:
        tree = Map()
        for source in sources:
            graft(tree, source.tree, [])
        hashes[os.path.abspath(sources[0].path) + ACCESS] = access_hash(tree)
        for name in _files_of_scopes(tree, directory):
            with suppress(OSError, ValueError):  # the check reports the unreadable file
                hashes[name] = hash_of(read_bytes(name))
    for path in sorted((directory / "scopes").glob("*.json")):
        hashes[os.path.abspath(path)] = hash_of(read_bytes(path))
    return hashes


def _files_of_scopes(tree: Map, directory: Path) -> list[str]:
    """Return the files of scopes that tokens name, wherever they are."""
    tokens = tree.get("tokens")
    entries = (
        [entry for entry in tokens if isinstance(entry, Map)] if isinstance(tokens, Items) else []
    )
    names = [entry.get("scopes_file") for entry in entries]
    return sorted({os.path.abspath(directory / name) for name in names if isinstance(name, str)})


def write_seal(directory: Path, hashes: Mapping[str, str]) -> Path:
    """Write the seal of a configuration, for its owner alone, in place of the earlier one.

    Args:
        directory: the folder of the configuration.
        hashes: by absolute path.

    Returns:
        Its path.
    """
    lines = [f"version: {VERSION}", f"generated_at: {format_ts(now_ms())}", "hashes:"]
    lines += [f"  {json.dumps(path)}: {hash}" for path, hash in hashes.items()]
    replace_file(directory / NAME, "\n".join([*lines, ""]).encode())
    return directory / NAME
