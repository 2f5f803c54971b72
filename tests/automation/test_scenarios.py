"""Scenarios that are public for Ductile, in words of our own: each loads, and does its work."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.routes.runs import wait
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from .api.serving import KEYS, Served, api_of
from .conftest import Folder
from .running import OK
from .scenarios import API, CONFIG, SCENARIOS, together
from .webhooks.receiving import receiving
from .webhooks.senders import GITHUB_SECRET, mac

FORGED = "sha256=" + "0" * 64

#: The plugins of which schedules make more jobs, as long as the service runs.
SCHEDULED = {"watch_file", "watch_all"}


def jobs_of(bus: Bus) -> Counter[tuple[str, str]]:
    """Count the jobs of each plugin in each state, but for those of schedules."""
    rows = file_of(bus).rows("SELECT plugin, status FROM job_queue")
    return Counter((plugin, status) for plugin, status in rows if plugin not in SCHEDULED)


def ask(served: Served, root: Path, path: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Post a payload, wait until what it began is over, and return the answer."""
    text = json.dumps({"payload": payload})
    for name, place in (("URL", served.url), ("ROOT", str(root))):
        text = text.replace(name, place)
    answer = served.client().post(path, json=json.loads(text))
    assert answer.status_code in {200, 202}, answer.text
    body: dict[str, Any] = answer.json()
    if job := body.get("root") or body.get("job_id"):
        assert wait(served.bus, job, 120).is_over
    return body


def test_the_table_has_those_that_are_public() -> None:
    assert len(SCENARIOS) + len((test_a_webhook, test_secrets_of_a_view)) == 17


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_loads_without_a_fault(folder: Folder, name: str) -> None:
    snapshot = examine_folder(SCENARIOS[name].write(folder).path, KEYS)
    assert snapshot.faults == ()
    assert set(snapshot.plugins) == set(SCENARIOS[name].programs)


@pytest.mark.slow
def test_scenarios_do_what_they_are_for(bus: Bus, folder: Folder) -> None:
    """One service has them all; what hooks and schedules begin is waited for at the end."""
    scenario = together(SCENARIOS.values())
    root = folder.path.parent / "root"
    root.mkdir()
    with api_of(bus, scenario.write(folder)) as served:
        for path in ("/plugin/echo/poll", "/pipeline/call"):
            assert served.client(None).post(path).status_code == 401
        bodies = {path: ask(served, root, path, payload) for path, payload in scenario.asks}
        for name in ("one.txt", "two.txt"):
            (root / name).write_text("1")
        wait_until(lambda: jobs_of(bus) == Counter(scenario.ended), 120)
    assert bodies["/pipeline/both"]["result"]["result"] == "B"
    ran = [job["plugin"] for job in bodies["/pipeline/both"]["tree"]]
    assert ran == ["core.switch", "first", "second"]
    for file, values in scenario.kept.items():
        kept = json.loads((folder.path.parent / file).read_text())
        assert kept | values == kept
    assert not (folder.path.parent / "b").exists()


WEBHOOK = """
    log_level: info
    service: {strict_mode: false}
    state: {path: "./state/ductile.db"}
    plugin_roots: ["./plugins"]
    plugins: {echo: {enabled: true}}
    tokens:
      - {name: hook, key: "${GITHUB}"}
    webhooks:
      listen: "127.0.0.1:0"
      endpoints:
        - path: /webhook/code
          plugin: echo
          secret_ref: hook
          signature_header: X-Hub-Signature-256
          max_body_size: 1MB
"""


def test_a_webhook(bus: Bus, folder: Folder) -> None:
    folder.write(config=WEBHOOK)
    folder.plugin("echo", run=OK)
    folder.lock()
    with receiving(bus, folder.path) as receiver:
        body = b'{"event": "push"}'
        signed = f"sha256={mac(GITHUB_SECRET.encode(), body).hex()}"
        for signature, status in ((signed, 202), (FORGED, 403)):
            headers = {"X-Hub-Signature-256": signature, "Content-Type": "application/json"}
            assert receiver.send(("/webhook/code", headers, body)).status_code == status
        wait_until(lambda: jobs_of(bus) == Counter({("echo", "succeeded"): 1}))


SECRETS = """
plugins:
  app:
    enabled: true
    config: {public: shown, nested: {api_key: INNER-SECRET}}
    schedules: [{every: 1h, payload: {token: SCHEDULED-SECRET}}]
"""


@pytest.mark.slow
def test_secrets_of_a_view(bus: Bus, folder: Folder) -> None:
    folder.write(config=CONFIG, api=API, pipelines="pipelines: []\n")
    folder.write_as("plugins.yaml", SECRETS)
    folder.plugin("app", run=OK)
    with api_of(bus, folder) as served:
        hashes = []
        for secret in ("SCHEDULED-SECRET", "OTHER-SECRET"):
            folder.write_as("plugins.yaml", SECRETS.replace("SCHEDULED-SECRET", secret))
            assert served.client().post("/system/reload").status_code == 200
            answer = served.client().get("/config/view")
            assert "SECRET" not in answer.text
            assert answer.json()["plugins"]["app"]["config"]["public"] == "shown"
            hashes.append(served.running.service.snapshot.config.hash)
    assert hashes[0] != hashes[1]
