"""A run as a tree: its states, waiting for its end, cancelling it, and a step once more."""

import threading
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.jobs.submission import Submission
from ackbus.automation.routes.router import Router
from ackbus.automation.routes.runs import RunTree, cancel, rerun_request, wait
from ackbus.schema.errors import InvalidInput, NotFound

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, response, running
from .by_hand import ByHand, answers, event, failure, names, origin, success, with_plugins

SPLIT = """
pipelines:
  - name: p
    on: e
    steps:
      - {id: one, uses: b}
      - {id: both, split: [{id: left, uses: c}, {id: right, uses: d}]}
"""


def test_a_tree_has_the_states_of_its_jobs(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, SPLIT))
    (first,) = hand.begin("p")
    other = hand.submit("a")
    assert RunTree.of(bus, first).state == "running"
    hand.run(answers(b=success(event("x")), d=failure("no")))
    tree = RunTree.of(bus, first)
    assert [(job.depth, job.record()["step"], job.state) for job in tree.jobs] == [
        (0, "one", "succeeded"),
        (1, "left", "succeeded"),
        (1, "right", "dead"),
    ]
    assert (tree.is_over, tree.state) == (True, "dead")
    assert other not in {job.message.id for job in tree.jobs}
    record = tree.jobs[2].record()
    assert (record["parent_job_id"], record["error"]) == (first, "no")


def test_d_104_a_tree_is_never_over_before_its_last_step(bus: Bus, folder: Folder) -> None:
    """A second process looks all the time, while the steps end and lead on."""
    count = 15
    steps = ", ".join(["{uses: b}"] * count)
    hand = ByHand(bus, with_plugins(folder, f"pipelines: [{{name: p, on: e, steps: [{steps}]}}]"))
    (first,) = hand.begin("p")
    over: list[int] = []

    def look() -> None:
        while not over:
            tree = RunTree.of(bus, first)
            if tree.is_over:
                over.append(len(tree.jobs))

    watcher = threading.Thread(target=look)
    watcher.start()
    hand.run(answers())
    watcher.join()
    assert over == [count]


def test_d_108_waiting_ends_with_the_time_and_the_work_goes_on(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, SPLIT))
    (first,) = hand.begin("p")
    assert not wait(bus, first, 0).is_over
    hand.run(answers())
    assert wait(bus, first, 0).state == "succeeded"


@pytest.mark.requirement("D-105", "D-107")
def test_waiting_lasts_until_the_whole_tree_is_over(bus: Bus, folder: Folder) -> None:
    with_plugins(folder, SPLIT)
    for name in "bcd":
        folder.plugin(name, run=OK)
    folder.plugin("b", run=response(events=[{"type": "x", "payload": {}}]))
    with running(bus, folder.path):
        first = _begin(bus, folder)
        tree = wait(bus, first, 60)
    assert tree.state == "succeeded"
    assert [job.record()["step"] for job in tree.jobs] == ["one", "left", "right"]


def test_d_08_no_job_gets_a_folder_and_paths_travel_by_with(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    text = """
pipelines:
  - name: p
    on: e
    steps:
      - {uses: b, baggage: {file: payload.file}}
      - {uses: c, with: {file: "{context.file}"}}
"""
    with_plugins(folder, text)
    seen = tmp_path / "seen"
    for name in "bc":
        run = f'#!/bin/sh\npwd >> {seen}\ncat >> {seen}\necho \'{{"status": "ok"}}\'\n'
        folder.plugin(name, run=run.replace('"ok"', '"ok", "result": "done"'))
    with running(bus, folder.path):
        before = _folders(tmp_path)
        first = _begin(bus, folder, {"file": "/somewhere/a.txt"})
        assert wait(bus, first, 60).state == "succeeded"
        assert _folders(tmp_path) == before
    told = seen.read_text()
    assert [str(folder.path / "plugins" / name) in told for name in "bc"] == [True, True]
    assert told.count("/somewhere/a.txt") == 4  # b's payload and context, c's payload and context


def _folders(path: Path) -> list[Path]:
    return sorted(each for each in path.rglob("*") if each.is_dir())


def test_cancelling_ends_what_waits_and_what_runs(bus: Bus, folder: Folder, tmp_path: Path) -> None:
    with_plugins(folder, SPLIT)
    begun = tmp_path / "begun"
    folder.plugin("b", run=f"#!/bin/sh\ntouch {begun}\nexec sleep 600\n")
    with running(bus, folder.path):
        first = _begin(bus, folder)
        wait_until(begun.exists)
        assert [job.message.id for job in cancel(bus, first)] == [first]
        tree = wait(bus, first, 30)
        assert (tree.state, len(tree.jobs)) == ("cancelled", 1)
    assert cancel(bus, first) == []


def test_cancelling_takes_the_jobs_of_that_run_alone(bus: Bus, folder: Folder) -> None:
    hand = ByHand(bus, with_plugins(folder, SPLIT))
    (first,), (second,) = hand.begin("p"), hand.begin("p")
    hand.step(answers())
    assert len(cancel(bus, first)) == 2
    assert names(hand.run(answers())) == ["b.handle", "c.handle", "d.handle"]
    assert RunTree.of(bus, second).state == "succeeded"


def test_a_step_is_run_once_more_with_all_that_follows(bus: Bus, folder: Folder) -> None:
    text = """
pipelines:
  - name: p
    on: e
    steps: [{uses: b, baggage: {x: payload.x}}, {id: two, uses: c}, {uses: d}]
"""
    hand = ByHand(bus, with_plugins(folder, text))
    (first,) = hand.begin("p", {"x": 1})
    ran = hand.run(answers(b=success(event("y", {"n": 1}, dedupe_key="k"))))
    (again,) = hand.take_in([rerun_request(bus, ran[1].message.id)])
    after = hand.run(answers())
    assert [(origin(job.message)["step"], job.context) for job in after] == [
        ("two", {"x": 1}),
        ("#3", {"x": 1}),
    ]
    assert after[0].message.id == again != ran[1].message.id
    assert after[0].request()["event"] == ran[1].request()["event"]
    assert len(RunTree.of(bus, first).jobs) == 5


def test_a_step_that_could_not_begin_is_not_run_once_more(bus: Bus, folder: Folder) -> None:
    text = """
pipelines: [{name: p, on: e, steps: [{uses: b}, {uses: c, with: {x: "{payload.x}"}}]}]
"""
    hand = ByHand(bus, with_plugins(folder, text))
    hand.begin("p")
    *_, last = hand.run(answers())
    with pytest.raises(InvalidInput, match=r"payload\.x is not there; .*; run the step before"):
        rerun_request(bus, last.message.id)
    with pytest.raises(NotFound):
        rerun_request(bus, "nothing")
    with pytest.raises(NotFound):
        RunTree.of(bus, "nothing")


def _begin(bus: Bus, folder: Folder, payload: object = None) -> str:
    snapshot = examine_folder(folder.path, {})
    router, submission = Router(bus, snapshot.config, snapshot.plugins), Submission(bus)
    with bus.transaction():
        (request,) = router.begin("p", payload or {}, submitted_by="cli")
        return submission.submit(request).job_id
