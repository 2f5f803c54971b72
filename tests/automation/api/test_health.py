"""The health of a service, for monitors."""

import pytest

from ackbus import Bus

from ..conftest import Folder
from ..running import OK
from .serving import API, api_of

pytestmark = pytest.mark.slow


@pytest.mark.requirement("X-18")
def test_x_18_health_needs_no_token_and_has_the_fields_of_all_readers(
    bus: Bus, folder: Folder
) -> None:
    folder.plugin("echo", run=OK)
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}}
        """,
    )
    with api_of(bus, folder) as served:
        answer = served.client(None).get("/healthz")
        assert served.client(None).head("/healthz").status_code == 200
    body = answer.json()
    assert answer.status_code == 200
    assert (body["ok"], body["status"], body["plugins_loaded"]) == (True, "ok", 1)
    assert (body["queue_depth"], body["plugins_circuit_open"]) == (0, 0)
    assert body["config_path"] == str(folder.path)
    assert body["protocolVersion"] == "0.1.0"
    assert {"uptime_seconds", "binary_path", "version"} <= body.keys()
