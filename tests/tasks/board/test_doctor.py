"""The checks of tasks: the table against the log, foreign messages, lost holders, questions."""

from dataclasses import replace
from pathlib import Path

from ackbus import Bus, Draft, Exporter
from ackbus.doctor.checks.bus import checks_of_tasks
from ackbus.doctor.repair.database import mend_tasks
from ackbus.schema.findings import Finding, examine
from ackbus.tasks.board.board import Boards
from ackbus.tasks.records.task import lease_of_target
from ackbus.tasks.records.task_table import Landing, Landings
from ackbus.tasks.steps.messages import STATE_CHANGE, TASKS
from ackbus.tasks.steps.tasks import Tasks

from ...programs import tamper
from ..conftest import new_task
from .conftest import Workshop


def found(bus: Bus) -> dict[str, Finding]:
    return {each.check: each for each in examine(checks_of_tasks(bus, full=True))}


def test_tasks_that_are_well_are_said_to_be(workshop: Workshop) -> None:
    workshop.finish(workshop.begin("one"), a="x")
    workshop.begin("two")
    workshop.tasks.cancel("two", agent="lead")
    workshop.tasks.mark_cleaned("two")
    findings = found(workshop.bus)
    assert [(each.state, each.text) for each in findings.values()] == [
        ("ok", "all add up: 2"),
        ("ok", "none lost, no question overdue; live tasks: 1"),
        ("ok", "nothing left behind"),
        ("ok", "none left undecided; under way or proposed: 0"),
    ]
    quick = next(examine(checks_of_tasks(workshop.bus)))
    assert quick.text == "--full compares tasks with their messages"


def test_a_lost_row_comes_back_as_unproven_and_one_that_is_there_stays(
    workshop: Workshop,
) -> None:
    """Promise 4: the log shows, and does not vouch."""
    one = workshop.begin("one")
    workshop.begin("two")
    tamper(
        Path(workshop.bus.layout.directory),
        "UPDATE tasks SET state = 'APPROVED' WHERE task = 'two'",
        "INSERT INTO tasks SELECT 'three', attempt, state, worker, branch, path, repository,"
        " base_ref, base, target, head, token, review, reviewer, requester, priority,"
        " max_attempts, on_lost, depends_on, from_queue, prompt, reason, blocked, commit_id,"
        " correlation_id, last_seq, created_at_ms, changed_at_ms, cleaned_at_ms, unproven"
        " FROM tasks WHERE task = 'one'",
        "DELETE FROM tasks WHERE task = 'one'",
    )
    two = workshop.tasks.get("two")
    finding = found(workshop.bus)["tasks"]
    assert finding.state == "warn"
    assert finding.text == (
        "only messages tell of one, from lead, worker-1: their rows are lost, or never were;"
        " messages, from lead, worker-1, say something else than the rows of two, which stand;"
        " the log lacks messages of three"
    )
    (mended,) = mend_tasks(workshop.bus)
    assert (mended.part, mended.text) == ("tasks", "one kept as unproven, from messages")
    assert workshop.tasks.get("one") == replace(one, unproven=True)
    assert workshop.tasks.get("two") == two
    assert "unproven, so that nothing goes on with them: one" in found(workshop.bus)["tasks"].text
    assert list(mend_tasks(workshop.bus)) == []


def test_a_row_that_knows_more_than_a_damaged_log_stays(workshop: Workshop) -> None:
    task = workshop.finish(workshop.begin("one"), a="x")
    workshop.bus.publish("note", from_agent="a")
    tamper(Path(workshop.bus.layout.directory), f"DELETE FROM messages WHERE seq = {task.last_seq}")
    finding = found(workshop.bus)["tasks"]
    assert (finding.state, finding.text) == ("warn", "the log lacks messages of one")
    assert list(mend_tasks(workshop.bus)) == []
    assert workshop.tasks.get("one") == task


