"""W3C trace context on its way through the bus, and the spans of a process that makes them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from ackbus import Bus, Draft, Message, Queue, Session, Worker

from ..conftest import RunBus

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"

#: A server, a worker and an inbox in one process that makes spans, which it prints.
TRACED = """
import json, os, signal, sys, threading, time
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
from ackbus.server.running import Options, serve

def use(url):
    message = {"type": "job.request", "from": "lead"}
    headers = {"traceparent": sys.argv[2]}
    assert httpx.post(f"{url}/v1/messages", json=message, headers=headers).status_code == 201
    with httpx.stream("GET", f"{url}/v1/events?after=0") as stream:
        next(stream.iter_lines())
    while 'ackbus_stream_clients{kind="sse"} 0.0' not in httpx.get(f"{url}/metrics").text:
        time.sleep(0.01)
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
    serve(bus, Options("127.0.0.1", 0), on_ready=start)
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""

#: A host of several queues in a process that makes spans, which it prints.
HOST = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from ackbus import Bus
from ackbus.subscribers.queues.queue_set import QueueSet

with Bus.open(sys.argv[1]) as bus:
    QueueSet(bus, ["a", "b"]).claim("host", group="crew", limit=2)
print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


def test_message_takes_the_trace_of_the_request_that_publishes_it(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """Q-22: and keeps its own, where it has one."""
    given = {"traceparent": PARENT, "tracestate": "vendor=1"}
    own = PARENT.replace("b7", "c7")
    begin = one_bus.log.newest_seq() + 1
    for headers in (None, {"traceparent": own}, {"mine": 1}):
        body = {"type": "t", "from": "a", "headers": headers}
        assert one_client.post("/v1/messages", json=body, headers=given).status_code == 201
    assert [message.headers for message in one_bus.read(after_seq=begin - 1)] == [
        given,
        {"traceparent": own},
        {"mine": 1, **given},
    ]


@pytest.mark.parametrize(
    "given",
    [
        "",
        "00-zz",
        PARENT.upper(),
        f"{PARENT}-more",
        "00-" + "x" * 32 + "-" + "y" * 16,
        PARENT.replace("00-", "ff-", 1),
        PARENT.replace(TRACE, "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
    ],
)
def test_what_is_no_trace_context_is_not_stored(
    one_client: httpx.Client, one_bus: Bus, given: str
) -> None:
    message = {"type": "t", "from": "a"}
    stored = one_client.post("/v1/messages", json=message, headers={"traceparent": given})
    assert next(one_bus.read(after_seq=stored.json()["seq"] - 1)).headers == {}


def test_trying_again_in_another_span_is_no_conflict(
    one_client: httpx.Client, one_bus: Bus
) -> None:
    """Each attempt of a client that is traced has a span of its own."""
    before = one_bus.log.newest_seq()
    body = {"type": "t", "from": "a", "id": "one", "headers": {"mine": 1}}
    for parent, status in ((PARENT, 201), (PARENT.replace("b7", "c7"), 200)):
        response = one_client.post("/v1/messages", json=body, headers={"traceparent": parent})
        assert response.status_code == status
    assert one_bus.log.newest_seq() == before + 1


@pytest.mark.slow
def test_process_that_has_the_sdk_and_makes_no_spans_passes_traces_on(bus_dir: Path) -> None:
    """It is loaded by whoever needs it, and can be switched off by OTEL_SDK_DISABLED."""
    idle = "trace.set_tracer_provider(provider)\n"
    assert idle in TRACED
    command = [sys.executable, "-c", TRACED.replace(idle, ""), str(bus_dir), PARENT]
    subprocess.run(command, capture_output=True, check=True)
    with Bus.open(bus_dir) as bus:
        assert next(bus.read()).headers == {"traceparent": PARENT}


DOORS = {
    "/v1/messages/batch": {"messages": [{"type": "t", "from": "a"}, {"type": "t", "from": "a"}]},
    "/v1/requests": {"type": "t.request", "from": "a"},
    "/v1/sessions/s/message": {"text": "hello"},
    "/v1/claims/1/complete": {"replies": [{"type": "t"}]},
    "/v1/claims/1/fail": {"error": "no", "retry": False, "replies": [{"type": "t"}]},
    "/v1/inboxes/b/complete": {"seq": 1, "replies": [{"type": "t"}]},
}


@pytest.mark.parametrize(("path", "body"), DOORS.items(), ids=DOORS)
def test_whatever_is_published_over_http_is_in_the_trace_of_its_request(
    one_client: httpx.Client, one_bus: Bus, path: str, body: dict[str, Any]
) -> None:
    """Q-22: where what it follows from has no trace of its own."""
    asked = one_bus.publish("job", from_agent="a")
    queue = Queue.create(one_bus, "job")
    (claim,) = queue.claim("w")
    path = path.replace("claims/1", f"claims/{claim.token}")
    if "seq" in body:
        body = body | {"seq": asked.seq}
    given = {"traceparent": PARENT, "tracestate": "vendor=1"}
    assert one_client.post(path, json=body, headers=given).status_code in (200, 201)
    published = list(one_bus.read(after_seq=asked.seq))
    assert published
    for message in published:
        assert given.items() <= message.headers.items()


def trace_of(message: Message) -> tuple[str, bool]:
    """The trace of a message, and whether its span is its own."""
    parent = str(message.headers["traceparent"])
    return parent[3:35], parent != PARENT


def test_drafts_of_a_worker_are_in_the_trace_of_its_job(bus: Bus) -> None:
    """Issue 7: carried from publish through claim to follow-up; a draft may name another."""
    bus.publish("job", from_agent="a", headers={"traceparent": PARENT})
    own = {"traceparent": PARENT.replace("0af", "0bf")}

    def handle(message: Message) -> list[Draft]:
        return [Draft("next", from_agent="w"), Draft("other", from_agent="w", headers=own)]

    Worker(bus, "job").run(handle, once=True)
    follow_up, other = bus.read(after_seq=1)
    assert trace_of(follow_up) == (TRACE, True)
    assert other.headers == own | {"hops": 1}


def test_replies_of_agents_are_in_the_trace_of_what_they_answer(bus: Bus) -> None:
    bus.publish("ask", from_agent="a", headers={"traceparent": PARENT})
    message = next(bus.read())
    with Session(bus, "b") as session:
        session.reply(message, "told", headers={"mine": 1})
    (told,) = bus.read(type="told")
    assert trace_of(told) == (TRACE, True)
    assert told.headers["mine"] == 1


def test_command_publishes_in_the_trace_that_it_was_started_in(run_bus: RunBus, bus: Bus) -> None:
    """Q-22: a worker's command has it in its environment."""
    run_bus("publish", "t", "--from", "a", env={"TRACEPARENT": PARENT})
    run_bus("publish", "t", "--from", "a", env={"TRACEPARENT": "nonsense"})
    assert [message.headers for message in bus.read()] == [{"traceparent": PARENT}, {}]


@pytest.mark.slow
def test_request_publication_and_handling_are_spans_of_one_trace(bus_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRACED, bus_dir, PARENT], capture_output=True, text=True, check=True
    )
    spans = json.loads(done.stdout.splitlines()[-1])
    ours = {span["name"]: span for span in reversed(spans)}  # the first of each
    by_id = {span["context"]["span_id"]: span["name"] for span in spans}
    above = {name: by_id.get(span["parent_id"]) for name, span in ours.items()}
    assert above["publish job.request"] == "POST /v1/messages"
    assert above["claim job.request"] == "publish job.request"
    assert above["process job.request"] == "publish job.request"
    assert above["publish job.seen"] == "process job.request"
    assert above["process job.seen"] == "publish job.seen"
    told = ("POST /v1/messages", "process job.failed")  # the answer, that the job failed, too
    for name in (*told, *(name for name in ours if "job.seen" in name or "job.request" in name)):
        assert ours[name]["context"]["trace_id"] == f"0x{TRACE}", name
    assert ours["process job.request"]["status"]["status_code"] == "ERROR"
    assert ours["process job.seen"]["kind"] == "SpanKind.CONSUMER"
    assert ours["claim job.request"]["attributes"]["ackbus.claim_token"] == 1
    assert ours["GET /v1/events"]["status"]["status_code"] == "UNSET"  # its client went, as they do


def test_claims_from_several_queues_at_once_are_spans_too(bus: Bus, bus_dir: Path) -> None:
    """Jobs of plugins are claimed so."""
    for name in ("a", "b"):
        Queue.create(bus, name)
        bus.publish(name, from_agent="lead", headers={"traceparent": PARENT})
    command = [sys.executable, "-c", HOST, str(bus_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    spans = json.loads(done.stdout)
    assert [span["name"] for span in spans] == ["claim a", "claim b"]
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}
