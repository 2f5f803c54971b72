"""The state machine of a task, by its library."""

from collections.abc import Callable

import pytest

from ackbus import Bus, Draft, Inbox, Queue
from ackbus.errors import AckbusError, InvalidInput, LeaseLost, Refused, UnknownRecipient
from ackbus.tasks.records.task import FINAL, LIVE, Task
from ackbus.tasks.steps.messages import (
    TaskBlocked,
    TaskExists,
    TaskNotFound,
    WrongTaskState,
    fold,
    integrators_of,
)
from ackbus.tasks.steps.tasks import Tasks

from ...subscribers.conftest import Clock
from ..conftest import enter, new_task

HEAD, MERGED = "a" * 40, "b" * 40


def to_state(tasks: Tasks, state: str, name: str = "fix-login", **changed: object) -> Task:
    """Lead a new task to a state by its steps."""
    task = tasks.assign(new_task(name, **changed), agent="lead")
    if state == "ASSIGNED":
        return task
    if state == "CANCELLED":
        return tasks.cancel(name, agent="lead")
    if state == "FAILED":
        return tasks.fail(name, agent="worker-1", token=task.token, reason="no way")
    task = tasks.start(name, agent="worker-1", token=task.token)
    if state == "WORKING":
        return task
    task = tasks.done(name, agent="worker-1", token=task.token, head=HEAD)
    if state == "IN_REVIEW":
        return task
    task = tasks.approve(name, agent="lead")
    if state == "APPROVED":
        return task
    return tasks.land(name, attempt=1, agent="integrator", commit=MERGED)


def step(tasks: Tasks, name: str, task: Task) -> Callable[[], Task]:
    """A step of a task with the token that it has."""
    token = task.token
    return {
        "start": lambda: tasks.start(task.task, agent="worker-1", token=token),
        "done": lambda: tasks.done(task.task, agent="worker-1", token=token, head="c" * 40),
        "approve": lambda: tasks.approve(task.task, agent="lead"),
        "reject": lambda: tasks.reject(task.task, agent="lead", words="no"),
        "land": lambda: tasks.land(task.task, attempt=1, agent="i", commit="d" * 40),
        "send_back": lambda: tasks.send_back(task.task, attempt=1, agent="i", reason="no"),
    }[name]


#: Which step leads out of which state; all others are refused.
ALLOWED = {
    "ASSIGNED": {"start"},
    "WORKING": {"done"},
    "IN_REVIEW": {"approve", "reject"},
    "APPROVED": {"land", "send_back"},
}
STEPS = ("start", "done", "approve", "reject", "land", "send_back")


def states(bus: Bus) -> list[tuple[object, object]]:
    """The changes of state in the log, in its order."""
    return [(m.payload["from"], m.payload["to"]) for m in bus.read(type="state_change")]


def test_task_walks_from_assigned_to_completed(bus: Bus, tasks: Tasks) -> None:
    """M-01, M-02: spawn, start, done, approve and merge are one step each."""
    assert to_state(tasks, "COMPLETED").state == "COMPLETED"
    assert states(bus) == [
        (None, "ASSIGNED"),
        ("ASSIGNED", "WORKING"),
        ("WORKING", "IN_REVIEW"),
        ("IN_REVIEW", "APPROVED"),
        ("APPROVED", "COMPLETED"),
    ]


@pytest.mark.parametrize("state", [*LIVE, *FINAL])
@pytest.mark.parametrize("name", STEPS)
def test_step_that_skips_or_goes_back_is_refused(
    bus: Bus, tasks: Tasks, state: str, name: str
) -> None:
    """M-01: every skipped or backward step is refused, and stores nothing."""
    task = to_state(tasks, state)
    before = bus.stats().messages
    if name in ALLOWED.get(state, ()):
        step(tasks, name, task)()
        assert bus.stats().messages > before
        return
    again = {"start": "WORKING", "approve": "APPROVED"}.get(name) == state
    if again:  # the same step, repeated, is no other step
        assert step(tasks, name, task)() == task
    else:
        with pytest.raises(WrongTaskState):
            step(tasks, name, task)()
    assert bus.stats().messages == before
    assert tasks.get("fix-login") == task


