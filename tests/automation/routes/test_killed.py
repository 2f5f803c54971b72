"""A service that is killed between two statements of the end of a job: nothing is lost or twice.

A child claims a job and stores its end, and kills itself before a statement, each time a later one.
"""

from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.jobs.dispatcher import recover
from ackbus.automation.jobs.endings import JobEnd
from ackbus.automation.jobs.events import EVENT, event_out
from ackbus.automation.routes.runs import RunTree

from ..conftest import Folder
from ..killing import STRIDES, Act, Steps, kills
from .by_hand import ByHand, answers, event, origin, success, with_plugins

FLOW = """
routes:
  - {from: a, event_type: e, to: b}
  - {from: a, event_type: e, to: c}
pipelines:
  - {name: p, on: e, steps: [{id: one, uses: d, baggage: {n: payload.n}}, {id: two, uses: f}]}
  - {name: q, on: e, steps: [{split: [{uses: b}, {uses: g}]}]}
"""

#: Each job that follows from the one event: plugin, pipeline and step, and its context.
EXPECTED = [
    ("a", None, None, {}),
    ("b", None, None, {}),
    ("b", "q", "#1#1", {}),
    ("c", None, None, {}),
    ("d", "p", "one", {"n": 1}),
    ("f", "p", "two", {"n": 1}),
    ("g", "q", "#1#2", {}),
]

_ANSWERS = answers(a=success(event("e", {"n": 1}), event("unrouted")))


@pytest.mark.slow
@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.requirement("D-103", "D-104", "D-17")
def test_each_target_of_an_event_has_one_job_wherever_its_service_is_killed(
    bus_dir: Path, bus: Bus, folder: Folder, stride: int
) -> None:
    with_plugins(folder, FLOW)
    bus.close()
    roots: list[str] = []

    def end_one(bus: Bus, steps: Steps) -> None:
        hand = ByHand(bus, folder)
        job = hand.claim()
        assert job is not None
        steps.begin()
        hand.endings.store(job, _ANSWERS(job))
        steps.end()

    def prepare(_: int) -> Act:
        with Bus.open(bus_dir) as opened:
            roots.append(ByHand(opened, folder).submit("a"))
        return end_one

    for step in kills(bus_dir, stride, 60, prepare):  # one end, with six jobs that follow
        with Bus.open(bus_dir) as opened:
            hand = ByHand(opened, folder)
            recover(opened, hand.endings)
            hand.run(_ANSWERS)
            tree = RunTree.of(opened, roots[-1])
            assert tree.state == "succeeded", step
            assert jobs_of(hand, tree) == sorted(EXPECTED, key=str), step
            attempts = [job.job.attempt for job in tree.jobs if job.job is not None]
            assert sorted(attempts)[:-1] == [1] * (len(EXPECTED) - 1)


def jobs_of(hand: ByHand, tree: RunTree) -> list[tuple[str, object, object, object]]:
    found = []
    for job in tree.jobs:
        told = origin(job.message)
        context = hand.contexts.values(told.get("context_id"))
        found.append((job.plugin, told.get("pipeline"), told.get("step"), context))
    return sorted(found, key=str)


def test_an_end_that_is_stored_twice_makes_nothing_twice(bus: Bus, folder: Folder) -> None:
    """The jobs that follow have the same ids whenever the router is asked."""
    hand = ByHand(bus, with_plugins(folder, FLOW))
    root = hand.submit("a")
    hand.step(_ANSWERS)
    before = [job.message.id for job in RunTree.of(bus, root).jobs]
    message = bus.get(root)
    assert message is not None
    end = JobEnd(message, "a", "poll", "succeeded", 1, None)
    events = [event_out(each) for each in bus.read(type=EVENT)]
    with bus.transaction():
        hand.take_in(hand.router.successors(end, events, "done"))
    assert [job.message.id for job in RunTree.of(bus, root).jobs] == before
