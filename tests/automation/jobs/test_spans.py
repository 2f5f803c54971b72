"""Spans of jobs, in a service that makes them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ackbus import Bus

from ..conftest import Folder
from ..running import response

pytestmark = pytest.mark.slow

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"

#: A service that makes spans, and prints them when a job and what follows of it are over.
SERVICE = """
import json, sys, threading, time
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from ackbus import Bus
from ackbus.automation.jobs.submission import JobRequest
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.service import Service
from ackbus.automation.active_config import examine_folder

def use(service):
    with Bus.open(sys.argv[1]) as bus:
        asked = bus.publish("asked", from_agent="lead", headers={"traceparent": sys.argv[3]})
        request = JobRequest(
            plugin="look", command="poll", submitted_by="cli", parent=bus.get(asked.id)
        )
        Submission(bus).submit(request)
        while len(list(bus.read(type="plugin.ended"))) < 2:
            time.sleep(0.01)
    service.stop()

with Bus.open(sys.argv[1]) as bus:
    service = Service(bus, lambda: examine_folder(Path(sys.argv[2]), {}))
    service.run(threading.Thread(target=use, args=[service]).start)
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


def test_a_job_and_what_follows_of_it_are_spans_of_one_trace(bus: Bus, folder: Folder) -> None:
    folder.write(
        config="""
        plugin_roots: [plugins]
        plugins:
          look: {enabled: true}
          note: {enabled: true, retry: {max_attempts: 1}}
        routes: [{from: look, event_type: seen, to: note}]
        """
    )
    folder.plugin("look", run=response(events=[{"type": "seen", "payload": {}}]))
    told = '"$TRACEPARENT" > trace\necho \'{"status": "error", "error": "no"}\''
    folder.plugin("note", run=f"#!/bin/sh\ncat > /dev/null\necho {told}\n")
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, bus.directory, folder.path, PARENT],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    spans = {each["name"]: each for each in json.loads(done.stdout.splitlines()[-1])}
    for name in ("claim plugin.look", "process plugin.look.poll", "process plugin.note.handle"):
        assert spans[name]["context"]["trace_id"] == f"0x{TRACE}", name
    assert spans["process plugin.note.handle"]["status"]["status_code"] == "ERROR"
    assert spans["process plugin.look.poll"]["status"]["status_code"] == "UNSET"
    program = (Path(folder.path) / "plugins/note/trace").read_text().strip()
    span_id = spans["process plugin.note.handle"]["context"]["span_id"].removeprefix("0x")
    assert program == f"00-{TRACE}-{span_id}-01"