@pytest.mark.parametrize("state", LIVE)
def test_cancel_and_fail_leave_each_state_that_is_not_final(
    bus: Bus, tasks: Tasks, state: str
) -> None:
    """M-03: both lead to a final state, from each that is not."""
    one, other = to_state(tasks, state, "one"), to_state(tasks, state, "other")
    assert tasks.cancel("one", agent="lead", reason="not wanted").state == "CANCELLED"
    token = other.token if state in ("ASSIGNED", "WORKING") else None
    assert tasks.fail("other", agent="worker-1", token=token, reason="no").state == "FAILED"
    for task in (one, other):
        assert bus.leases.get(task.lease_name) is None


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_final_state_is_left_by_nothing(tasks: Tasks, state: str) -> None:
    """M-03: there is no way out of a final state."""
    to_state(tasks, state)
    with pytest.raises(WrongTaskState, match="that is final"):
        tasks.cancel("fix-login", agent="lead")
    with pytest.raises(WrongTaskState, match="that is final"):
        tasks.fail("fix-login", agent="lead", reason="no")


def test_state_change_says_from_and_to(bus: Bus, tasks: Tasks) -> None:
    """M-04: after done the message says {from: WORKING, to: IN_REVIEW}."""
    task = to_state(tasks, "IN_REVIEW")
    *_, last = bus.read(type="state_change")
    assert last.to_agent == "tasks"
    assert last.payload | {"from": "WORKING", "to": "IN_REVIEW", "head": HEAD} == last.payload
    assert (last.payload["attempt"], last.payload["token"]) == (1, task.token)


def test_task_done_says_branch_and_commit(bus: Bus, tasks: Tasks) -> None:
    """M-05: `task_done` shows the branch and the commit."""
    to_state(tasks, "IN_REVIEW")
    (told,) = bus.read(type="task_done")
    assert told.to_agent == "lead"
    assert (told.payload["branch"], told.payload["commit"]) == ("worker-1/fix-login", HEAD)


def test_review_goes_round_by_the_conversation_of_the_task(bus: Bus, tasks: Tasks) -> None:
    """M-94: review_request and review_result have the task for their conversation."""
    to_state(tasks, "IN_REVIEW", reviewer="rita")
    (asked,) = Inbox(bus, "rita").poll()
    assert (asked.type, asked.correlation_id) == ("review_request", "fix-login")
    tasks.reject("fix-login", agent="rita", words="no test")
    (told,) = bus.read(type="review_result")
    assert (told.to_agent, told.correlation_id) == ("worker-1", "fix-login")
    assert (told.payload["result"], told.payload["words"]) == ("rejected", "no test")
    assert tasks.get("fix-login").attempt == 2


def test_all_of_one_task_is_read_by_its_conversation(bus: Bus, tasks: Tasks) -> None:
    """M-96: the messages of a task among those of another, in order."""
    to_state(tasks, "WORKING", "one")
    to_state(tasks, "IN_REVIEW", "other")
    tasks.cancel("one", agent="lead")
    mine = list(bus.read(conversation="one"))
    assert {message.payload["task"] for message in mine} == {"one"}
    assert [message.seq for message in mine] == sorted(message.seq for message in mine)
    assert [message.type for message in mine] == [
        *("state_change", "task_assign", "state_change"),
        *("state_change", "task_cancelled", "task_cancelled"),
    ]


def test_rejected_attempt_and_the_next_are_one_transaction(bus: Bus, tasks: Tasks) -> None:
    to_state(tasks, "IN_REVIEW")
    before = bus.stats().messages
    task = tasks.reject("fix-login", agent="lead", words="no test")
    assert (task.attempt, task.state, task.head) == (2, "ASSIGNED", None)
    assert task.reason == "no test"
    ended, begun = list(bus.read(type="state_change", after_seq=before))
    assert (ended.payload["attempt"], ended.payload["to"]) == (1, "FAILED")
    assert (begun.payload["attempt"], begun.payload["to"]) == (2, "ASSIGNED")
    *_, mail = bus.read(type="task_assign")
    assert (mail.to_agent, mail.payload["reason"]) == ("worker-1", "no test")


def test_task_fails_for_good_after_its_last_attempt(bus: Bus, tasks: Tasks) -> None:
    to_state(tasks, "IN_REVIEW", max_attempts=2)
    tasks.reject("fix-login", agent="lead", words="no")
    task = tasks.start("fix-login", agent="worker-1")
    tasks.done("fix-login", agent="worker-1", token=task.token, head=HEAD)
    assert tasks.reject("fix-login", agent="lead", words="no").state == "FAILED"
    (told,) = bus.read(type="task_failed")
    assert told.to_agent == "lead"


