"""The API of a service that is a process of its own, as operators start it."""

import re
import socket
from pathlib import Path

import httpx
import pytest

from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess

KEY = "the-key"


def configured(folder: Folder, listen: str, *, enabled: bool = True) -> Path:
    folder.plugin("echo", run=OK)
    folder.write(
        config=f"""
        plugin_roots: [plugins]
        plugins: {{echo: {{enabled: true}}}}
        api:
          enabled: {str(enabled).lower()}
          listen: {listen}
          auth: {{tokens: [{{token: "${{API_KEY}}", scopes: ["*"]}}]}}
        """
    )
    return folder.path


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def is_closed(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) != 0


@pytest.mark.slow
def test_d_111_the_api_listens_where_the_configuration_says(folder: Folder) -> None:
    address = free_address()
    with ServiceProcess(configured(folder, address), API_KEY=KEY).ready() as service:
        assert f"API at http://{address}" in service.told.read_text()
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.post(f"http://{address}/plugin/echo/poll", headers=headers)
        assert answer.status_code == 202
        assert service.stop() == 0
    assert is_closed(address)


def test_d_111_an_api_that_is_not_enabled_listens_nowhere(folder: Folder) -> None:
    address = free_address()
    path = configured(folder, address, enabled=False)
    with ServiceProcess(path, API_KEY=KEY).ready() as service:
        assert is_closed(address)
        assert "API" not in service.told.read_text()


@pytest.mark.slow
def test_a_free_port_is_told(folder: Folder) -> None:
    path = configured(folder, "127.0.0.1:0")
    with ServiceProcess(path, API_KEY=KEY).ready() as service:
        found = re.search(r"API at (http://127\.0\.0\.1:\d+)", service.told.read_text())
        assert found
        assert httpx.get(f"{found[1]}/healthz").json()["ok"] is True


def test_an_address_that_is_taken_keeps_the_service_from_starting(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with ServiceProcess(configured(folder, address), API_KEY=KEY) as service:
            assert service.process.wait(60) == 1
            assert f"can't listen on {address}" in service.told.read_text()


@pytest.mark.slow
def test_doors_that_a_reload_asks_for_are_told_to_wait_for_the_next_start(folder: Folder) -> None:
    address = free_address()
    path = configured(folder, address)
    headers = {"Authorization": f"Bearer {KEY}"}
    with ServiceProcess(path, API_KEY=KEY).ready() as service:
        more = "webhooks: {listen: 127.0.0.1:0, endpoints: []}\n"
        config = path / "config.yaml"
        config.write_text(config.read_text() + more)
        answer = httpx.post(f"http://{address}/system/reload", headers=headers, timeout=60)
        told = "webhooks.listen has changed: it counts from the next start on"
        assert answer.json()["warnings"] == [told]
        config.write_text(config.read_text().replace("enabled: true\n", "enabled: false\n"))
        answer = httpx.post(f"http://{address}/system/reload", headers=headers, timeout=60)
        assert answer.json()["warnings"] == ["api is off: its port closes at the next start", told]
        assert service.messages().count(told) == 2
        assert service.stop() == 0


@pytest.mark.slow
def test_another_writer_holds_up_no_client_for_long(folder: Folder) -> None:
    """Clients get an answer before they give up; the service itself waits for 30 s."""
    address = free_address()
    headers = {"Authorization": f"Bearer {KEY}"}
    path = configured(folder, address)
    with ServiceProcess(path, API_KEY=KEY).ready() as service, service.open() as bus:
        with bus.transaction():
            url = f"http://{address}/plugin/echo/poll"
            assert httpx.post(url, headers=headers, timeout=60).status_code == 503
        assert service.stop() == 0
