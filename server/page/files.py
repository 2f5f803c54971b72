"""The files of the page, with a strict content security policy.

All text on the page was written by agents, so a browser may run, style and load nothing but these
files, and may make no markup out of text. The files hold no data: without a token, the page has
none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fastapi import Header, Response

from ...schema.errors import NotFound
from ..access.access import GuardedRouter
from ..access.table import SERVER
from ..api.common import has_tag

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

router = GuardedRouter(SERVER, include_in_schema=False)


@dataclass(frozen=True)
class _File:
    body: bytes
    media_type: str
    tag: str


def _read(path: Path) -> _File:
    body = path.read_bytes()
    return _File(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


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