def test_rejected_task_from_the_queue_goes_back_to_it(bus: Bus, tasks: Tasks) -> None:
    to_state(tasks, "IN_REVIEW", from_queue=True, prompt={"prompt": "mend", "taskId": "t"})
    tasks.reject("fix-login", agent="lead", words="no test")
    (claim,) = Queue.open(bus, "jobs").claim("worker-2", group="tasks", limit=1)
    wanted = {"prompt": "mend", "taskId": "t", "task": "fix-login", "attempt": 2}
    assert claim.message.payload == wanted | {"reason": "no test"}
    assert tasks.start("fix-login", agent="worker-2").worker == "worker-2"


def test_approved_task_waits_in_the_queue_of_completions(bus: Bus, tasks: Tasks) -> None:
    to_state(tasks, "APPROVED")
    group = integrators_of("/repo/.git", "main")
    assert Queue.open(bus, "completions").claim("integrator", group="other", limit=1) == []
    (claim,) = Queue.open(bus, "completions").claim("integrator", group=group, limit=1)
    payload = claim.message.payload
    assert payload | {"task": "fix-login", "head": HEAD, "target": "main"} == payload


def test_task_without_review_is_approved_as_it_is_done(bus: Bus, tasks: Tasks) -> None:
    assert to_state(tasks, "IN_REVIEW", review="none").state == "APPROVED"
    assert len(list(bus.read(type="task.completion"))) == 1
    assert not list(bus.read(type="review_request"))


def test_worker_can_not_approve_where_another_must(tasks: Tasks) -> None:
    to_state(tasks, "IN_REVIEW", review="other")
    with pytest.raises(Refused, match="an agent other than"):
        tasks.approve("fix-login", agent="worker-1")
    assert tasks.approve("fix-login", agent="rita").state == "APPROVED"


# Holders ---------------------------------------------------------------------------------------


def test_late_holder_changes_nothing(bus: Bus, tasks: Tasks, clock: Clock) -> None:
    late = tasks.assign(new_task(), agent="lead", lease_s=60)
    clock.advance(60)
    assert tasks.start("fix-login", agent="worker-1").token > late.token
    before = bus.stats().messages
    for call in (
        lambda: tasks.done("fix-login", agent="worker-1", token=late.token, head=HEAD),
        lambda: tasks.heartbeat("fix-login", agent="worker-1", token=late.token),
        lambda: tasks.block("fix-login", agent="worker-1", token=late.token, question="?"),
        lambda: tasks.fail("fix-login", agent="worker-1", token=late.token, reason="x"),
        lambda: tasks.fail("fix-login", agent="worker-1", reason="x"),
    ):
        with pytest.raises(LeaseLost):
            call()
    assert bus.stats().messages == before


def test_lost_holder_ends_the_attempt_and_begins_the_next(tasks: Tasks, clock: Clock) -> None:
    task = tasks.assign(new_task(), agent="lead")
    task = tasks.start("fix-login", agent="worker-1", token=task.token, lease_s=60)
    assert list(tasks.settle_lost()) == []
    clock.advance(60)
    (settled,) = tasks.settle_lost()
    assert (settled.attempt, settled.state) == (2, "ASSIGNED")
    assert "lost" in str(settled.reason)
    assert list(tasks.settle_lost()) == []


def test_lost_holder_of_a_task_that_must_not_be_repeated_fails_it(
    tasks: Tasks, clock: Clock
) -> None:
    task = tasks.assign(new_task(on_lost="fail"), agent="lead")
    tasks.start("fix-login", agent="worker-1", token=task.token, lease_s=60)
    clock.advance(60)
    assert [task.state for task in tasks.settle_lost()] == ["FAILED"]


def test_task_that_was_never_started_is_not_lost(tasks: Tasks, clock: Clock) -> None:
    tasks.assign(new_task(), agent="lead", lease_s=60)
    assert [task.task for task in tasks.list(is_ready=True)] == ["fix-login"]  # held for its worker
    clock.advance(60)
    assert list(tasks.settle_lost()) == []
    assert [task.task for task in tasks.list(is_ready=True)] == ["fix-login"]


