"""Differences between a folder of configuration, its seal, and the service that runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .config.files.checksums import ACCESS, hashes_of, read_seal
from .config.files.sources import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as it was sealed.

    Attributes:
        file: its absolute path; with `#access` what all files say of tokens and webhooks.
        state: `new`, `changed`, `unused` where nothing includes it any more, or `gone`.
        sealed, now: its BLAKE3 hashes; None where it was not sealed, or is not there.
    """

    file: str
    state: str
    sealed: str | None
    now: str | None


def files_of(directory: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of a configuration, and the hash of each file that a seal has.

    Raises:
        ConfigFaults: a file can't be read; what variables hold does not matter.
    """
    sources = gather(directory)
    sources.refuse_faults()
    return sources.directory, hashes_of(sources.files, sources.directory)


def from_seal(directory: Path) -> list[Difference]:
    """Return the files of a configuration that are not as they were sealed.

    Raises:
        ConfigFaults: a file can't be read.
    """
    folder, now = files_of(directory)
    sealed, _ = read_seal(folder)
    now = {path: hash for path, hash in now.items() if path in sealed or ACCESS not in path}
    return [
        Difference(path, _state(path, sealed, now), sealed.get(path), now.get(path))
        for path in sorted({*sealed, *now})
        if sealed.get(path) != now.get(path)
    ]


def _state(path: str, sealed: Mapping[str, str], now: Mapping[str, str]) -> str:
    if path in now:
        return "changed" if path in sealed else "new"
    return "unused" if os.path.exists(path) else "gone"
