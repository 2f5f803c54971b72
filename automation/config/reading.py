"""Files of a configuration: read as bytes, written, and hashed."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile

from blake3 import blake3
from ruamel.yaml import YAML

from ...schema.directory.layout import NoHome, expand_home
from ...schema.directory.trust import open_checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...schema.directory.trust import Owners

#: How large a file may be, in bytes.
MAX_BYTES = 16 * 1024 * 1024

#: Why a text is no path; where it is, the system only raises a ValueError.
NO_PATH = "no path has a NUL in it"


def read_bytes(path: str | Path, owners: Owners | None = None) -> bytes:
    """Return what a regular file of limited size holds.

    Args:
        path: of the file.
        owners: the users whose files are trusted; None: no check.

    Raises:
        OSError: it can't be read, or is something else.
    """
    if "\0" in str(path):
        raise OSError(NO_PATH)
    if owners is None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    else:
        descriptor = open_checked(path, owners)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a file")
        if status.st_size > MAX_BYTES:
            raise OSError(f"it has more than {MAX_BYTES} bytes")
        return file.read(MAX_BYTES + 1)


def path_from(folder: Path, text: str) -> Path:
    """Return the path that a text of a configuration names, from a folder on.

    Raises:
        ValueError: there can't be one.
    """
    if "\0" in text:
        raise ValueError(NO_PATH)
    try:
        return folder / expand_home(text)
    except NoHome as error:
        raise ValueError("there is no such user, or no home directory") from error


def hash_of(data: bytes) -> str:
    """Return the BLAKE3 hash of a file's bytes, in hex."""
    return blake3(data).hexdigest()


# Writing: files that are there as a whole or not at all, and values as YAML for people.


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file in place of an earlier one; a crash leaves one of both.

    Args:
        path: the file.
        data: its new content.
        mode: its permissions; by default those of its owner alone.

    Raises:
        OSError: it can't be written; the earlier one stays.
    """
    new = NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False)  # noqa: SIM115
    try:
        with new:
            new.write(data)
            new.flush()
            os.fchmod(new.fileno(), mode)
            os.fsync(new.fileno())
        os.replace(new.name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new.name)
        raise


def yaml_of(value: Any) -> str:
    """Return a JSON value as YAML, its keys in their order."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    written = StringIO()
    writer.dump(value, written)
    return written.getvalue()