def test_assigning_again_gives_the_same_task_and_a_token_that_is_held(
    bus: Bus, tasks: Tasks
) -> None:
    first = tasks.assign(new_task(), agent="lead")
    assert tasks.assign(new_task(), agent="lead") == first
    assert len(list(bus.read(type="state_change"))) == 1
    bus.leases.release(bus.leases.list()[0])
    again = tasks.assign(new_task(), agent="lead")
    assert again.token > first.token
    assert tasks.start("fix-login", agent="worker-1", token=again.token).token == again.token
    assert tasks.assign(new_task(), agent="lead").state == "WORKING"


def test_name_that_is_taken_is_refused(tasks: Tasks) -> None:
    tasks.assign(new_task(), agent="lead")
    with pytest.raises(TaskExists, match="choose another name"):
        tasks.assign(new_task(worker="worker-2"), agent="lead")
    with pytest.raises(TaskNotFound, match="bus task list"):
        tasks.get("other")


@pytest.mark.parametrize(
    "name", ["", "-x", "a/b", "..", "a..b", "a.lock", "a.", "ä", "a b", "a\nb", "x" * 201]
)
def test_name_that_can_be_no_branch_or_folder_is_refused(tasks: Tasks, name: str) -> None:
    with pytest.raises(InvalidInput, match="task name"):
        tasks.assign(new_task(name), agent="lead")


def test_task_waits_until_what_it_depends_on_has_landed(tasks: Tasks, clock: Clock) -> None:
    to_state(tasks, "APPROVED", "first")
    task = tasks.assign(new_task("second", depends_on=("first",)), agent="lead", lease_s=60)
    clock.advance(60)
    with pytest.raises(Refused, match="waits until first has landed"):
        tasks.start("second", agent="worker-1")
    assert tasks.list(is_ready=True) == []
    tasks.land("first", attempt=1, agent="integrator", commit=MERGED)
    assert [each.task for each in tasks.list(is_ready=True)] == ["second"]
    assert tasks.start("second", agent="worker-1").token > task.token


# Questions -------------------------------------------------------------------------------------


def test_blocked_task_has_no_lease_until_it_is_answered(bus: Bus, tasks: Tasks) -> None:
    task = to_state(tasks, "WORKING")
    asked = tasks.block("fix-login", agent="worker-1", token=task.token, question="which login?")
    assert asked.state == "WORKING"
    assert tasks.holder(asked) is None
    assert list(tasks.settle_lost()) == []
    with pytest.raises(TaskBlocked, match="which login"):
        tasks.done("fix-login", agent="worker-1", token=task.token, head=HEAD)
    (mail,) = bus.read(type="task_blocked")
    assert (mail.to_agent, mail.payload["question"]) == ("lead", "which login?")
    answered = tasks.answer("fix-login", agent="lead", words="the new one")
    *_, told = Inbox(bus, "worker-1").poll()
    assert (told.payload["words"], told.payload["token"]) == ("the new one", answered.token)
    done = tasks.done("fix-login", agent="worker-1", token=answered.token, head=HEAD)
    assert done.state == "IN_REVIEW"


def test_question_without_an_answer_in_time_fails_the_task(tasks: Tasks, clock: Clock) -> None:
    task = to_state(tasks, "WORKING")
    ask = {"agent": "worker-1", "token": task.token, "question": "which?"}
    tasks.block("fix-login", **ask, deadline_s=60)  # type: ignore[arg-type]
    assert list(tasks.settle_deadlines()) == []
    clock.advance(60)
    (settled,) = tasks.settle_deadlines()
    assert (settled.state, settled.reason) == ("FAILED", "no answer in time to: which?")
    with pytest.raises(Refused, match="asks nothing"):
        tasks.answer("fix-login", agent="lead", words="late")


def test_question_that_is_not_overdue_any_more_is_not_settled(
    tasks: Tasks, bus: Bus, clock: Clock
) -> None:
    """Seen as overdue, and found otherwise in the transaction: here by a clock that is set back."""
    task = to_state(tasks, "WORKING")
    tasks.block("fix-login", agent="worker-1", token=task.token, question="?", deadline_s=60)
    times = iter([clock() + 60_000])
    with Bus.open(bus.directory, clock=lambda: next(times, clock())) as other:
        assert list(Tasks(other).settle_deadlines()) == []
    assert tasks.get("fix-login").blocked is not None


