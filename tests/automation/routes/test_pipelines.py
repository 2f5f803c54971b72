"""Runs of pipelines: their steps, what travels between them, and what ends them."""

import json
import sqlite3
from pathlib import Path

import pytest

from ackbus import Bus, Draft
from ackbus.schema.errors import InvalidInput, NotFound
from ackbus.subscribers.overview.trace import Trace

from ..conftest import Folder
from .by_hand import ByHand, answers, event, failure, names, origin, success, with_plugins

THREE = """
pipelines:
  - name: p
    on: e
    steps:
      - {id: one, uses: b}
      - {id: two, uses: c.poll}
      - {id: three, uses: d}
"""


def test_an_event_begins_a_pipeline_and_each_step_the_next(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, THREE))
    hand.submit("a")
    ran = hand.run(lambda job: success(event("e" if job.plugin.name == "a" else "x", {"n": 1})))
    assert names(ran) == ["a.poll", "b.handle", "c.poll", "d.handle"]
    assert [origin(job.message).get("step") for job in ran] == [None, "one", "two", "three"]
    assert {step.message.conversation for step in Trace.of(bus, ran[-1].message.id).steps} == {
        ran[0].message.id
    }


def test_d_110_a_silent_step_leads_to_the_next_one(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, THREE))
    hand.begin("p")
    ran = hand.run(answers(b=success(result="short")))
    assert names(ran) == ["b.handle", "c.poll", "d.handle"]
    assert ran[1].message.payload == {"result": "short"}
    told = ran[2].request()["event"]
    assert isinstance(told, dict)
    assert (told["type"], told["source"]) == ("ductile.step.succeeded", "c")


def test_a_step_that_fails_ends_its_run(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, THREE))
    hand.begin("p")
    assert names(hand.run(answers(c=failure()))) == ["b.handle", "c.poll"]


def test_a_step_that_is_tried_again_leads_on_once(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, THREE))
    (first, *_) = hand.begin("p")
    hand.run(answers(b=failure()))
    message = bus.get(first)
    assert message is not None
    from ackbus.subscribers.queues.queue import Queue

    Queue.open(bus, "plugin.b").jobs.retry(message.seq)
    assert names(hand.run(answers())) == ["b.handle", "c.poll", "d.handle"]


BAGGAGE = """
pipelines:
  - name: p
    on: e
    steps:
      - id: one
        uses: b
        baggage: {trace.id: payload.trace_id}
      - {id: two, uses: c}
      - id: three
        uses: d
        with: {text: "{context.trace.id} and {payload.n}", n: "{payload.n}"}
"""


@pytest.mark.requirement("D-06", "D-07", "D-109")
def test_claimed_baggage_travels_and_what_is_not_claimed_is_gone(
    bus: Bus, bus_dir: Path, folder: Folder
) -> None:
    hand = ByHand(bus, with_plugins(folder, BAGGAGE))
    hand.begin("p", {"trace_id": "t", "unclaimed": 1})
    ran = hand.run(answers(b=success(event("x", {"n": 1})), c=success(event("y", {"n": 2}))))
    assert [job.context for job in ran] == [{"trace": {"id": "t"}}] * 3
    assert [job.message.payload for job in ran] == [
        {"trace_id": "t", "unclaimed": 1},
        {"n": 1},
        {"n": 2, "text": "t and 2"},
    ]
    with sqlite3.connect(bus_dir / "bus.db") as file:
        rows = file.execute(
            "SELECT id, parent_id, pipeline, step, context, root_job_id FROM event_context"
            " ORDER BY rowid"
        ).fetchall()
    ids = [job.message.id for job in ran]
    assert [row[0] for row in rows] == ids
    assert [row[1] for row in rows] == [None, *ids[:2]]
    assert [row[2:4] for row in rows] == [("p", "one"), ("p", "two"), ("p", "three")]
    assert [json.loads(row[4]) for row in rows] == [{"trace": {"id": "t"}}] * 3
    assert {row[5] for row in rows} == {ids[0]}


REWRITE = """
pipelines:
  - name: p
    on: e
    steps:
      - {id: one, uses: b, baggage: {user: payload.user}}
      - {id: two, uses: c, baggage: {user: payload.user}}
      - {id: three, uses: d}
"""


def test_d_07_to_change_inherited_baggage_fails_the_job(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, REWRITE))
    hand.begin("p", {"user": "u"})
    ran = hand.run(answers(b=success(event("x", {"user": "other"}))))
    assert names(ran) == ["b.handle", "c.handle"]
    assert ran[1].fault is not None
    assert "baggage.user: 'user' is in the context with another value" in ran[1].fault
    hand.begin("p", {"user": "u"})
    again = hand.run(answers(b=success(event("x", {"user": "u"}))))
    assert names(again) == ["b.handle", "c.handle", "d.handle"]


