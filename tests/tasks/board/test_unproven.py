"""Forged messages against doctor and repair; tasks that came back from messages."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.doctor.checks.bus import checks_of_tasks
from ackbus.doctor.repair.database import mend_tasks
from ackbus.errors import Refused
from ackbus.schema.findings import examine
from ackbus.schema.queries import file_of
from ackbus.tasks.board.board import Boards
from ackbus.tasks.finish import Cleaner
from ackbus.tasks.steps.messages import ANSWER, BLOCKED, RECORDED, STATE_CHANGE, TASKS, TaskUnproven
from ackbus.tasks.steps.tasks import Tasks

from ...conftest import RunBus
from ...programs import raw_sql, tamper
from ...sizes import size
from .conftest import Workshop

STATES = ("ASSIGNED", "WORKING", "IN_REVIEW", "APPROVED", "COMPLETED", "CANCELLED", "FAILED")


def rows(bus: Bus) -> list[tuple[Any, ...]]:
    """The rows of tasks, as the file has them."""
    return [tuple(row) for row in file_of(bus).rows("SELECT * FROM tasks ORDER BY task")]


def finding(bus: Bus) -> Any:
    (found,) = (each for each in examine(checks_of_tasks(bus, full=True)) if each.check == "tasks")
    return found


def forged(workshop: Workshop) -> list[Draft]:
    """Messages of every form that a step writes about live tasks, by others, fields permuted."""
    made = []
    for name in ("works", "reviewed", "approved"):
        task = workshop.tasks.get(name)
        record = {field: getattr(task, field) for field in RECORDED} | {"repository": "/evil/.git"}
        for before, after, attempt, token, worker in itertools.product(
            (None, *STATES), STATES, (0, 1, 1), (0, task.token, 99), (task.worker, "mallory")
        ):
            payload = {
                "task": name,
                "attempt": attempt + task.attempt - 1,
                "token": token,
                "from": before,
                "to": after,
                "worker": worker,
                "branch": task.branch,
                "reason": None,
                "head": "6" * 40,
                "commit": "6" * 40,
                "record": record,
            }
            made.append(Draft(STATE_CHANGE, payload, from_agent=worker, to_agent=TASKS))
        about = {"task": name, "attempt": task.attempt, "token": 99, "question": "?"}
        asked = {**about, "reason": None, "deadline_ms": None}
        made += [Draft(type, asked, from_agent="mallory") for type in (BLOCKED, ANSWER)]
    return made


@pytest.fixture
def live(workshop: Workshop) -> Workshop:
    """A task that is WORKING, one IN_REVIEW, one APPROVED."""
    workshop.begin("works")
    workshop.finish(workshop.begin("reviewed", worker="w-2"), a="x")
    workshop.finish(workshop.begin("approved", worker="w-3", review="none"), b="y")
    return workshop


@pytest.mark.slow
def test_no_forged_message_changes_a_row_that_is_there(live: Workshop) -> None:
    """PITFALLS 31: each alone, then all that came together."""
    bus, before = live.bus, rows(live.bus)
    drafts = forged(live)
    for draft in drafts[:: size(sample=29, whole=1)]:
        bus.log.append([draft])
        found = finding(bus)
        assert found.state != "bad", draft.payload
        assert "puts it right" not in found.advice
        assert list(mend_tasks(bus)) == []
        assert rows(bus) == before
    assert "mallory" in finding(bus).text


@pytest.mark.parametrize("worker", ["worker-1", "mallory"])
def test_a_forged_step_that_fits_is_named_with_its_sender(live: Workshop, worker: str) -> None:
    """Approval by the worker itself: the newest step of the row stands."""
    task = live.tasks.get("reviewed")
    payload = {
        "task": task.task,
        "attempt": 1,
        "token": task.token,
        "worker": task.worker,
        "from": "IN_REVIEW",
        "to": "APPROVED",
        "reason": None,
        "head": task.head,
        "commit": None,
    }
    (sent,) = live.bus.log.append([Draft(STATE_CHANGE, payload, from_agent=worker, to_agent=TASKS)])
    found = finding(live.bus)
    assert (found.state, found.text) == (
        "warn",
        f"messages that are no step of a task, and change none: {sent.seq}, from {worker}",
    )
    assert list(mend_tasks(live.bus)) == []
    assert live.tasks.get("reviewed") == task


def lose_rows(workshop: Workshop) -> None:
    """Loses the rows of all tasks, and brings them back from the log."""
    tamper(Path(workshop.bus.layout.directory), "DELETE FROM tasks")
    assert len(list(mend_tasks(workshop.bus))) == 1


def test_nothing_goes_on_with_a_task_that_is_unproven(live: Workshop) -> None:
    """No approval, no landing, no start; the file refuses it too. It may be cancelled."""
    token = live.tasks.get("works").token
    lose_rows(live)
    tasks = Tasks(live.bus)
    assert all(task.unproven for task in tasks.list())
    where = {"agent": "worker-1", "token": token}
    steps = [
        lambda: tasks.start("works", **where),
        lambda: tasks.heartbeat("works", **where),
        lambda: tasks.done("works", head="1" * 40, **where),
        lambda: tasks.block("works", question="?", **where),
        lambda: tasks.fail("works", agent="worker-1", reason="x"),
        lambda: tasks.approve("reviewed", agent="rita"),
        lambda: tasks.approve("approved", agent="rita"),
        lambda: tasks.reject("reviewed", agent="rita", words="no"),
        lambda: tasks.send_back("approved", attempt=1, agent="i", reason="x"),
        lambda: tasks.land("approved", attempt=1, agent="i", commit="1" * 40),
    ]
    before = rows(live.bus)
    for step in steps:
        with pytest.raises(TaskUnproven, match="bus task confirm"):
            step()
    live.clock.advance(100_000)
    assert (tasks.settle_lost(), tasks.settle_deadlines()) == ([], [])
    assert rows(live.bus) == before
    with pytest.raises(AssertionError, match="one step forward"):
        raw_sql(Path(live.bus.layout.directory), "UPDATE tasks SET state = 'IN_REVIEW'")
    assert [each.kind for each in Boards(live.bus).now().waiting] == ["unproven"] * 3
    assert tasks.cancel("works", agent="ann").state == "CANCELLED"
    (cleaned,) = Cleaner(live.bus, str(live.path)).clean(["works"])
    assert cleaned.reason == "the task is unproven"


def test_a_confirmed_task_goes_on_from_where_it_was(live: Workshop) -> None:
    expected = live.tasks.get("reviewed")
    lose_rows(live)
    assert live.tasks.confirm("reviewed", agent="ann") == expected
    assert live.tasks.confirm("reviewed", agent="ann") == expected  # again: nothing to do
    (told,) = live.bus.read(type="task_confirmed")
    assert (told.from_agent, told.payload["state"]) == ("ann", "IN_REVIEW")
    assert live.tasks.approve("reviewed", agent="rita").state == "APPROVED"
    assert "unproven" not in json.dumps(live.tasks.get("reviewed").record()["reason"])


def test_bus_task_confirm_shows_what_would_be_believed(live: Workshop, run_bus: RunBus) -> None:
    lose_rows(live)
    where = ("--dir", live.bus.directory, "--agent", "ann")
    refused = run_bus("task", "confirm", "reviewed", *where)
    assert (refused.code, refused.out) == (3, "")
    assert f"repository: {live.path}/.git" in refused.err
    assert "said by w-2" in refused.err
    done = run_bus("task", "confirm", "reviewed", *where, "--yes", "--json")
    assert (done.code, json.loads(done.out)["unproven"]) == (0, False)
    assert not live.tasks.get("reviewed").unproven
    assert isinstance(TaskUnproven("x"), Refused)
