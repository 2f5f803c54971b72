"""A real server process, asked by a real client."""

import json
import os
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ackbus import Bus

from ..command_server import CommandServer, door_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .browsing import Visit

BUS = Path(sysconfig.get_path("scripts"), "bus")

Serve = Callable[..., httpx.Client]


@pytest.fixture(scope="session")
def command_server() -> CommandServer:
    """The process in whose forks commands run: one that has loaded what servers load."""
    return door_server()


@contextmanager
def serving(bus_dir: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """A server of a bus on a free port; gives its URL, and ends it well."""
    port = [] if "--port" in options else ["--port", "0"]
    words = ["serve", "--json", *port, "--dir", str(bus_dir), *options]
    out, theirs = os.pipe()
    with (
        open(os.devnull) as nothing,
        door_server().start(
            [os.fsencode(word) for word in words],
            (nothing.fileno(), theirs, 2),
            cwd=Path.cwd(),
            env=env or dict(os.environ),
        ) as server,
        open(out, encoding="utf-8") as lines,
    ):
        os.close(theirs)
        line = lines.readline()
        try:
            yield str(json.loads(line)["url"])
        finally:
            server.terminate()
            assert server.wait(60) == 0


@pytest.fixture
def serve(bus_dir: Path, bus_env: dict[str, str]) -> Iterator[Serve]:
    """Starts a server of the bus with some options, and returns a client of it."""
    with ExitStack() as stack:

        def start(*options: str, **client: Any) -> httpx.Client:
            url = stack.enter_context(serving(bus_dir, *options, env=bus_env))
            return stack.enter_context(httpx.Client(base_url=url, timeout=60, **client))

        yield start


@pytest.fixture
def client(serve: Serve) -> httpx.Client:
    """A client of a server that needs no token."""
    return serve()


def problem(response: httpx.Response, status: int, kind: str) -> str:
    """Checks that a response is a certain problem, and returns its detail."""
    assert response.headers["Content-Type"] == "application/problem+json"
    body = response.json()
    assert (response.status_code, body["status"]) == (status, status), body
    assert body["type"] == f"urn:ackbus:{kind}"
    assert body["title"]
    assert body["detail"]
    return str(body["detail"])


Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(client: httpx.Client) -> Samples:
    """All samples: by name, and the values of their labels."""
    response = client.get("/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


# A server takes a while to start: tests that use names of their own share one for a module.


@pytest.fixture(scope="module")
def one_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """The bus of all tests of a module."""
    with Bus.init(tmp_path_factory.mktemp("project") / ".worker-state") as bus:
        yield bus


@pytest.fixture(scope="module")
def one_client(one_bus: Bus) -> Iterator[httpx.Client]:
    """A client of the one server of a module."""
    directory = Path(one_bus.layout.directory)
    with serving(directory) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One browser for the tests of a module; each has pages of its own."""
    from .browsing import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: "Browser") -> "Iterator[Visit]":
    """Opens pages; the test fails when anything went wrong on one."""
    from .browsing import troubles_of

    with ExitStack() as stack:
        heard = []

        def open_page(address: str, **options: Any) -> "Page":
            page = stack.enter_context(browser.new_context(**options)).new_page()
            heard.append(troubles_of(page))
            page.goto(address)
            return page

        yield open_page
        assert [trouble for troubles in heard for trouble in troubles] == []