def test_a_claim_of_nothing_fails_the_job_and_spares_its_siblings(bus: Bus, folder: Folder) -> None:
    text = """
routes: [{from: a, event_type: e, to: d}]
pipelines:
  - {name: p, on: e, steps: [{uses: b, baggage: {x: payload.missing}}]}
  - {name: q, on: e, steps: [{uses: c}]}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    hand.submit("a")
    ran = hand.run(answers(a=success(event("e"))))
    assert names(ran) == ["a.poll", "d.handle", "b.handle", "c.handle"]
    faults = [(job.fault or "").partition(";")[0] for job in ran]
    assert faults == ["", "", "baggage.x: payload.missing is not there", ""]


def test_a_run_that_cant_begin_is_refused_and_leaves_nothing(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, BAGGAGE))
    with pytest.raises(InvalidInput, match=r"step one: baggage\.trace\.id: payload\.trace_id"):
        hand.begin("p", {})
    with pytest.raises(NotFound, match="no pipeline 'q'"):
        hand.begin("q")
    assert list(bus.read()) == []


GATED = """
pipelines:
  - name: p
    on: e
    if: {path: payload.on, op: eq, value: true}
    steps:
      - {id: one, uses: b, if: {path: payload.one, op: exists}}
      - id: both
        if: {path: context.x, op: exists}
        split: [{uses: c}, {uses: d}]
      - {id: last, uses: f, baggage: {x: payload.x}}
"""


def test_a_condition_of_a_pipeline_decides_whether_an_event_begins_it(
    bus: Bus, folder: Folder
) -> None:
    hand = ByHand(bus, with_plugins(folder, GATED))
    for payload in ({"x": 1}, {"x": 1, "on": True}):
        hand.submit("a")
        ran = hand.run(answers(a=success(event("e", payload))))
        expected = ["a.poll", "f.handle"] if "on" in payload else ["a.poll"]
        assert names(ran) == expected


def test_a_condition_of_a_step_leaves_out_that_step(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, GATED))
    hand.begin("p", {"x": 1, "one": 1})
    assert names(hand.run(answers(b=success(event("y", {"x": 2}))))) == ["b.handle", "f.handle"]


def test_a_step_that_two_branches_leave_out_to_reach_runs_once(bus: Bus, folder: Folder) -> None:
    text = """
pipelines:
  - name: p
    on: e
    steps:
      - split:
          - {uses: b, if: {path: payload.x, op: exists}}
          - {uses: c, if: {path: payload.x, op: exists}}
      - {id: last, uses: d}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    hand.begin("p")
    assert names(hand.run(answers())) == ["d.handle"]
    hand.begin("p", {"x": 1})
    assert names(hand.run(answers())) == ["b.handle", "c.handle", "d.handle", "d.handle"]


def test_branches_inherit_the_same_context_and_keep_their_own(bus: Bus, folder: Folder) -> None:
    text = """
pipelines:
  - name: p
    on: e
    steps:
      - {uses: b, baggage: {x: payload.x}}
      - split:
          - {uses: c, baggage: {own: payload.x}}
          - steps: [{uses: d}, {uses: f}]
"""
    hand = ByHand(bus, with_plugins(folder, text))
    hand.begin("p", {"x": 1})
    ran = hand.run(answers(b=success(event("y", {"x": 2}))))
    assert [(job.plugin.name, job.context) for job in ran] == [
        ("b", {"x": 1}),
        ("c", {"x": 1, "own": 2}),
        ("d", {"x": 1}),
        ("f", {"x": 1}),
    ]


@pytest.mark.requirement("Q-27")
def test_a_called_pipeline_inherits_the_context_and_leads_on(bus: Bus, folder: Folder) -> None:
    text = """
pipelines:
  - {name: p, on: e, steps: [{uses: b, baggage: {x: payload.x}}, {id: c, call: q}, {uses: d}]}
  - {name: q, on: f, steps: [{id: in, uses: c}]}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    hand.begin("p", {"x": 1})
    ran = hand.run(answers())
    assert [(origin(job.message)["step"], job.context["x"]) for job in ran] == [
        ("#1", 1),
        ("c/in", 1),
        ("#3", 1),
    ]


def test_only_events_of_the_named_plugin_begin_a_pipeline(bus: Bus, folder: Folder) -> None:
    text = "pipelines: [{name: p, on: e, from_plugin: b, steps: [{uses: c}]}]"
    hand = ByHand(bus, with_plugins(folder, text))
    for plugin, expected in (("a", ["a.poll"]), ("b", ["b.poll", "c.handle"])):
        hand.submit(plugin)
        said = success(event("e"))
        assert names(hand.run(answers(a=said, b=said))) == expected


HOOKED = """
pipelines:
  - {name: all, on-hook: job.completed, steps: [{uses: f}]}
  - name: bad
    on-hook: job.failed
    if: {path: payload.plugin, op: eq, value: a}
    steps: [{uses: g}]
