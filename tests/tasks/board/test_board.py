"""The board: what everybody does, since when and where, and what waits for a person."""

import json
import time
from typing import Any

import pytest

from ackbus import Bus, Draft, Queue
from ackbus.errors import InvalidInput
from ackbus.schema.errors import NotFound
from ackbus.subscribers.queues.queues import Queues
from ackbus.tasks.board.board import Board, Boards
from ackbus.tasks.board.proof import fold_at, seq_at
from ackbus.tasks.records.task import Task
from ackbus.tasks.steps.messages import TASKS, integrators_of

from ...conftest import RunBus
from .conftest import Workshop


def waiting(board: Board) -> list[tuple[str, str | None, str | None]]:
    return [(each.kind, each.task, each.by) for each in board.waiting]


def test_the_board_says_who_does_what_since_when_on_which_branch(workshop: Workshop) -> None:
    """M-05, X-11: and how old the heartbeat of each worker is."""
    begun = workshop.begin("one")
    workshop.clock.advance(20)
    workshop.bus.heartbeats.beat("worker-1", "busy", task="tests", progress=0.5)
    workshop.begin("two", worker="worker-2")
    for age, liveness in ((0, "alive"), (20, "alive"), (40, "warn"), (120, "stale"), (400, "dead")):
        workshop.clock.advance(age)
        first, second = Boards(workshop.bus).now().record()["tasks"]
        assert (first["task"], first["branch"]) == ("one", "worker-1/one")
        assert (first["worker"], first["state"]) == ("worker-1", "WORKING")
        assert first["since_s"] == 20 + age
        assert first["heartbeat"]["liveness"] == liveness
        assert (first["heartbeat"]["age_s"], first["heartbeat"]["status"]) == (age, "working")
        assert second["heartbeat"] is None
        assert first["held_until"] is not None
        workshop.clock.advance(-age)
    assert begun.token == first["token"]


def test_the_board_says_what_waits_for_a_person(workshop: Workshop) -> None:
    asks, done, lost = (workshop.begin(name) for name in ("asks", "done", "lost"))
    workshop.tasks.block(
        "asks", agent="worker-1", token=asks.token, question="Which?", deadline_s=60
    )
    workshop.finish(done, a="done\n2\n3\n")
    workshop.commit(lost, a="lost\n2\n3\n")
    workshop.bus.reservations.reserve(["a"], "alice", lease_s=80_000)
    assert waiting(Boards(workshop.bus).now()) == [
        ("question", "asks", "lead"),
        ("review", "done", "lead"),
        ("conflict", "done", None),
        ("reserved", "done", "alice"),
        ("reserved", "lost", "alice"),
    ]
    workshop.clock.advance(4000)
    board = Boards(workshop.bus).now()
    assert ("lost", "lost", None) in waiting(board)
    assert board.waiting[0].text == "Which? (until 2026-01-10T14:01:00.000Z)"


def test_a_dead_completion_waits_for_a_person(workshop: Workshop) -> None:
    task = workshop.finish(workshop.begin("one", review="none"), a="x")
    assert task.state == "APPROVED"
    queue = Queue.open(workshop.bus, "completions")
    group = integrators_of(task.repository, task.target)
    (claim,) = queue.claim("integrator", group=group)
    assert waiting(Boards(workshop.bus).now()) == []
    queue.fail(claim, "the target is protected", retry=False)
    (found,) = Boards(workshop.bus).now().waiting
    assert (found.kind, found.task) == ("dead completion", "one")
    assert "the target is protected" in found.text


def test_a_queue_that_is_held_waits_for_a_person(workshop: Workshop) -> None:
    workshop.begin("one")
    Queues(workshop.bus).pause("completions")
    (found,) = Boards(workshop.bus).now().waiting
    assert (found.kind, found.since_ms) == ("paused", workshop.clock.now_ms)
    Queues(workshop.bus).resume("completions")
    assert Boards(workshop.bus).now().waiting == ()


