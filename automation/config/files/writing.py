"""Writing: files that are there as a whole or not at all, and values as YAML for people."""

from __future__ import annotations

import os
from contextlib import suppress
from io import StringIO
from tempfile import NamedTemporaryFile

from ruamel.yaml import YAML

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file in place of an earlier one; a crash leaves one of both.

    Args:
        path: the file.
        data: what it holds from then on.
        mode: who may do what with it; its owner alone, unless told otherwise.

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
