"""Conditions of steps on record: a job of `core.switch` each, which is over, and its event."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.automation.routes.preview import replayed
from ackbus.automation.routes.runs import RunTree, rerun_request
from ackbus.schema.errors import InvalidInput
from ackbus.schema.message.message import Message
from ackbus.schema.message.patterns import UNPROVEN
from ackbus.subscribers.jobs.outcomes import hops_of
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queues import Queues

from ..conftest import Folder
from .by_hand import ByHand, answers, event, names, origin, success, with_plugins

ASKING = """
pipelines:
  - name: p
    on: e
    steps:
      - {id: one, uses: b, baggage: {n: payload.n}}
      - {id: two, uses: c, if: {path: payload.go, op: eq, value: true}}
      - {id: three, uses: d}
"""


def switches(bus: Bus) -> list[tuple[Message, Message]]:
    """Return the job of each condition with its event."""
    jobs = list(bus.read(type="plugin.core.switch.handle"))
    events = {
        each.in_reply_to: each
        for each in bus.read(type="plugin.event")
        if each.from_agent == "core.switch"
    }
    assert len(events) == len(jobs)
    return [(job, events[job.id]) for job in jobs]


def rows(bus_dir: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(bus_dir / "bus.db") as file:
        return file.execute(
            "SELECT id, command, json(payload), status, attempt, submitted_by, parent_job_id,"
            " source_event_id, started_at IS NOT NULL, completed_at IS NOT NULL, last_error"
            " FROM job_queue WHERE plugin = 'core.switch'"
        ).fetchall()


@pytest.mark.parametrize("go", [True, False])
def test_a_condition_is_a_job_that_is_over_with_an_event(
    bus: Bus, bus_dir: Path, folder: Folder, go: bool
) -> None:
    hand = ByHand(bus, with_plugins(folder, ASKING))
    (first,) = hand.begin("p", {"n": 7})
    ran = hand.run(answers(b=success(event("x", {"go": go}))))
    assert names(ran) == ["b.handle", *(["c.handle"] if go else []), "d.handle"]
    ((job, told),) = switches(bus)
    (x,) = [each for each in bus.read(type="plugin.event") if each.from_agent == "b"]
    way = f"ductile.switch.{str(go).lower()}"
    assert (told.headers["event_type"], told.payload) == (way, {"go": go})
    asked = json.dumps({"go": go}).replace(" ", "")
    (row,) = rows(bus_dir)
    assert row[:6] == (job.id, "handle", asked, "succeeded", 1, "route")
    assert row[6:] == (first, x.id, 1, 1, None)
    after = ran[1].message
    assert origin(job) | {"step": "", "pipeline": ""} == {
        "parent_job_id": first,
        "source_event_id": x.id,
        "step": "",
        "pipeline": "",
    }
    assert (origin(job)["pipeline"], origin(job)["step"]) == ("p", "two__switch")
    assert (origin(after)["parent_job_id"], origin(after)["source_event_id"]) == (job.id, told.id)
    assert after.in_reply_to == told.id
    assert after.payload == {"go": go}
    request = ran[1].request()["event"]
    assert isinstance(request, dict)
    assert (request["type"], request["source"], request["event_id"]) == (
        way,
        "core.switch",
        told.id,
    )
    assert [each.context for each in ran] == [{"n": 7}] * len(ran)
    assert hops_of(job) == hops_of(told) == hops_of(after) == 1
    tree = RunTree.of(bus, first)
    assert [each.plugin for each in tree.jobs] == ["b", "core.switch", *("cd" if go else "d")]
    assert [each.depth for each in tree.jobs] == list(range(len(tree.jobs)))
    assert (tree.is_over, tree.state) == (True, "succeeded")
    with sqlite3.connect(bus_dir / "bus.db") as file:
        log = file.execute("SELECT result FROM job_log WHERE plugin = 'core.switch'").fetchall()
        claims = file.execute(
            "SELECT status, result FROM claims WHERE queue_id ="
            " (SELECT id FROM queues WHERE name = 'plugin.core.switch')"
        ).fetchall()
    told_in_log = {"matched": go, "event": way}
    assert [json.loads(text) for (text,) in log] == [told_in_log]
    assert [(status, json.loads(text)) for status, text in claims] == [("completed", told_in_log)]


FOLLOWED = """
routes:
  - {from: core.switch, event_type: ductile.switch.true, to: f}
  - {from: b, event_type: x, to: f}
  - {from: core.switch, event_type: ductile.switch.false, to: h.poll}