routes: [{from: a, event_type: e, to: b}]
"""


def hooked(folder: Folder, text: str = HOOKED) -> Folder:
    with_plugins(folder, text)
    config = folder.path / "config.yaml"
    text = config.read_text()
    for name in "abfg":
        text = text.replace(f"  {name}: {{}}\n", f"  {name}: {{notify_on_complete: true}}\n")
    config.write_text(text)
    return folder


@pytest.mark.requirement("Q-27")
def test_the_end_of_a_root_job_begins_pipelines_that_are_hooked_on_it(
    bus: Bus, folder: Folder
) -> None:
    hand = ByHand(bus, hooked(folder))
    root = hand.submit("a")
    ran = hand.run(answers(a=success(event("e"), result="fine")))
    assert names(ran) == ["a.poll", "b.handle", "f.handle"]
    assert ran[-1].message.payload == {
        "job_id": root,
        "plugin": "a",
        "command": "poll",
        "status": "succeeded",
        "attempt": 1,
        "result": "fine",
    }
    assert ran[-1].message.conversation == ran[-1].message.id


@pytest.mark.parametrize(
    ("claim", "kept"),
    [("", [{}, {}, {}]), ("baggage: {who: payload.plugin}", [{"who": "a"}] * 3)],
    ids=["claims nothing", "claims"],
)
def test_the_run_of_a_hook_leaves_a_context_only_where_it_claims_baggage(
    bus: Bus, bus_dir: Path, folder: Folder, claim: str, kept: list[dict[str, str]]
) -> None:
    steps = f"[{{uses: f, {claim}}}, {{uses: g}}, {{split: [{{uses: h}}]}}]"
    text = f"pipelines: [{{name: p, on-hook: job.completed, steps: {steps}}}]\n"
    hand = ByHand(bus, hooked(folder, text))
    hand.submit("a")
    _, *ran = hand.run(answers(f=success(event("x"))))  # and g is silent
    assert names(ran) == ["f.handle", "g.handle", "h.handle"]
    assert [job.context for job in ran] == kept
    with sqlite3.connect(bus_dir / "bus.db") as file:
        (rows,) = file.execute("SELECT count(*) FROM event_context").fetchone()
    assert rows == (len(ran) if claim else 0)


def test_a_failed_job_begins_those_that_hear_of_failures(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, hooked(folder))
    hand.submit("a")
    ran = hand.run(answers(a=failure("no disk")))
    assert names(ran) == ["a.poll", "f.handle", "g.handle"]
    payload = ran[-1].message.payload
    assert payload["message"] == payload["text"] == "Job failed [a]: no disk"
    assert (payload["status"], payload["error"]) == ("dead", "no disk")
    hand.submit("c")  # which did not ask for it
    assert names(hand.run(answers(c=failure()))) == ["c.poll"]


def test_a_run_by_the_api_leads_on_with_its_routes(bus: Bus, folder: Folder) -> None:
    text = "routes: [{from: b, event_type: x, to: g}]\n" + THREE.lstrip()
    hand = ByHand(bus, with_plugins(folder, text))
    with bus.transaction():
        hand.take_in(hand.router.begin("p", {}, submitted_by="api"))
    ran = hand.run(answers(b=success(event("x"))))
    assert names(ran) == ["b.handle", "c.poll", "g.handle", "d.handle"]
    assert ran[0].message.headers["submitted_by"] == "api"


def test_an_event_from_outside_begins_pipelines_of_no_plugin_and_no_route(
    bus: Bus, folder: Folder
) -> None:
    text = """
routes: [{from: a, event_type: e, to: b}]
pipelines:
  - {name: p, on: e, steps: [{uses: c}]}
  - {name: q, on: e, from_plugin: a, steps: [{uses: d}]}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    (receipt,) = bus.log.append([Draft("plugin.event", {"n": 1}, from_agent="webhook")])
    published = bus.get(receipt.seq)
    assert published is not None
    for _ in range(2):  # a repetition makes nothing more
        with bus.transaction():
            hand.take_in(hand.router.triggered_by(published, "e", submitted_by="webhook"))
    (ran,) = hand.run(answers())
    assert (ran.plugin.name, ran.message.payload) == ("c", {"n": 1})
    assert ran.message.in_reply_to == published.id
