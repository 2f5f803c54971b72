"""The seal of a configuration: `.checksums`, with the BLAKE3 hash of each file by absolute path.

Files of tokens, webhooks and scopes must be sealed and unchanged. The settings of tokens and
webhooks have a hash of their own, whichever file has them, and must be unchanged too. Any other
change is a warning, unless the configuration asks for more. Ductile's own seals lack the second
hash and are accepted.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import orjson

from ...schema.message.times import format_ts, now_ms
from .faults import Fault
from .reading import hash_of, read_bytes, replace_file
from .sources import graft
from .yaml_tree import Items, Map, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...schema.directory.file_trust import Owners
    from .sources import SourceFile
    from .yaml_tree import Tree

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
        is_root: whether it is `config.yaml`, which is operational whatever it holds.
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
    sealed = seal.get(os.path.abspath(path))
    if sealed == hash:
        return None
    what = "is not sealed" if sealed is None else "is not as it was sealed"
    return Fault(name, 0, "", f"this file {what} in {NAME}; {_ASK}")


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
    if sealed is None:  # an older seal: only an unchanged file is known to say the same
        is_same = not _access(root.tree) or compare("", root.path, root.hash, seal) is None
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
