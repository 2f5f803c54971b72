"""Files of a configuration: read as bytes, written and hashed; and the folder to begin with."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from io import StringIO
from pathlib import Path
from tempfile import NamedTemporaryFile

from blake3 import blake3
from ruamel.yaml import YAML

from ...schema.directory.enclosure import Enclosure
from ...schema.directory.layout import NoHome, expand_home
from ...schema.directory.trust import open_checked
from ...schema.errors import AckbusError, Refused

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


def replace_file(path: Path, data: bytes) -> None:
    """Write a file of its owner alone in place of an earlier one; a crash leaves one of both.

    Raises:
        OSError: it can't be written; the earlier one stays.
    """
    new = NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.", delete=False)  # noqa: SIM115
    try:
        with new:
            new.write(data)
            new.flush()
            os.fchmod(new.fileno(), 0o600)
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


# The starter: a small folder of configuration that works, to begin with.

#: The file without which there is no configuration: it is written last.
_CONFIG = "config.yaml"

#: The files, in the order in which they are written. `secrets.env` has a secret beside.
_FILES = {
    "plugins/hello/run.sh": """\
#!/bin/sh
# Reads one JSON object, the request, and prints one, the answer. With jq: jq -r .command
case $(cat) in
*'"command":"poll"'*)
    echo '{"status": "ok", "result": "hello was said", "events": [
        {"type": "hello.said", "payload": {"text": "hello"}}]}' ;;
*)
    echo '{"status": "ok", "result": "an event was heard"}' ;;
esac
""",
    "plugins/hello/manifest.yaml": """\
manifest_spec: ductile.plugin
manifest_version: 1
name: hello
version: 1.0.0
protocol: 2
entrypoint: run.sh
commands:
  poll: {type: read, description: Say hello.}
  handle: {type: read, description: Hear an event.}
""",
    ".gitignore": """\
# The bus of the service, the seal, which has absolute paths, and secrets.
/data/
/.checksums
/secrets.env
""",
    _CONFIG: """\
# After a change: 'bus config diff', 'bus config lock', 'bus config check', 'bus automation reload'.
environment_vars: {include: [secrets.env]}
plugin_roots: [plugins]

plugins:
  hello:
    schedules:
      - {id: often, every: 15m}
  listener: {uses: hello}  # the same program, with a name and settings of its own

# Each event hello.said of hello is a job of listener: its command handle.
routes:
  - {from: hello, event_type: hello.said, to: listener}

# A signed POST to http://127.0.0.1:8081/hello is a job too; 'bus webhook test hello' sends one.
webhooks:
  listen: 127.0.0.1:8081
  endpoints:
    - path: /hello
      plugin: listener
      secret_ref: hello
      signature_header: X-Signature

tokens:
  - {name: hello, key: "${HELLO_SECRET}"}
""",
}

#: The file of secrets; nobody else may read it.
_SECRETS = "secrets.env"


def make_starter(folder: Path) -> list[Path]:
    """Write a configuration with one schedule, one route and one webhook; again, finish one.

    Args:
        folder: where; made where it is missing.

    Returns:
        The files; the configuration is not sealed yet.

    Raises:
        Refused: there is a configuration already, another file in the place of one, or a link that
            leaves the folder.
        AckbusError: it can't be written to.
    """
    if os.path.lexists(folder / _CONFIG):
        raise Refused(f"there is a configuration already: {folder / _CONFIG}")
    within = Enclosure(str(folder))
    try:
        there = {name: within.read(name) for name in (_SECRETS, *_FILES)}
        others = [
            name for name, data in there.items() if data is not None and _is_other(name, data)
        ]
        if others:
            names = ", ".join(str(folder / name) for name in others)
            raise Refused(f"other files are there: {names}; name another folder")
        for name, text in {_SECRETS: _secrets(), **_FILES}.items():
            if there[name] is None:
                with within.spot(name, make=0o700) as spot:
                    spot.replace(text.encode(), mode=_mode(name))
    except OSError as error:
        raise AckbusError(f"can't write to {error.filename or folder}: {error.strerror}") from error
    return [folder / name for name in there]


def _secrets() -> str:
    return f"HELLO_SECRET={secrets.token_hex(32)}\n"


def _is_other(name: str, data: bytes) -> bool:
    """Whether the content of a file differs from what an earlier call wrote."""
    if name == _SECRETS:
        return not data.startswith(b"HELLO_SECRET=")
    return data != _FILES[name].encode()


def _mode(name: str) -> int:
    return 0o700 if name == "plugins/hello/run.sh" else 0o600
