"""Telling buses apart: finding a server that runs already, by asking it which bus it serves.

Nothing is written down when a server starts, so nothing is left behind when one dies.
"""

from __future__ import annotations

import json
import os
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter

from ...bus import Bus
from ...schema import BUS_DIRECTORY
from ..access import needs
from ..api.common import TheBus
from ..principals import Principal

_PATH = "/page/bus"
#: A server on this machine answers much sooner, unless it is no server of ours.
_PATIENCE_S = 1.0

router = APIRouter(include_in_schema=False)


@router.get(_PATH)
def which_bus(bus: TheBus) -> dict[str, str]:
    """Say which bus this is, without saying where it is."""
    return {"bus": identity(bus)}


@router.get("/page/project")
def which_project(bus: TheBus, _: Annotated[Principal, needs()]) -> dict[str, str]:
    """Say what people call this bus: the name of the directory that has it, to those let in."""
    directory = Path(bus.layout.directory)
    return {"project": (directory.parent if directory.name == BUS_DIRECTORY else directory).name}


def identity(bus: Bus) -> str:
    """Return what is the same for all servers of a bus on this machine, and for no other's."""
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
