"""History through another configuration, and pipelines as pictures."""

import pytest

from ackbus import Bus
from ackbus.automation.routes.preview import flowchart, replayed
from ackbus.automation.routes.router import Index, Router
from ackbus.errors import NotActedUponWarning

from ..conftest import Folder
from .by_hand import ByHand, answers, event, success, with_plugins

BEFORE = """
routes:
  - {from: a, event_type: e, to: b}
  - {from: a, event_type: e, to: c}
pipelines:
  - {name: p, on: f, steps: [{id: one, uses: d}, {id: two, uses: g}]}
"""
AFTER = """
routes:
  - {from: a, event_type: e, to: b}
  - {from: a, event_type: e, to: c.poll}
pipelines:
  - name: p
    on: f
    steps: [{id: one, uses: d}, {id: two, uses: h, with: {x: "{payload.missing}"}}]
"""


def history(bus: Bus, folder: Folder) -> int:
    hand = ByHand(bus, with_plugins(folder, BEFORE))
    hand.submit("a")
    hand.run(answers())
    after = bus.log.newest_seq()
    hand.submit("a")
    hand.run(answers(a=success(event("e"), event("f"), event("unrouted"))))
    return after + 1


def test_history_through_the_same_configuration_is_what_happened(bus: Bus, folder: Folder) -> None:
    first = history(bus, folder)
    newest = bus.log.newest_seq()
    hand = ByHand(bus, folder)
    found = list(replayed(bus, hand.router, first))
    assert [(each.event_type, each.source) for each in found] == [
        ("e", "a"),
        ("f", "a"),
        ("unrouted", "a"),
        ("ductile.step.succeeded", "d"),
        ("ductile.step.succeeded", "g"),
    ]
    assert all(each.added == each.dropped == [] for each in found)
    assert [len(each.did) for each in found] == [2, 1, 0, 1, 0]
    assert bus.log.newest_seq() == newest


def test_history_through_a_changed_configuration_shows_the_difference(
    bus: Bus, folder: Folder
) -> None:
    first = history(bus, folder)
    hand = ByHand(bus, with_plugins(folder, AFTER))
    router = Router(bus, hand.config, hand.plugins)
    records = [each.record() for each in replayed(bus, router, first)]
    assert [(each["added"], each["dropped"]) for each in records if each["added"]] == [
        ([{"plugin": "c", "command": "poll"}], [{"plugin": "c", "command": "handle"}]),
        (
            [{"plugin": "h", "command": "handle", "pipeline": "p", "step": "two"}],
            [{"plugin": "g", "command": "handle", "pipeline": "p", "step": "two"}],
        ),
    ]
    (fault,) = records[3]["faults"]
    assert fault.startswith("with.x: payload.missing is not there; ")


def test_what_others_publish_as_an_event_is_none(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, BEFORE))
    with pytest.warns(NotActedUponWarning):
        bus.publish("plugin.event", {}, from_agent="a", headers={"event_type": "e"})
    assert hand.claim() is None
    assert list(replayed(bus, hand.router, 1)) == []


GATED = """
pipelines:
  - name: 'p'
    on: 'New mail / "x"'
    steps:
      - {id: one, uses: b, if: {not: {path: payload.n, op: gt, value: 1}}}
      - split: [{uses: c.poll}, {uses: d}]
      - {id: last, uses: f}
routes: [{from: a, event_type: e, to: b}, {from: b, event_type: e, to: c.poll}]
"""


def test_a_pipeline_is_drawn_with_its_gates_and_branches(bus: Bus, folder: Folder) -> None:
    config = with_plugins(folder, GATED).load()
    assert flowchart(Index(config).pipelines.values(), config.routes) == (
        "flowchart TD\n"
        '  subgraph s0["p"]\n'
        '    n0(["New mail / #34;x#34;"])\n'
        '    n1{"one#58; not (payload.n gt 1)"}\n'
        "    n0 --> n1\n"
        '    n2["one#58; b"]\n'
        '    n1 -->|"yes"| n2\n'
        '    n3["#35;2#35;1#58; c.poll"]\n'
        "    n2 --> n3\n"
        '    n4["last#58; f"]\n'
        "    n3 --> n4\n"
        '    n5["#35;2#35;2#58; d"]\n'
        "    n2 --> n5\n"
        "    n5 --> n4\n"
        '    n1 -->|"no"| n3\n'
        '    n1 -->|"no"| n5\n'
        "  end\n"
        '    n6["a"]\n'
        '    n7["b"]\n'
        '    n6 -->|"e"| n7\n'
        '    n8["c.poll"]\n'
        '    n7 -->|"e"| n8\n'
    )
