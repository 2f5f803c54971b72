"""What an ordinary installation leaves out."""

from __future__ import annotations

from importlib.util import find_spec

from ..schema import AckbusError


def require(extra: str, *modules: str) -> None:
    """Make sure that the packages of an extra are installed.

    Raises:
        AckbusError: they are not.
    """
    if not all(map(find_spec, modules)):
        raise AckbusError(f"this needs more packages: in a clone, pip install '.[{extra}]'")
