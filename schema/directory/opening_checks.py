"""The checks of a directory before its bus is opened, which look at no content of its file."""

from __future__ import annotations

import os

from ..errors import BusNotFound
from ..system_errors import read_only, unreachable
from .folder import Obstructed
from .layout import BUS_DIRECTORY, Layout, refuse_links, refuse_network_filesystem, remains_of_bus


def require_bus(layout: Layout) -> None:
    """Raise unless there is a bus in a directory, and it can be opened.

    Raises:
        BusNotFound: there is none.
        BusUnusable: it can't be opened.
    """
    try:
        layout.files.check("bus.db")
        found = layout.files.look("bus.db")
    except Obstructed:
        raise
    except OSError as error:
        raise unreachable(layout.directory, error) from error
    if found is None or found.st_size == 0:
        raise _no_bus(layout)
    refuse_place(layout)


def refuse_place(layout: Layout) -> None:
    """Raise where no bus can be opened, whatever is in its file.

    Raises:
        BusUnusable: it may not be written, has a symbolic link, or is on a network filesystem.
    """
    closed = read_only(layout.directory)
    if closed is not None:
        raise closed
    refuse_links(layout.directory)
    refuse_network_filesystem(layout.directory)


def _no_bus(layout: Layout) -> BusNotFound:
    """Return the error for a directory without a bus; often its parent was named."""
    inside = os.path.join(layout.directory, BUS_DIRECTORY)
    if os.path.exists(Layout(inside).database):
        return BusNotFound(f"no bus in {layout.directory}; did you mean {inside}?")
    remains = remains_of_bus(layout)
    return BusNotFound(remains or f"no bus in {layout.directory}; make one with 'bus init'")
