"""Scenarios that are public for Ductile: each loads, and does what it is for."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus
from ackbus.automation.routes.tree import wait
from ackbus.automation.snapshots import examine_folder

from ..conftest import wait_until
from .api.serving import KEYS, Served, api_of
from .conftest import Folder
from .running import OK
from .scenarios import API, CONFIG, SCENARIOS
from .webhooks.receiving import receiving
from .webhooks.senders import GITHUB_SECRET, mac

FORGED = "sha256=" + "0" * 64


class Stage:
    """A scenario whose service runs.

    Args:
        served: the service.
        root: the folder that its plugins of files work in.
    """

    def __init__(self, served: Served, root: Path) -> None:
        self.served = served
        self.root = root

    def jobs(self) -> Counter[tuple[str, str]]:
        """Return the count of jobs of each plugin in each state."""
        return jobs_of(self.served.bus)

    def ask(self, path: str, payload: dict[str, Any]) -> Any:
        """Posts a payload, waits until what it began is over, and returns the answer."""
        text = json.dumps({"payload": payload})
        for name, place in (("URL", self.served.url), ("ROOT", str(self.root))):
            text = text.replace(name, place)
        answer = self.served.client().post(path, json=json.loads(text))
        assert answer.status_code in {200, 202}, answer.text
        told = answer.json()
        if job := told.get("root") or told.get("job_id"):
            assert wait(self.served.bus, job, 60).is_over
        return told

    def kept(self) -> Any:
        """Return the text that a plugin has written beside the folder of configuration."""
        return json.loads((self.root.parent / "kept").read_text())


def jobs_of(bus: Bus) -> Counter[tuple[str, str]]:
    """Return the count of jobs of each plugin in each state."""
    with closing(sqlite3.connect(Path(bus.layout.directory) / "bus.db")) as file:
        return Counter(file.execute("SELECT plugin, status FROM job_queue").fetchall())


@contextmanager
def staged(name: str, bus: Bus, folder: Folder) -> Iterator[Stage]:
    """Runs the service of a scenario until the block ends."""
    root = folder.path.parent / "root"
    root.mkdir(exist_ok=True)
    with api_of(bus, SCENARIOS[name].write(folder)) as served:
        yield Stage(served, root)


def test_the_table_has_those_that_are_public() -> None:
    assert len(SCENARIOS) + len((test_a_webhook, test_secrets_of_a_view)) == 17


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_loads_without_a_fault(folder: Folder, name: str) -> None:
    snapshot = examine_folder(SCENARIOS[name].write(folder).path, KEYS)
    assert snapshot.faults == ()
    assert set(snapshot.plugins) == set(SCENARIOS[name].programs)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_does_what_it_is_for(bus: Bus, folder: Folder, name: str) -> None:
    scenario = SCENARIOS[name]
    with staged(name, bus, folder) as stage:
        for path, payload in scenario.asks:
            stage.ask(path, payload)
        if scenario.at_least:
            (stage.root / "one.txt").write_text("1")
            (stage.root / "two.txt").write_text("2")
            wait_until(lambda: stage.jobs() >= Counter(scenario.ended))
        else:
            wait_until(lambda: stage.jobs() == Counter(scenario.ended))


def test_without_a_token_nothing_is_called(bus: Bus, folder: Folder) -> None:
    with staged("a call of a plugin and of a pipeline", bus, folder) as stage:
        for path in ("/plugin/echo/poll", "/pipeline/p"):
            assert stage.served.client(None).post(path).status_code == 401
        assert not stage.jobs()


def test_a_step_is_given_what_its_templates_say(bus: Bus, folder: Folder) -> None:
    with staged("a step under a condition, with its payload remapped", bus, folder) as stage:
        payload = {"wanted": True, "subject": "it", "state": "approved"}
        stage.ask("/pipeline/p", payload)
        assert stage.kept() == payload | {"text": "for it"}


def test_a_hook_is_told_of_the_job(bus: Bus, folder: Folder) -> None:
    with staged("a hook that calls a pipeline", bus, folder) as stage:
        stage.ask("/plugin/root/poll", {"message": "x"})
        wait_until(lambda: stage.jobs()["told", "succeeded"] == 1)
        told = stage.kept()
        assert (told["plugin"], told["command"], told["status"]) == ("root", "poll", "succeeded")


def test_a_synchronous_run_answers_with_its_last_step(bus: Bus, folder: Folder) -> None:
    with staged("a synchronous pipeline whose first step is left out", bus, folder) as stage:
        body = stage.ask("/pipeline/p", {"first": False})
        assert body["result"]["result"] == "B"
        body = stage.ask("/pipeline/p", {"first": True})
        assert [job["plugin"] for job in body["tree"]] == ["first", "second"]


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


def test_secrets_of_a_view(bus: Bus, folder: Folder) -> None:
    folder.write(config=CONFIG, api=API, pipelines="pipelines: []\n")
    folder.plugin("app", run=OK)
    hashes = []
    for secret in ("SCHEDULED-SECRET", "OTHER-SECRET"):
        folder.write_as("plugins.yaml", SECRETS.replace("SCHEDULED-SECRET", secret))
        with api_of(bus, folder) as served:
            answer = served.client().get("/config/view")
            assert "SECRET" not in answer.text
            assert answer.json()["plugins"]["app"]["config"]["public"] == "shown"
            hashes.append(served.running.service.snapshot.config.hash)
    assert hashes[0] != hashes[1]
