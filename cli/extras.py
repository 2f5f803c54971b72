"""The extras: packages that an ordinary installation leaves out."""

from __future__ import annotations

from importlib.util import find_spec

from ..schema.errors import AckbusError

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
    """Return the command that installs an extra."""
    return f"pip install 'ackbus[{extra}]'"