def test_the_board_has_the_newest_hundred_heartbeats_and_changes(workshop: Workshop) -> None:
    """M-95: latest 100 of `heartbeat`, `state_change`, by seq descending."""
    drafts = []
    for number in range(170):
        kind = "note" if number % 17 < 5 else ("heartbeat", "state_change")[number % 2]
        drafts.append(Draft(kind, {"n": number}, from_agent="a", to_agent=TASKS))
    receipts = workshop.bus.log.append(drafts)
    wanted = [
        receipt.seq for receipt, draft in zip(receipts, drafts, strict=True) if draft.type != "note"
    ]
    assert len(wanted) == 120
    seqs = [change["seq"] for change in Boards(workshop.bus).now().record()["changes"]]
    assert seqs == wanted[::-1][:100]


def walk(workshop: Workshop) -> list[tuple[int, int, list[Task]]]:
    """Steps of several tasks; after each the seq, the time and all tasks of the table."""
    tasks, clock, seen = workshop.tasks, workshop.clock, []

    def note() -> None:
        clock.advance(10)
        seen.append((workshop.bus.log.newest_seq(), clock.now_ms, tasks.list()))
        clock.advance(10)
        workshop.bus.publish("note", "between", from_agent="a")

    note()
    one = workshop.begin("one")
    note()
    two = workshop.begin("two", review="none")
    note()
    tasks.block("one", agent="worker-1", token=one.token, question="?")
    note()
    one = tasks.answer("one", agent="lead", words="!")
    note()
    workshop.finish(one, a="one")
    note()
    tasks.reject("one", agent="lead", words="no")
    note()
    workshop.finish(two, b="two")
    note()
    tasks.land("two", attempt=1, agent="integrator", commit="2" * 40)
    note()
    tasks.cancel("one", agent="lead", reason="enough")
    note()
    return seen


def test_the_board_of_any_past_moment_is_that_which_was_shown_then(workshop: Workshop) -> None:
    for seq, at_ms, tasks in walk(workshop):
        folded = fold_at(workshop.bus, seq)
        assert sorted(folded.tasks.values(), key=lambda task: task.task) == tasks
        live = [task for task in tasks if task.is_live]
        assert [row.task for row in Boards(workshop.bus).at(seq).rows] == live
        there = Boards(workshop.bus).at(seq_at(workshop.bus, at_ms)).rows
        assert [row.task for row in there] == live
    assert fold_at(workshop.bus).foreign == []
    with pytest.raises(InvalidInput, match="the log ends at seq"):
        Boards(workshop.bus).at(10_000)
    with pytest.raises(NotFound, match="yet to come"):
        seq_at(workshop.bus, workshop.clock.now_ms + 1)


def test_the_past_shows_what_waited_then(workshop: Workshop) -> None:
    seen = [waiting(Boards(workshop.bus).at(seq)) for seq, _, _ in walk(workshop)]
    question, review = [("question", "one", "lead")], [("review", "one", "lead")]
    assert seen == [[], [], [], question, [], review, [], [], [], []]