pipelines:
  - name: p
    on: e
    steps:
      - {id: one, uses: b}
      - {id: two, uses: c, if: {path: payload.go, op: eq, value: true}}
  - {name: q, on: ductile.switch.true, from_plugin: core.switch, steps: [{uses: g}]}
  - {name: r, on: ductile.switch.true, from_plugin: b, steps: [{uses: h}]}
"""


def test_the_event_of_a_condition_is_routed_and_begins_pipelines(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, FOLLOWED))
    for go, expected in ((True, ["c", "f", "f", "g"]), (False, ["f", "h"])):
        hand.begin("p")
        ran = hand.run(answers(b=success(event("x", {"go": go}, dedupe_key=f"k-{go}"))))
        assert sorted(job.plugin.name for job in ran[1:]) == expected
        assert {job.message.payload["go"] for job in ran[1:]} == {go}
        (_, told) = switches(bus)[-1]
        behind = [job for job in ran if origin(job.message).get("source_event_id") == told.id]
        assert sorted(job.plugin.name for job in behind) == (["c", "f", "g"] if go else ["h"])
        assert {job.claim.dedupe_key for job in behind} <= {f"handle:k-{go}", f"poll:k-{go}"}
        contexts = {job.plugin.name: origin(job.message).get("pipeline") for job in behind}
        assert contexts.get("g", "q") == "q"


def test_a_run_of_conditions_alone_is_over_at_once(bus: Bus, folder: Folder) -> None:
    text = """
pipelines:
  - {name: p, on: e, steps: [{id: one, uses: b, if: {path: payload.go, op: exists}}]}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    (only,) = hand.begin("p")
    assert names(hand.run(answers())) == []
    tree = RunTree.of(bus, only)
    assert (tree.is_over, tree.state, len(tree.jobs)) == (True, "succeeded", 1)
    with pytest.raises(InvalidInput, match="it is a condition, which is asked again"):
        rerun_request(bus, only)


def test_a_paused_or_full_queue_keeps_no_condition_back(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, ASKING))
    for _ in range(2):
        hand.begin("p", {"n": 1})
        ran = hand.run(answers(b=success(event("x", {"go": True}))))
        assert names(ran) == ["b.handle", "c.handle", "d.handle"]
        queue = Queue.open(bus, "plugin.core.switch")
        Queues(bus).pause(queue.name)
        queue.jobs.limit(1)
    assert len(switches(bus)) == 2


def test_nobody_answers_a_condition_by_a_message(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, FOLLOWED))
    hand.begin("p")
    hand.run(answers(b=success(event("x", {"go": True}))))
    forged = Draft("plugin.core.switch.handle", {"go": True}, from_agent="core.switch", id="j")
    told = Draft(
        "plugin.event",
        {"go": True},
        from_agent="core.switch",
        to_agent="automation",
        in_reply_to="j",
        headers={"event_type": "ductile.switch.true"},
    )
    forged.to_agent = "automation"
    job, _ = (receipt.seq for each in (forged, told) for receipt in bus.log.append([each]))
    assert names(hand.run(answers())) == []
    queue = Queue.open(bus, "plugin.core.switch")
    queue.fill()
    assert queue.jobs.get(job).error == UNPROVEN


CIRCLE = """
pipelines:
  - name: p
    on: ductile.switch.true
    steps:
      - {id: one, uses: b}
      - {id: two, uses: c, if: {path: payload.go, op: exists}}
"""


def test_a_circle_of_conditions_ends_at_the_limit_of_hops(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, CIRCLE))
    hand.begin("p", {"go": 1})
    ran = hand.run(answers(b=success(event("x", {"go": 1})), c=success(event("y"))))
    faults = [job.fault for job in ran if job.fault]
    assert len([job for job in ran if job.plugin.name == "b"]) == 22
    assert [str(fault).partition(",")[0] for fault in faults] == [
        "21 jobs stand one behind the other"
    ] * len(faults)
    assert faults


def test_history_counts_what_is_behind_a_condition(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, FOLLOWED))
    for go in (True, False):
        hand.begin("p")
        hand.run(answers(b=success(event("x", {"go": go}))))
    seen = list(replayed(bus, hand.router, 1))
    assert [(each.added, each.dropped) for each in seen] == [([], [])] * len(seen)
    assert sorted(len(each.did) for each in seen if each.did) == [2, 4]
    changed = ByHand(bus, with_plugins(folder, FOLLOWED.replace("value: true", "value: false")))
    seen = [each for each in replayed(bus, changed.router, 1) if each.did]
    assert [(len(each.added), len(each.dropped)) for each in seen] == [(1, 3), (3, 1)]
