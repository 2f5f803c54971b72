"""Results of jobs are in the log: searched, traced, exported."""

import json
from pathlib import Path
from typing import Any

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.events import ENDED
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.routes.router import Router
from ackbus.automation.routes.runs import RunTree
from ackbus.export.jsonl.exporter import Exporter

from ..conftest import RunBus, wait_until
from .conftest import Folder
from .running import response, running

CONFIG = """
    plugin_roots: [plugins]
    plugins:
      look: {enabled: true}
      break: {enabled: true, retry: {max_attempts: 2, backoff_base: 1ms}}
    pipelines:
      - name: report
        on: day.over
        steps:
          - {id: first, uses: look.poll}
          - {id: second, uses: look}
"""


def ended(bus: Bus) -> list[dict[str, Any]]:
    return [message.payload for message in bus.read(type=ENDED)]


def configured(folder: Folder) -> Folder:
    folder.write(config=CONFIG)
    folder.plugin("look", run=response(result="42 percent of the cellar are used"))
    folder.plugin("break", run=response(status="error", error="the pump leaks"))
    return folder


def test_what_a_plugin_returned_is_found_by_its_words(bus: Bus, folder: Folder) -> None:
    with running(bus, configured(folder).path) as service:
        done = service.submit("look")
        failed = service.submit("break")
        service.ended(done)
        service.ended(failed)
    (found,) = bus.search("cellar")
    assert found.message.in_reply_to == done
    assert found.message.payload == {
        "plugin": "look",
        "command": "poll",
        "status": "succeeded",
        "attempt": 1,
        "result": "42 percent of the cellar are used",
    }
    (found,) = bus.search("pump")  # two attempts are one end
    assert found.message.in_reply_to == failed
    assert (found.message.payload["status"], found.message.payload["attempt"]) == ("dead", 2)
    assert found.message.payload["error"] == "the pump leaks"


def test_the_whole_run_of_a_pipeline_is_in_the_export_and_its_trace(
    bus: Bus, folder: Folder, run_bus: RunBus
) -> None:
    snapshot = examine_folder(configured(folder).path, {})
    with running(bus, folder.path):
        router = Router(bus, snapshot.config, snapshot.plugins)
        with bus.transaction():
            (request,) = router.begin("report", None, submitted_by="cli")
            first = Submission(bus).submit(request)
        wait_until(lambda: RunTree.of(bus, first.job_id).is_over)
    Exporter(bus).export_once()
    lines = [json.loads(line) for line in Path(bus.layout.jsonl).read_text().splitlines()]
    steps = [line for line in lines if line["type"] in ("plugin.look.poll", "plugin.look.handle")]
    ends = [line for line in lines if line["type"] == ENDED]
    assert [line["headers"]["job"]["step"] for line in steps] == ["first", "second"]
    assert [line["in_reply_to"] for line in ends] == [line["id"] for line in steps]
    assert {line["payload"]["status"] for line in ends} == {"succeeded"}
    assert len({line["correlation_id"] for line in steps + ends}) == 1
    told = run_bus("trace", first.job_id, "--dir", bus.directory).out
    assert told.count(ENDED) == 2
