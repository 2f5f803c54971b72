"""The files of the page, with a strict content security policy.

All text on the page was written by agents, so a browser may run, style and load nothing but these
files, and may make no markup out of text. The files hold no data: without a token, the page has
none.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, Any

from fastapi import Header, Response

from ...bus.local_bus import LocalBus
from ...schema.directory.layout import BUS_DIRECTORY
from ...schema.errors import NotFound
from ..access.access import GuardedRouter
from ..access.table import SERVER
from ..api.common import TheBus, has_tag

# The identity of a served bus, by which a running server of it is found.
#
# A server writes no file when it starts, so none is left behind when it dies.

_PATH = "/page/bus"
#: A server on this machine answers much sooner, unless it is no server of ours.
_PATIENCE_S = 1.0

# The operations below stand before `page_file`, which would take their addresses for files.
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


def identity(bus: LocalBus) -> str:
    """Return the identity of a bus: the same for all its servers on this machine, and unique."""
    stat = os.stat(bus.layout.directory)
    return f"{stat.st_dev:x}-{stat.st_ino:x}"


def is_served_at(bus: LocalBus, host: str, port: int) -> bool:
    """Whether a server of this bus answers at an address."""
    connection = HTTPConnection(host, port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", _PATH)
        answer: Any = json.loads(connection.getresponse().read(1000))
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        connection.close()
    return isinstance(answer, dict) and answer.get("bus") == identity(bus)


_ROOT = Path(__file__).with_name("static")

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

#: The content security policy; the last two make the browser refuse to parse markup from a text.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time, so a new version is seen at once
}


@dataclass(frozen=True)
class _StaticFile:
    body: bytes
    media_type: str
    tag: str


def _read(path: Path) -> _StaticFile:
    body = path.read_bytes()
    return _StaticFile(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


#: The files by name. No other file can be requested, whatever its name looks like.
_FILES = {
    path.relative_to(_ROOT).as_posix(): _read(path)
    for path in _ROOT.rglob("*")
    if path.suffix in _TYPES
}

IfNoneMatch = Annotated[str | None, Header()]


@router.get("/")
async def page(if_none_match: IfNoneMatch = None) -> Response:
    """Return the page."""
    return await page_file("index.html", if_none_match)


@router.get("/page/{name:path}")
async def page_file(name: str, if_none_match: IfNoneMatch = None) -> Response:
    """Return a file of the page."""
    file = _FILES.get(name)
    if file is None:
        raise NotFound(f"the page has no file {name[:80]!a}")
    headers = _HEADERS | {"ETag": file.tag}
    if has_tag(if_none_match, file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)