def test_attempt_that_is_over_is_named_where_it_can_not_land(tasks: Tasks) -> None:
    to_state(tasks, "IN_REVIEW")
    tasks.reject("fix-login", agent="lead", words="again")
    with pytest.raises(WrongTaskState, match="is FAILED in attempt 1, not APPROVED"):
        tasks.land("fix-login", attempt=1, agent="integrator", commit=MERGED)


# Log and table ---------------------------------------------------------------------------------


def test_fold_of_the_log_is_the_table(bus: Bus, tasks: Tasks) -> None:
    for state in (*LIVE, *FINAL):
        to_state(tasks, state, state.lower().replace("_", "-"))
    task = to_state(tasks, "WORKING", "asks")
    tasks.block("asks", agent="worker-1", token=task.token, question="?", deadline_s=60)
    tasks.reject("in-review", agent="lead", words="again")
    folded = fold(bus.read())
    assert folded.tasks == {task.task: task for task in tasks.list()}
    assert folded.foreign == []


@pytest.mark.parametrize("field", ["worker", "reviewer"])
@pytest.mark.parametrize("name", ["everyone", "alice,bob"])
def test_task_goes_to_one_agent(bus: Bus, tasks: Tasks, field: str, name: str) -> None:
    """Issue 19, 6: its mail would lie in an inbox that nobody reads."""
    with pytest.raises(UnknownRecipient, match=r"everyone|one by one"):
        tasks.assign(new_task(**{field: name}), agent="lead")
    assert tasks.list() == []


@pytest.mark.filterwarnings("ignore::ackbus.errors.UnknownRecipientWarning")
def test_message_that_claims_a_step_changes_no_state(bus: Bus, tasks: Tasks) -> None:
    to_state(tasks, "WORKING")
    claim = {"task": "fix-login", "attempt": 1, "token": 0, "from": "WORKING", "to": "IN_REVIEW"}
    for payload in (claim, claim | {"attempt": 2, "token": 99}, {"from": None}, "words", None):
        bus.publish("state_change", payload, from_agent="mallory", to_agent="tasks")
    folded = fold(bus.read())
    assert folded.tasks["fix-login"].state == "WORKING"
    assert len(folded.foreign) == 5


def test_file_refuses_a_step_back_from_every_program(bus: Bus, tasks: Tasks) -> None:
    import sqlite3

    to_state(tasks, "IN_REVIEW")
    with sqlite3.connect(f"{bus.directory}/bus.db") as connection:
        for change in ("state = 'WORKING'", "state = 'COMPLETED'", "attempt = 2", "token = 0"):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(f"UPDATE tasks SET {change}")


def test_transaction_that_fails_leaves_neither_row_nor_message(bus: Bus, tasks: Tasks) -> None:
    tasks.assign(new_task(), agent="lead")
    before = bus.stats().messages

    def cancel_and_give_up() -> None:
        with bus.transaction():
            tasks.cancel("fix-login", agent="lead")
            raise AckbusError("the caller gives up")

    with pytest.raises(AckbusError, match="gives up"):
        cancel_and_give_up()
    assert tasks.get("fix-login").state == "ASSIGNED"
    assert bus.stats().messages == before


def test_the_trace_of_a_job_is_in_all_that_its_task_publishes(bus: Bus, tasks: Tasks) -> None:
    """Q-22: the same trace id at every hop, up to the completion; each is a span of its own."""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    (job,) = enter(bus, Draft("task.job", {}, from_agent="planner", headers=headers))
    task = tasks.assign(new_task(review="none", correlation_id=job.id), agent="worker-1")
    tasks.start(task.task, agent="worker-1", token=task.token)
    task = tasks.block(task.task, agent="worker-1", token=task.token, question="which one?")
    task = tasks.answer(task.task, agent="lead", words="the first")
    tasks.done(task.task, agent="worker-1", token=task.token, head=HEAD)
    found = [message for message in bus.read(conversation=job.id) if message.seq > job.seq]
    assert {"state_change", "task_assign", "task_done", "task.completion"} <= {
        message.type for message in found
    }
    parents = [str(message.headers["traceparent"]) for message in found]
    assert {parent[3:35] for parent in parents} == {trace}
