"""Plugins that come with the package: each is copied into a root of the operator, to run there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...schema.directory.enclosure import EnclosedFile, Enclosure, LinkRefused
from ...schema.errors import AckbusError, NotFound, Refused
from ..config.reading import read_bytes
from .discovery import MANIFEST
from .manifest import read_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .manifest import Manifest

#: Where they are in the package: what lies here is never run.
_PLACE = Path(__file__).parents[1] / "shipped"


#: A name that no file of a plugin has: the walk to it ends in the plugin's folder.
_NO_FILE = ".new"


@dataclass(frozen=True, slots=True)
class AddedPlugin:
    """A plugin that was copied.

    Attributes:
        folder: its copy.
        manifest: its description of itself.
        state: whether it is `new`, was the `same`, or was `changed`.
    """

    folder: Path
    manifest: Manifest
    state: Literal["new", "same", "changed"]


def shipped() -> list[Manifest]:
    """Return the manifests of the plugins that come with the package, by name."""
    return [_manifest(path.parent) for path in sorted(_PLACE.glob(f"*/{MANIFEST}"))]


def add(
    name: str,
    root: Path,
    within: Path | None = None,
    *,
    replace: bool = False,
    dry_run: bool = False,
) -> AddedPlugin:
    """Copy a plugin of the package into a root of plugins; a repetition finishes a partial copy.

    Args:
        name: the plugin.
        root: the folder that holds plugins.
        within: the folder of the configuration: a root in it is not written to through a link that
            leaves it; another root, or any where this is None, through none that leaves the root.
        replace: whether a copy that differs is brought up to this version.
        dry_run: whether nothing is written.

    Raises:
        NotFound: no such plugin comes with the package.
        Refused: files of another one are there, or of one that was changed; or a link leads out.
        AckbusError: the root can't be written to.
    """
    manifest = next((plugin for plugin in shipped() if plugin.name == name), None)
    if manifest is None:
        names = ", ".join(plugin.name for plugin in shipped())
        raise NotFound(f"no plugin {name!r} comes with the package; there are {names}")
    folder, files = root / name, _files(name)
    there = {file: _read(folder / file) for file in files}
    if there == files:
        return AddedPlugin(folder, manifest, "same")
    others = [file for file, data in files.items() if there[file] not in (None, data)]
    if others and not replace:
        differing = ", ".join(others)
        raise Refused(f"{folder} has another {differing}; --replace puts this one in its place")
    state: Literal["new", "changed"] = "changed" if others else "new"
    if dry_run:
        return AddedPlugin(folder, manifest, state)
    modes = {file: 0o755 if file == manifest.entrypoint else 0o644 for file in files}
    top = within if within is not None and root.is_relative_to(within) else root
    _write(folder, Enclosure(str(top)), files, modes)
    return AddedPlugin(folder, manifest, state)


def _write(folder: Path, within: Enclosure, files: dict[str, bytes], modes: dict[str, int]) -> None:
    """Write the files of a plugin; one that is a link is replaced, and never followed.

    Raises:
        LinkRefused: a link on the way to the folder leads out of the enclosure.
        AckbusError: they can't be written.
    """
    try:
        with within.spot(str(folder / _NO_FILE), make=0o755) as there:
            for file, data in files.items():
                spot = EnclosedFile(str(folder / file), file, there.folder)
                spot.remove_link()
                spot.replace(data, mode=modes[file])
    except LinkRefused:
        raise
    except Refused as error:
        raise AckbusError(f"can't write to {folder}: {error}") from error
    except OSError as error:
        raise AckbusError(f"can't write to {error.filename or folder}: {error.strerror}") from error


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
