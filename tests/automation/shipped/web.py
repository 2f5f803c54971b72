"""A real server over HTTP, on a free port of this machine."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import parse_headers
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """The answers of a server, by path, and what it was asked.

    Attributes:
        url: of its root.
        pages: the body of each path. A request with its ETag gets 304.
        statuses: the status of each path that is not answered as usual.
        headers: more headers of answers, by path.
        asked: the requests, the first first.
    """

    url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def breaking_off(said: bytes) -> Iterator[str]:
    """Serves one request: says so much of an answer, and ends the connection; yields the URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                with connection.makefile("rb") as request:  # else the close would be a reset
                    request.readline()
                    length = parse_headers(request).get("Content-Length")
                    request.read(int(length or 0))
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def etag_of(page: bytes) -> str:
    return f'"{hashlib.sha256(page).hexdigest()}"'


@contextmanager
def serving() -> Iterator[Site]:
    """Serves a site until the block ends."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            site.asked.append(Asked(self.command, self.path, dict(self.headers), body))
            page = site.pages.get(self.path)
            status = site.statuses.get(self.path, 404 if page is None else 200)
            etag = etag_of(page or b"")
            if status == 200 and self.headers.get("If-None-Match") == etag:
                status, page = 304, b""
            self.send_response(status)
            for name, value in site.headers.get(self.path, {}).items():
                self.send_header(name, value)
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
