"""Trust: which folders hold plugins that may run.

A plugin lies under one of the roots that the operator named, whatever links lead there, and nobody
else owns it, can write into it, or can put another one in its place. Its program is a file of it
that the service's user may execute.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from ...schema.directory.file_trust import check
from ..config.files.reading import NO_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...schema.directory.file_trust import Owners

#: The file of a plugin that names its program.
MANIFEST = "manifest.yaml"


def faults_of_folder(folder: Path, roots: Sequence[Path], owners: Owners) -> Iterator[str]:
    """Yield why no plugin of a folder may run, nothing where one may.

    Args:
        folder: the folder of a plugin.
        roots: the roots that the operator named.
        owners: whose files count.
    """
    real = Path(os.path.realpath(folder))
    root = _root_of(real, roots)
    if root is None:
        yield f"{folder} leads to {real}, outside of plugin_roots"
        return
    for each, lists in ((folder, True), (folder / MANIFEST, False)):
        yield from _distrusted(each, owners, lists=lists)


def _distrusted(path: Path, owners: Owners, *, lists: bool = False) -> Iterator[str]:
    try:
        check(path, owners, lists=lists)
    except OSError as error:
        yield error.strerror or str(error)


def faults_of_program(
    folder: Path, entrypoint: str, roots: Sequence[Path], owners: Owners
) -> Iterator[str]:
    """Yield why the program of a plugin may not run, nothing where it may.

    Args:
        folder: the folder of the plugin.
        entrypoint: its program, as its manifest names it.
        roots: the roots that the operator named.
        owners: whose files count.
    """
    parts = PurePosixPath(entrypoint)
    if ".." in parts.parts:
        yield "'..' leads out of the plugin's folder; name a file in it"
        return
    if parts.is_absolute():
        yield f"{entrypoint!r} is absolute; name a file of the plugin's folder"
        return
    if "\0" in entrypoint:
        yield NO_PATH
        return
    program = folder / parts
    real = Path(os.path.realpath(program))
    if _root_of(real, roots) is None:
        yield f"{program} leads to {real}, outside of plugin_roots"
    elif not os.path.isfile(real):
        yield f"there is no file {program}"
    else:
        yield from _faults_of_file(real, program, owners)


def links_of(folder: Path, entrypoint: str | None = None) -> list[str]:
    """Return the symlinks on the way to a plugin, or to its program: each is a warning at least."""
    paths = [folder]
    if entrypoint is not None:
        parts = PurePosixPath(entrypoint)
        paths = [folder / each for each in (parts, *parts.parents) if str(each) != "."]
    return [str(path) for path in paths if os.path.islink(path)]


def _faults_of_file(real: Path, program: Path, owners: Owners) -> Iterator[str]:
    if not os.stat(real).st_mode & 0o111 or not os.access(real, os.X_OK):
        yield f"{program} is not executable; chmod +x it"
    yield from _distrusted(program, owners)
    yield from _distrusted(real.parent, owners, lists=True)


def _root_of(real: Path, roots: Sequence[Path]) -> Path | None:
    """Return the root that a real path lies under, or None."""
    for root in roots:
        resolved = Path(os.path.realpath(root))
        if resolved in real.parents:
            return resolved
    return None
