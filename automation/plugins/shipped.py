"""Plugins that come with the package: each is copied into a root of the operator, to run there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...schema.errors import AckbusError, NotFound, Refused
from ..config.files.reading import read_bytes
from ..config.files.writing import replace_file
from .manifest import read_manifest
from .trust import MANIFEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .manifest import Manifest

#: Where they are in the package: what lies here is never run.
_PLACE = Path(__file__).parents[1] / "shipped"


@dataclass(frozen=True, slots=True)
class Added:
    """A plugin that was copied.

    Attributes:
        folder: its copy.
        manifest: what it tells of itself.
        state: whether it is `new`, was the `same`, or was `changed`.
    """

    folder: Path
    manifest: Manifest
    state: Literal["new", "same", "changed"]


def shipped() -> list[Manifest]:
    """Return the manifests of the plugins that come with the package, by name."""
    return [_manifest(path.parent) for path in sorted(_PLACE.glob(f"*/{MANIFEST}"))]


def add(name: str, root: Path, *, replace: bool = False, dry_run: bool = False) -> Added:
    """Copy a plugin of the package into a root of plugins; again, it finishes what broke off.

    Args:
        name: the plugin.
        root: the folder that holds plugins.
        replace: whether a copy that differs is brought up to this version.
        dry_run: whether nothing is written.

    Raises:
        NotFound: no such plugin comes with the package.
        Refused: files of another one are there, or of one that was changed.
        AckbusError: the root can't be written to.
    """
    manifest = next((each for each in shipped() if each.name == name), None)
    if manifest is None:
        names = ", ".join(each.name for each in shipped())
        raise NotFound(f"no plugin {name!r} comes along; there are {names}")
    folder, wanted = root / name, _files(name)
    there = {file: _read(folder / file) for file in wanted}
    if there == wanted:
        return Added(folder, manifest, "same")
    others = [file for file, data in wanted.items() if there[file] not in (None, data)]
    if others and not replace:
        told = ", ".join(others)
        raise Refused(f"{folder} has another {told}; --replace puts this one in its place")
    state: Literal["new", "changed"] = "changed" if others else "new"
    if dry_run:
        return Added(folder, manifest, state)
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for file, data in wanted.items():
            mode = 0o755 if file == manifest.entrypoint else 0o644
            replace_file(folder / file, data, mode=mode)
    except OSError as error:
        raise AckbusError(f"can't write to {error.filename or folder}: {error.strerror}") from error
    return Added(folder, manifest, state)


def _manifest(folder: Path) -> Manifest:
    manifest, faults = read_manifest(folder / MANIFEST)
    assert manifest is not None, faults
    return manifest


def _files(name: str) -> dict[str, bytes]:
    """Return the files of a plugin, its manifest last: without one nothing is a plugin."""
    files = [path for path in (_PLACE / name).iterdir() if path.is_file()]
    files.sort(key=lambda path: (path.name == MANIFEST, path.name))
    return {path.name: read_bytes(path) for path in files}


def _read(path: Path) -> bytes | None:
    """Return what a file holds; None: nothing is there. What can't be read counts as empty."""
    try:
        return read_bytes(path)
    except OSError:
        return b"" if os.path.lexists(path) else None
