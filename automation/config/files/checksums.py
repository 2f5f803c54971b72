"""The seal of a configuration: `.checksums`, with the BLAKE3 hash of each file by absolute path.

Files of tokens, webhooks and scopes must be sealed, and as they were sealed; a change of the others
is a warning, unless the configuration asks for more. Ductile's own seals are read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ....schema.message.times import format_ts, now_ms
from ..faults import Fault
from .reading import hash_of, read_bytes
from .writing import replace_file
from .yaml_tree import Map, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ....schema.directory.file_trust import Owners
    from .sources import Source

#: The file of the seal, in the folder of the configuration.
NAME = ".checksums"
#: The version of its form.
VERSION = 2

_SECURE_NAMES = ("tokens.yaml", "webhooks.yaml")
_ASK = "look at what changed, then seal it by 'bus config lock'"


def is_secure(source: Source, is_root: bool = False) -> bool:
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


def unsealed(directory: Path) -> Fault:
    """Return the warning of a folder that was never sealed."""
    return Fault(str(directory / NAME), 0, "", f"the files here are not sealed; {_ASK}")


def hashes_of(sources: list[Source], directory: Path) -> dict[str, str]:
    """Return the hash of each file that a seal has: what was read, and the files of scopes."""
    found = {source.path: source.hash for source in sources}
    for path in sorted((directory / "scopes").glob("*.json")):
        found[os.path.abspath(path)] = hash_of(read_bytes(path))
    return found


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