def test_a_board_without_git_says_so_and_shows_the_rest(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.begin("one")
    monkeypatch.setenv("PATH", "/nowhere")
    board = Boards(workshop.bus).now()
    assert [row.task.task for row in board.rows] == ["one"]
    assert board.problem == "git is not installed, or not on the PATH"


@pytest.fixture
def present(workshop: Workshop) -> Workshop:
    """A workshop in the present, for commands, which ask the system for the time."""
    workshop.clock.now_ms = time.time_ns() // 1_000_000
    return workshop


def test_bus_task_board_prints_tables_or_an_object(present: Workshop, run_bus: RunBus) -> None:
    place = ("--dir", present.bus.layout.directory)
    assert (
        run_bus("task", "board", *place)
        .out.splitlines()[0]
        .endswith("seq 0  0 tasks, 0 things wait for a person")
    )
    one = present.begin("one")
    present.tasks.block("one", agent="worker-1", token=one.token, question="Which \x1b[2J?")
    shown = run_bus("task", "board", *place)
    assert shown.code == 0
    assert "1 task, 1 thing waits for a person" in shown.out
    assert "blocked" in shown.out
    assert "worker-1/one" in shown.out
    assert "Which \\x1b[2J?" in shown.out
    assert "one: ASSIGNED → WORKING" in shown.out
    record: dict[str, Any] = json.loads(run_bus("task", "board", "--json", *place).out)
    assert record["waiting"][0]["for"] == "lead"
    before = record["tasks"][0]["seq"] - 1
    past = json.loads(run_bus("task", "board", "--json", "--at", str(before), *place).out)
    assert [task["state"] for task in past["tasks"]] == ["ASSIGNED"]
    assert json.loads(run_bus("task", "board", "--json", "--at", "1h", *place).out)["tasks"] == []


@pytest.mark.parametrize("moment", ["1", "2001-01-01", "1000000000000"])
def test_a_board_of_the_past_has_its_time_and_says_what_it_lacks(
    present: Workshop, run_bus: RunBus, moment: str
) -> None:
    """Before the first task as well; a person reads no year that nobody named."""
    place = ("--dir", present.bus.layout.directory)
    present.bus.publish("note", {}, from_agent="lead")
    past = run_bus("task", "board", "--at", moment, *place)
    assert past.code == 0
    assert "1970" not in past.out
    assert "no forecast of conflicts: of the past" in past.err


@pytest.mark.parametrize("seq", ["0", "4000", "999999999", "0000000000004000"])
def test_a_seq_that_the_log_has_not_is_no_time(
    present: Workshop, run_bus: RunBus, seq: str
) -> None:
    found = run_bus("task", "board", "--at", seq, "--dir", present.bus.layout.directory)
    assert (found.code, found.out) == (4, "")
    assert f": there is no {seq}" in found.err


def test_a_moment_that_is_none_is_refused(present: Workshop, run_bus: RunBus) -> None:
    place = ("--dir", present.bus.layout.directory)
    wrong = run_bus("task", "board", "--at", "soon", *place)
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert run_bus("task", "board", "--at", "2999-01-01T00:00:00Z", *place).code == 4


@pytest.mark.slow
def test_bus_task_forecast_prints_the_pairs(present: Workshop, run_bus: RunBus) -> None:
    place = ("--dir", present.bus.layout.directory)
    one, two = present.begin("one"), present.begin("two")
    assert run_bus("task", "forecast", "--json", *place, cwd=present.path).out == ""
    present.commit(one, a="one\n2\n3\n")
    present.commit(two, a="two\n2\n3\n")
    found = run_bus("task", "forecast", "--json", *place, cwd=present.path)
    assert (found.code, json.loads(found.out)) == (0, {"a": "one", "b": "two", "files": ["a"]})
    assert run_bus("task", "forecast", *place, cwd=present.path).out == "one  two  a\n"
    of_refs = run_bus("task", "forecast", "main", one.branch, "two", *place, cwd=present.path)
    assert of_refs.out == "worker-1/one  two  a\n"
    present.bus.reservations.reserve(["a"], "alice")
    told = run_bus("task", "forecast", *place, cwd=present.path)
    assert "task one changes a file that is not its own: a is reserved by alice" in told.err


@pytest.mark.parametrize("refs", [("no",), ("main", "--", "--all"), ("--", "-x", "main"), ("",)])
def test_an_unknown_ref_is_one_line(
    present: Workshop, run_bus: RunBus, refs: tuple[str, ...]
) -> None:
    place = ("--dir", present.bus.layout.directory)
    wrong = run_bus("task", "forecast", *place, *refs, cwd=present.path)
    assert (wrong.code, wrong.out, wrong.err.count("\n")) == (4, "", 1)
    assert "no commit or task here is named" in wrong.err


def test_a_bus_without_tasks_has_an_empty_board(bus: Bus) -> None:
    board = Boards(bus).now()
    assert (board.rows, board.waiting, board.changes) == ((), (), ())
    assert Boards(bus).at(0).record()["tasks"] == []
