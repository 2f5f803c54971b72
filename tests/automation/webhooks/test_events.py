"""Webhooks that begin pipelines, by their names or by an event."""

import json
from collections.abc import Iterator

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.values import ConfigFaults
from ackbus.automation.routes.runs import RunTree
from ackbus.export.archive_writer import Archiver
from ackbus.schema.queries import file_of
from ackbus.subscribers.overview.retention import Retention

from ...conftest import wait_until
from ..conftest import Folder
from ..running import response
from .receiving import Receiving, receiving
from .senders import ENVIRON, SHOPIFY_SECRET, Request, config, github, mac

MORE = """
        - path: /run
          pipeline: report
          secret_ref: shopify
          signature_header: webhook-signature
          signature_format: stripe
        - path: /event
          event_type: code
          event_type_from: header:X-GitHub-Event
          secret_ref: github
          signature_header: X-Hub-Signature-256
          delivery_id: header:X-GitHub-Delivery
    pipelines:
      - name: report
        on: day.over
        steps:
          - {id: look, uses: echo, with: {ref: "{payload.ref}"}}
          - {id: note, uses: echo}
      - {name: left, on: code.push, steps: [{id: one, uses: echo}]}
      - name: right
        on: code.push
        if: {path: payload.ref, op: eq, value: refs/heads/main}
        steps: [{id: one, uses: echo}]
"""


@pytest.fixture
def receiver(bus: Bus, folder: Folder) -> Iterator[Receiving]:
    folder.write(config=config(MORE))
    folder.plugin("echo", run=response())
    folder.lock()
    with receiving(bus, folder.path) as found:
        yield found


def event(delivery: str = "d-1", **headers: str) -> Request:
    _, given, body = github(delivery)
    return "/event", given | headers, body


def run(receiver: Receiving, body: bytes, *, at_s: float = 0.0) -> Request:
    at = int(receiver.bus.now_ms() / 1000 + at_s)
    signature = mac(SHOPIFY_SECRET.encode(), f"{at}.".encode() + body).hex()
    return "/run", {"webhook-signature": f"t={at},v1={signature}"}, body


def test_an_event_begins_each_pipeline_that_it_reaches(receiver: Receiving) -> None:
    first = receiver.take(event())
    (stored,) = receiver.bus.read(type="plugin.event")
    assert stored.headers == {"event_type": "code.push", "webhook": "event"}
    assert stored.payload == json.loads(github()[2])
    tree = RunTree.of(receiver.bus, stored.id)
    assert [each.message.headers["job"]["pipeline"] for each in tree.jobs] == ["left", "right"]
    assert tree.jobs[0].message.id == first
    for each in tree.jobs:
        assert receiver.served.ended(each.message.id).state == "succeeded"
        assert each.message.headers["submitted_by"] == "webhook"
        assert each.message.headers["job"]["webhook"] == "event"


def test_a_repeated_event_begins_nothing_and_has_the_same_answer(
    receiver: Receiving, folder: Folder
) -> None:
    first = receiver.take(event())
    folder.write(config=config(MORE.replace("uses: echo}]}", "uses: echo, with: {a: b}}]}")))
    folder.lock()
    before = receiver.served.service.snapshot
    receiver.served.service.reload()
    wait_until(lambda: receiver.served.service.snapshot is not before)
    assert receiver.take(event()) == first
    assert receiver.take(event("d-2")) != first
    assert len(receiver.jobs()) == 4
    assert len(list(receiver.bus.read(type="plugin.event"))) == 2


@pytest.mark.requirement("R-20")
def test_an_event_that_no_pipeline_waits_for_is_stored_and_begins_nothing(
    receiver: Receiving,
) -> None:
    for _ in range(2):
        answer = receiver.send(event(**{"X-GitHub-Event": "ping"}))
        assert (answer.status_code, answer.json()) == (202, {"job_id": None})
    (stored,) = receiver.bus.read(type="plugin.event")
    assert stored.headers["event_type"] == "code.ping"
    assert receiver.jobs() == []


def test_a_run_begins_once_for_the_same_signed_request(receiver: Receiving) -> None:
    request = run(receiver, b'{"ref": "a"}')
    first = receiver.take(request)
    assert receiver.take(request) == first  # the signature with its time is what repeats
    receiver.served.ended(first)
    assert receiver.take(request) == first
    second = receiver.take(run(receiver, b'{"ref": "a"}', at_s=1))
    assert second != first
    job = receiver.bus.get(first)
    assert job is not None
    assert (job.payload, job.headers["job"]["pipeline"]) == ({"ref": "a"}, "report")
    assert len(list(receiver.bus.read(type="plugin.event"))) == 2


def test_a_run_that_can_not_begin_is_refused_and_leaves_nothing(receiver: Receiving) -> None:
    answer = receiver.send(run(receiver, b"{}"))
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("pipeline 'report' can't begin: step look: ")
    assert list(receiver.bus.read()) == []


def test_a_webhook_for_a_pipeline_that_is_not_there_is_a_fault(folder: Folder) -> None:
    folder.write(config=config(MORE.replace("pipeline: report", "pipeline: reprot")))
    folder.plugin("echo")
    folder.lock()
    with pytest.raises(ConfigFaults) as refused:
        examine_folder(folder.path, ENVIRON)
    (fault,) = refused.value.faults
    assert fault.message == "there is no pipeline 'reprot'; did you mean 'report'?"


def test_a_delivery_whose_jobs_are_archived_is_still_the_same(receiver: Receiving) -> None:
    bus = receiver.bus
    first, job = receiver.take(event()), receiver.take(github("d-1"))
    for id in receiver.jobs():
        receiver.served.ended(id)
    before = [(each.seq, each.id, each.payload) for each in bus.read(type="plugin.>")]
    receiver.served.ended(receiver.take(github("d-2")))  # the newest message stays
    with Archiver(bus) as archiver:
        archiver.archive(Retention(bus).plan(bus.log.newest_seq()).upto_seq)
    assert file_of(bus).value("SELECT count(*) FROM messages") < 3
    assert receiver.take(event()) == first
    assert receiver.take(github("d-1")) == job
    after = [(each.seq, each.id, each.payload) for each in bus.read(type="plugin.>")]
    assert after[: len(before)] == before
