"""W3C trace context on its way through the bus, and the spans of a process that makes them."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ackbus import Bus

from ..conftest import RunBus
from .conftest import Serve

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"

#: A server, a worker and an inbox in one process that makes spans, which it prints.
TRACED = """
import json, os, signal, sys, threading
import httpx
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from ackbus import Bus, Inbox, NeverRetry, Worker
from ackbus.server import Options, serve

def use(url):
    message = {"type": "job.request", "from": "lead"}
    headers = {"traceparent": sys.argv[2]}
    assert httpx.post(f"{url}/v1/messages", json=message, headers=headers).status_code == 201
    with Bus.open(sys.argv[1]) as bus:
        def handle(message):
            bus.publish("job.seen", from_agent="worker")
            raise NeverRetry("no")
        Worker(bus, "job.request").run(handle, once=True)
        Inbox(bus, "lead").run(lambda message: None, drain=True)

def use_and_stop(url):
    try:
        use(url)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)

with Bus.open(sys.argv[1]) as bus:
    def start(url):
        threading.Thread(target=use_and_stop, args=[url]).start()
    serve(bus, Options(port=0), on_ready=start)
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


def test_message_takes_the_trace_of_the_request_that_publishes_it(
    client: httpx.Client, bus: Bus
) -> None:
    """Q-22: and keeps its own, where it has one."""
    given = {"traceparent": PARENT, "tracestate": "vendor=1"}
    own = PARENT.replace("b7", "c7")
    for headers in (None, {"traceparent": own}, {"mine": 1}):
        body = {"type": "t", "from": "a", "headers": headers}
        assert client.post("/v1/messages", json=body, headers=given).status_code == 201
    assert [message.headers for message in bus.read()] == [
        given,
        {"traceparent": own},
        {"mine": 1, **given},
    ]


@pytest.mark.parametrize(
    "given", ["", "00-zz", PARENT.upper(), f"{PARENT}-more", "00-" + "x" * 32 + "-" + "y" * 16]
)
def test_what_is_no_trace_context_is_not_stored(client: httpx.Client, bus: Bus, given: str) -> None:
    client.post("/v1/messages", json={"type": "t", "from": "a"}, headers={"traceparent": given})
    assert next(bus.read()).headers == {}


def test_trying_again_in_another_span_is_no_conflict(serve: Serve, bus: Bus) -> None:
    """Each attempt of a client that is traced has a span of its own."""
    client = serve()
    body = {"type": "t", "from": "a", "id": "one", "headers": {"mine": 1}}
    for parent, status in ((PARENT, 201), (PARENT.replace("b7", "c7"), 200)):
        response = client.post("/v1/messages", json=body, headers={"traceparent": parent})
        assert response.status_code == status
    assert bus.log.newest_seq() == 1


def test_command_publishes_in_the_trace_that_it_was_started_in(run_bus: RunBus, bus: Bus) -> None:
    """Q-22: a worker's command has it in its environment."""
    run_bus("publish", "t", "--from", "a", env={"TRACEPARENT": PARENT})
    run_bus("publish", "t", "--from", "a", env={"TRACEPARENT": "nonsense"})
    assert [message.headers for message in bus.read()] == [{"traceparent": PARENT}, {}]


def test_request_publication_and_handling_are_spans_of_one_trace(bus_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRACED, bus_dir, PARENT], capture_output=True, text=True, check=True
    )
    spans = json.loads(done.stdout.splitlines()[-1])
    ours = {span["name"]: span for span in reversed(spans)}  # the first of each
    by_id = {span["context"]["span_id"]: span["name"] for span in spans}
    above = {name: by_id.get(span["parent_id"]) for name, span in ours.items()}
    assert above["publish job.request"] == "POST /v1/messages"
    assert above["process job.request"] == "publish job.request"
    assert above["publish job.seen"] == "process job.request"
    assert above["process job.seen"] == "publish job.seen"
    told = ("POST /v1/messages", "process job.failed")  # the answer, that the job failed, too
    for name in (*told, *(name for name in ours if "job.seen" in name or "job.request" in name)):
        assert ours[name]["context"]["trace_id"] == f"0x{TRACE}", name
    assert ours["process job.request"]["status"]["status_code"] == "ERROR"
    assert ours["process job.seen"]["kind"] == "SpanKind.CONSUMER"
