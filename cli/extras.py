"""The extras: packages that an ordinary installation leaves out, and the line that adds them here.

The line works where this program is installed: it names the installer and the Python of this
installation, and the source that it came from. A name alone would make pip take whatever the index
has under it, which may be another's package.
"""

from __future__ import annotations

import os
import shlex
import sys
from importlib.util import find_spec

from ..schema.errors import AckbusError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.metadata import Distribution

_PROJECT = "ackbus"

#: The names of the folders that installers fill.
_PACKAGE_FOLDERS = ("site-packages", "dist-packages")

#: The extra of each package, by import name, that a command may find missing while it runs.
_EXTRAS = {
    **dict.fromkeys(("blake3", "pydantic", "ruamel"), "automation"),
    **dict.fromkeys(("fastapi", "uvicorn", "websockets"), "server"),
    "mcp": "mcp",
}


def require(extra: str, *modules: str) -> None:
    """Make sure that the packages of an extra are installed.

    Raises:
        AckbusError: they are not.
    """
    if not are_installed(*modules):
        raise AckbusError(sentence_about(extra))


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are installed."""
    return are_installed(*(name for name, of in _EXTRAS.items() if of == extra))


def are_installed(*modules: str) -> bool:
    """Whether these packages are installed."""
    return all(map(find_spec, modules))


def hint_of_missing(error: ImportError) -> str | None:
    """Return how to install the extra whose package an import has not found, or None."""
    package = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package) if isinstance(error, ModuleNotFoundError) else None
    return None if extra is None else sentence_about(extra)


def sentence_about(extra: str) -> str:
    """Return the sentence that asks for an extra."""
    return f"this needs more packages: {install_command(extra)}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra here, quoted for a shell."""
    from importlib.metadata import distributions

    tool = _tool()
    # Not in the working directory, which Python may search too: what is in a clone is data.
    places = [place for place in sys.path if os.path.basename(place) in _PACKAGE_FOLDERS]
    package = next(iter(distributions(name=_PROJECT, path=places)), None)
    if package is None:  # it runs from a folder, without an installation
        return shlex.join([*_adding(), f"{_PROJECT}[{extra}]"])
    # Tools that own their environment make it again, so the extras that are there are named too.
    there = [name for name in dict.fromkeys(_EXTRAS.values()) if is_installed(name)]
    extras = ",".join(sorted({extra, *there})) if tool else extra
    source = _source(package, extras)
    if source is None:
        return shlex.join([*_adding(), *_requirements(package, extra)])
    return shlex.join([*(tool or _adding()), *source])


def _tool() -> list[str] | None:
    """Return the command of the tool that made this environment for this program alone, or None."""
    for file, command in (
        ("pipx_metadata.json", ["pipx", "install", "--force"]),
        ("uv-receipt.toml", ["uv", "tool", "install", "--force"]),
    ):
        if os.path.exists(os.path.join(sys.prefix, file)):
            return command
    return None


def _adding() -> list[str]:
    """Return the command that adds packages to this environment."""
    python = sys.executable or "python3"
    if find_spec("pip") is None:  # as in the environments that uv makes
        return ["uv", "pip", "install", "--python", python]
    return [python, "-m", "pip", "install"]


def _source(package: Distribution, extras: str) -> list[str] | None:
    """Return where this program was installed from, as pip takes it with extras; None: it is gone.

    The installer has recorded it, in the form of the standard for direct URLs.
    """
    text = package.read_text("direct_url.json")
    if text is None:  # it came from an index, by its name
        return [f"{_PROJECT}[{extras}]"]
    import json

    origin: Mapping[str, object] = json.loads(text)
    url = str(origin["url"])
    path = _path(url)
    if path is not None and not os.path.exists(path):
        return None
    match origin:
        case {"dir_info": {"editable": True}} if path is not None:
            return ["--editable", f"{path}[{extras}]"]
        case {"vcs_info": {"vcs": vcs, "commit_id": commit}}:
            url = f"{vcs}+{url}@{commit}"
    folder = origin.get("subdirectory")
    return [f"{_PROJECT}[{extras}] @ {url}" + (f"#subdirectory={folder}" if folder else "")]


def _path(url: str) -> str | None:
    """Return the path of a URL of a file, or None."""
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else None


def _requirements(package: Distribution, extra: str) -> list[str]:
    """Return the packages of an extra themselves, which need no source of this program."""
    rows = [row.partition(";") for row in package.requires or ()]
    ours = f"extra=={extra}"
    return [
        needed.strip()
        for needed, _, condition in rows
        if condition.replace(" ", "").replace('"', "").replace("'", "") == ours
    ]
