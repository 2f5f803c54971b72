"""The extras: packages that an ordinary installation leaves out."""

from __future__ import annotations

from importlib.util import find_spec

from ..schema.errors import AckbusError


def require(extra: str, *modules: str) -> None:
    """Make sure that the packages of an extra are installed.

    Raises:
        AckbusError: they are not.
    """
    if not are_installed(*modules):
        raise AckbusError(f"this needs more packages: {installing(extra)}")


def are_installed(*modules: str) -> bool:
    """Whether these packages are installed."""
    return all(map(find_spec, modules))


def installing(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'ackbus[{extra}]'"
