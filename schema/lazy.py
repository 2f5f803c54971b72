"""Packages that load a module when one of its names is used for the first time."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def on_first_use(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: its name.
        names: the names of each of its modules, with spaces between them; under "" those that are
            modules themselves.
    """
    homes = {name: module for module, there in names.items() for name in there.split()}

    def load(name: str) -> object:
        module = homes.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        found = import_module(f".{module or name}", package)
        value = getattr(found, name) if module else found
        setattr(sys.modules[package], name, value)
        return value

    return load
