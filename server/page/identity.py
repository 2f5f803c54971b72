"""The identity of a served bus, by which a running server of it is found.

A server writes no file when it starts, so none is left behind when it dies.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from ...bus.bus import Bus
from ...schema.directory.layout import BUS_DIRECTORY
from ..access.access import GuardedRouter
from ..access.table import SERVER
from ..api.common import TheBus

_PATH = "/page/bus"
#: A server on this machine answers much sooner, unless it is no server of ours.
_PATIENCE_S = 1.0

router = GuardedRouter(SERVER, include_in_schema=False)


@router.get(_PATH)
def which_bus(bus: TheBus) -> dict[str, str]:
    """Return the identity of the bus, without its path."""
    return {"bus": identity(bus)}


@router.get("/page/project")
def which_project(bus: TheBus) -> dict[str, str]:
    """Return the name of the project directory of this bus, to authenticated clients."""
    directory = Path(bus.layout.directory)
    return {"project": (directory.parent if directory.name == BUS_DIRECTORY else directory).name}


def identity(bus: Bus) -> str:
    """Return the identity of a bus: the same for all its servers on this machine, and unique."""
    stat = os.stat(bus.layout.directory)
    return f"{stat.st_dev:x}-{stat.st_ino:x}"


def is_served_at(bus: Bus, host: str, port: int) -> bool:
    """Whether a server of this bus answers at an address."""
    connection = HTTPConnection(host, port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", _PATH)
        found: Any = json.loads(connection.getresponse().read(1000))
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(found, dict) and found.get("bus") == identity(bus)
