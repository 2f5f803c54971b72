"""`bus ui`: finds the server of this bus, or starts one, and opens the page."""

import json
import shlex
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ackbus import Bus
from ackbus.server.access.tokens import Scope, Tokens

from ..conftest import RunBus, wait_until
from .conftest import serving

pytestmark = pytest.mark.slow

BUS = Path(sysconfig.get_path("scripts"), "bus")


@contextmanager
def running_ui(env: dict[str, str], *options: str | Path) -> Iterator[str]:
    """`bus ui` while it serves; gives the address that it prints."""
    process = subprocess.Popen([BUS, "ui", *options], stdout=subprocess.PIPE, env=env, text=True)
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            assert process.wait(60) == 0


@pytest.fixture
def opened(tmp_path: Path, bus_env: dict[str, str]) -> Path:
    """The file that has the address which a browser was started with."""
    path = tmp_path / "opened"
    program = f"import sys, pathlib; pathlib.Path({str(path)!r}).write_text(sys.argv[1])"
    bus_env["BROWSER"] = f"{shlex.join([sys.executable, '-c', program])} %s"
    return path


def test_ui_starts_a_server_and_opens_the_page(
    bus_dir: Path, bus_env: dict[str, str], opened: Path
) -> None:
    with running_ui(bus_env, "--dir", bus_dir, "--port", "0") as url:
        assert "<title>ackbus</title>" in httpx.get(url).text
        wait_until(lambda: opened.exists() and opened.read_text() == url)


def test_ui_uses_the_server_that_runs(
    bus_dir: Path, bus_env: dict[str, str], run_bus: RunBus, opened: Path
) -> None:
    with serving(bus_dir) as url:
        port = url.rpartition(":")[2]
        ended = run_bus("ui", "--port", port, "--json", env={"BROWSER": bus_env["BROWSER"]})
        assert (ended.code, json.loads(ended.out)) == (0, {"url": url})
        assert opened.read_text() == url


def test_bus_is_not_served_twice_at_one_address(bus_dir: Path, run_bus: RunBus) -> None:
    with serving(bus_dir) as url:
        ended = run_bus("serve", "--port", url.rpartition(":")[2])
        assert (ended.code, ended.err) == (3, f"bus: this bus is served there already, at {url}\n")


def test_ui_leaves_the_server_of_another_bus_alone(
    bus_dir: Path, bus_env: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Bus.init(tmp_path / "other").close()
    with serving(tmp_path / "other") as others:
        port = others.rpartition(":")[2]
        with running_ui(bus_env, "--dir", bus_dir, "--no-open", "--port", port) as url:
            assert url != others
            assert httpx.get(f"{url}/page/bus").json() != httpx.get(f"{others}/page/bus").json()
            assert f"has port {port}: this takes a free one" in capfd.readouterr().err


def test_ui_leaves_a_port_that_another_program_has(bus_dir: Path, bus_env: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with running_ui(bus_env, "--dir", bus_dir, "--no-open", "--port", port) as url:
            assert httpx.get(f"{url}/healthz").json()["ok"]


def test_ui_shows_no_token_to_other_users(
    bus: Bus, bus_dir: Path, bus_env: dict[str, str], opened: Path
) -> None:
    """A command line can be seen by all users of a machine, so a browser is not started with it."""
    Tokens.of(bus).create("ci", [Scope.MESSAGES_RO])
    with running_ui(bus_env, "--dir", bus_dir, "--port", "0") as link:
        url, _, token = link.partition("/#token=")
        headers = {"Authorization": f"Bearer {token}"}
        for guarded in ("v1/newest", "page/project"):
            assert httpx.get(f"{url}/{guarded}").status_code == 401
        assert httpx.get(f"{url}/v1/newest", headers=headers).status_code == 200
        assert httpx.get(f"{url}/v1/queues", headers=headers).status_code == 200
    assert not opened.exists()