def test_messages_of_others_that_are_no_step_are_named(workshop: Workshop) -> None:
    task = workshop.begin("one")
    before = workshop.tasks.get("one")
    foreign = [
        Draft(STATE_CHANGE, payload, from_agent="mallory", to_agent=TASKS)
        for payload in (
            {"task": "one", "attempt": 1, "token": task.token, "from": "WORKING", "to": "APPROVED"},
            {"from": "WORKING", "to": "IN_REVIEW"},
        )
    ]
    receipts = workshop.bus.log.append(foreign)
    finding = found(workshop.bus)["tasks"]
    assert finding.state == "warn"
    assert finding.text == (
        "messages that are no step of a task, and change none:"
        f" {receipts[0].seq}-{receipts[1].seq}, from mallory"
    )
    assert workshop.tasks.get("one") == before


def test_lost_holders_and_overdue_questions_are_named(workshop: Workshop) -> None:
    asks = workshop.begin("asks")
    workshop.begin("lost")
    workshop.tasks.block("asks", agent="worker-1", token=asks.token, question="?", deadline_s=60)
    workshop.clock.advance(4000)
    finding = found(workshop.bus)["task holders"]
    assert (finding.state, finding.text) == (
        "warn",
        "lost by their holders: lost; unanswered in time: asks",
    )
    workshop.tasks.settle_lost()
    workshop.tasks.settle_deadlines()
    assert found(workshop.bus)["task holders"].state == "ok"


def test_a_landing_whose_integrator_ended_is_named(workshop: Workshop) -> None:
    """Intended and proposed: the one is decided by the next integrator, the other by a person."""
    landings, landing = Landings.of(workshop.bus), an_intent(workshop)
    landings.add(landing)
    name = lease_of_target(landing.repository, landing.target)
    assert workshop.bus.leases.acquire(name, "integrator") is not None
    assert found(workshop.bus)["landings"].state == "ok"
    workshop.clock.advance(600)
    finding = found(workshop.bus)["landings"]
    assert (finding.state, finding.text) == ("warn", "intended, and not decided: one on main")
    landings.end(landing.seq, "proposed", None)
    finding = found(workshop.bus)["landings"]
    assert finding.text == "none left undecided; under way or proposed: 1"
    (waiting,) = Boards(workshop.bus).now().waiting
    assert (waiting.kind, waiting.task) == ("proposal", "one")
    assert waiting.text == "666666666666 was proposed for main"
    landings.end(landing.seq, "landed", workshop.clock.now_ms)
    assert Boards(workshop.bus).now().waiting == ()


def an_intent(workshop: Workshop) -> Landing:
    return Landing(
        seq=1,
        repository=str(workshop.path / ".git"),
        target="main",
        task="one",
        attempt=1,
        branch="worker-1/one",
        head="4" * 40,
        onto="5" * 40,
        candidate="6" * 40,
        tree="7" * 40,
        patch_id="8" * 40,
        checks=(),
        state="intended",
        completion_seq=1,
        intended_at_ms=workshop.clock.now_ms,
    )


def test_tasks_of_an_imported_log_are_those_of_another_bus(
    workshop: Workshop, tmp_path: Path
) -> None:
    workshop.finish(workshop.begin("one"), a="x")
    workshop.begin("two")
    Exporter(workshop.bus).export_once()
    exported = Path(workshop.bus.layout.directory) / "bus.jsonl"
    with Bus.init(tmp_path / "other", clock=workshop.clock) as other:
        Tasks(other).assign(new_task("two"), agent="lead")
        with exported.open("rb") as lines:
            other.import_jsonl(lines)
        assert found(other)["tasks"].text == "all add up: 1"
        assert list(mend_tasks(other)) == []
        task = Tasks(other).get("two")
        Tasks(other).start("two", agent="worker-1", token=task.token)
        assert found(other)["tasks"].text == "all add up: 1"
        rows = Boards(other).at(other.log.newest_seq()).rows
        assert [row.task.task for row in rows] == ["two"]
