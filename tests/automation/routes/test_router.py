"""Routes: from an event of a plugin to the jobs of others."""

import logging

import pytest

from ackbus import Bus
from ackbus.automation.jobs.events import ENDED, EVENT, EVENT_TYPE

from ..conftest import Folder
from .by_hand import ByHand, answers, event, names, origin, success, with_plugins

FAN_OUT = """
routes:
  - {from: a, event_type: e, to: c}
  - {from: a, event_type: e, to: b}
  - {from: b, event_type: e, to: d}
  - {from: a, event_type: e, to: d.poll}
"""


def test_d_98_an_event_makes_a_job_that_handles_it(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, "routes: [{from: a, event_type: e, to: b}]"))
    hand.submit("a")
    first, second = hand.run(answers(a=success(event("e", {"n": 1}))))
    (published,) = bus.read(type=EVENT)
    assert names([first, second]) == ["a.poll", "b.handle"]
    assert second.message.payload == {"n": 1}
    told = second.request()["event"]
    assert isinstance(told, dict)
    assert {key: told[key] for key in ("type", "source", "event_id", "payload")} == {
        "type": "e",
        "source": "a",
        "event_id": published.id,
        "payload": {"n": 1},
    }


@pytest.mark.requirement("D-99", "R-19")
def test_every_route_of_an_event_makes_a_job_in_their_order(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, FAN_OUT))
    hand.submit("a")
    ran = hand.run(answers(a=success(event())))
    assert names(ran) == ["a.poll", "c.handle", "b.handle", "d.poll"]
    assert "event" not in ran[3].request()


@pytest.mark.requirement("D-100", "R-20")
def test_an_event_without_a_route_is_dropped_with_a_line_for_those_who_debug(
    bus: Bus, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    hand = ByHand(bus, with_plugins(folder, ""))
    hand.submit("a")
    with caplog.at_level(logging.DEBUG, "ackbus.automation"):
        assert names(hand.run(answers(a=success(event("lost"))))) == ["a.poll"]
    told = [record for record in caplog.records if "has no route" in record.getMessage()]
    assert [(each.levelname, each.getMessage()) for each in told] == [
        ("DEBUG", "event 'lost' of a has no route")
    ]
    assert [message.type for message in bus.read()] == ["plugin.a.poll", EVENT, ENDED]


@pytest.mark.parametrize(
    ("source", "type"), [("a", "a.*"), ("a", "a.>"), ("a", "A.b"), ("b", "a.b"), ("a", "a")]
)
def test_d_101_only_the_exact_event_of_the_plugin_matches(
    bus: Bus, folder: Folder, source: str, type: str
) -> None:
    routes = f"routes: [{{from: {source}, event_type: '{type}', to: c}}]"
    hand = ByHand(bus, with_plugins(folder, routes))
    hand.submit("a")
    assert names(hand.run(answers(a=success(event("a.b"))))) == ["a.poll"]


def test_r_12_event_types_are_any_text(bus: Bus, folder: Folder) -> None:
    routes = "routes: [{from: a, event_type: 'New mail / in box', to: b}]"
    hand = ByHand(bus, with_plugins(folder, routes))
    hand.submit("a")
    ran = hand.run(answers(a=success(event("New mail / in box"))))
    assert names(ran) == ["a.poll", "b.handle"]


def test_d_102_jobs_lead_back_to_the_first_over_three_hops(bus: Bus, folder: Folder) -> None:
    text = """
routes:
  - {from: a, event_type: e, to: b}
  - {from: b, event_type: e, to: c}
  - {from: c, event_type: e, to: d}
"""
    hand = ByHand(bus, with_plugins(folder, text))
    root = hand.submit("a")
    end = success(event())
    *_, last = hand.run(answers(a=end, b=end, c=end))
    message, hops = last.message, 0
    while (before := origin(message).get("parent_job_id")) is not None:
        published = bus.get(origin(message)["source_event_id"])
        assert published is not None
        assert (published.type, published.in_reply_to) == (EVENT, before)
        assert message.in_reply_to == published.id
        found = bus.get(before)
        assert found is not None
        message, hops = found, hops + 1
    assert (message.id, hops) == (root, 3)


@pytest.mark.requirement("D-26", "X-32")
def test_siblings_share_a_dedupe_key_and_all_run(bus: Bus, folder: Folder) -> None:
    """The first target has succeeded before the others are even claimed."""
    hand = ByHand(bus, with_plugins(folder, FAN_OUT))
    hand.submit("a")
    ran = hand.run(answers(a=success(event("e", dedupe_key="k"))))
    assert names(ran) == ["a.poll", "c.handle", "b.handle", "d.poll"]
    assert {job.claim.dedupe_key for job in ran[1:]} == {"handle:k", "poll:k"}
    hand.submit("a")
    again = hand.run(answers(a=success(event("e", dedupe_key="k"))))
    assert names(again) == ["a.poll"]  # each of them has succeeded


@pytest.mark.requirement("D-25", "D-26")
def test_siblings_run_at_a_time_and_jobs_of_one_key_and_target_do_not(
    bus: Bus, folder: Folder
) -> None:
    hand = ByHand(bus, with_plugins(folder, FAN_OUT))
    for _ in range(2):
        hand.submit("a")
    for _ in range(2):
        hand.step(answers(a=success(event("e", dedupe_key="k"))))
    running = [job for _ in range(6) if (job := hand.claim()) is not None]
    assert names(running) == ["c.handle", "b.handle", "d.poll"]


def test_one_event_makes_a_job_for_each_target_and_several_make_several(
    bus: Bus, folder: Folder
) -> None:
    hand = ByHand(bus, with_plugins(folder, "routes: [{from: a, event_type: e, to: b}]"))
    hand.submit("a")
    end = success(event("e", {"n": 1}), event("f"), event("e", {"n": 2}), event("e", {"n": 2}))
    ran = hand.run(answers(a=end))
    assert [job.message.payload for job in ran[1:]] == [{"n": 1}, {"n": 2}, {"n": 2}]


def test_a_broadcast_route_tells_everybody(bus: Bus, folder: Folder) -> None:
    text = "routes: [{from: a, event_type: e, to: b, broadcast: true}]"
    hand = ByHand(bus, with_plugins(folder, text))
    hand.submit("a")
    hand.run(answers(a=success(event("e"), event("f"))))
    assert [(m.headers[EVENT_TYPE], m.to_agent) for m in bus.read(type=EVENT)] == [
        ("e", None),
        ("f", "automation"),
    ]


def test_d_112_a_job_by_the_api_runs_alone(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, FAN_OUT))
    hand.submit("a", submitted_by="api")
    assert names(hand.run(answers(a=success(event())))) == ["a.poll"]


def test_a_circle_of_routes_comes_to_an_end(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, "routes: [{from: a, event_type: e, to: a}]"))
    hand.submit("a")
    ran = hand.run(lambda _: success(event()))
    assert len(ran) == 22
    assert ran[-1].fault == "21 jobs stand one behind the other, and 20 may: is it a circle?"
    assert [job.fault for job in ran[:-1]] == [None] * 21
