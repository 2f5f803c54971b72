"""Requests: priorities, budgets, estimates, states and answers."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ackbus import Bus, Draft
from ackbus.errors import AnsweredAgainWarning, InvalidInput
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.errors import QueueMismatch
from ackbus.subscribers.queues.queue import Queue
from ackbus.subscribers.queues.queue_set import change_policy
from ackbus.tasks.control.entries import NotClaimed, limit_of
from ackbus.tasks.control.requests import Requests, row
from ackbus.tasks.steps.planning import open_queue

from ...subscribers.conftest import Clock
from ..conftest import enter
from .conftest import Told, ask

KEYS = [
    *("id", "sessionId", "prompt", "priority", "queueWaitBudgetMs", "status", "agentId", "result"),
    *("error", "enqueuedAt", "claimedAt", "completedAt", "failedAt", "durationMs", "createdAt"),
    "updatedAt",
]


def rows(bus: Bus, view: str = "pushpals_requests") -> list[dict[str, Any]]:
    """The rows of a view, as a program reads them."""
    engine = engine_of(bus)
    names = [name for _, name, *_ in engine.rows(f"PRAGMA table_info({view})")]
    return [dict(zip(names, found, strict=True)) for found in engine.rows(f"SELECT * FROM {view}")]


def test_u_30_priority_first_and_then_age(requests: Requests) -> None:
    """U-30: normal, background, interactive come out the other way round."""
    normal, background, interactive = (
        ask(requests, word) for word in ("normal", "background", "interactive")
    )
    claimed = [requests.claim("planner") for _ in range(3)]
    assert [found and found[0]["id"] for found in claimed] == [interactive, normal, background]


@pytest.mark.parametrize("word", ["urgent", None, 7, "", "NORMAL "])
def test_u_31_an_unknown_priority_is_normal(requests: Requests, word: object) -> None:
    """U-31: and so is a missing one."""
    requests.enqueue({"sessionId": "s1", "prompt": "x", "priority": word})
    found = requests.claim("planner")
    assert found is not None
    assert found[0]["priority"] == "normal"


def test_u_32_a_request_has_exactly_these_keys(requests: Requests, bus: Bus) -> None:
    """U-32, U-09: by the library and by the view, which agree on every value."""
    ask(requests)
    done, bad = ask(requests, "interactive"), ask(requests, "interactive")
    assert requests.claim("planner")
    assert requests.claim("planner")
    requests.complete(done, {"text": "gelöst", "n": [1]})
    requests.fail(bad, "no plan", "the model is away")
    ask(requests, "background", prompt="π: {}", queueWaitBudgetMs=7)
    found = [row(entry) for entry in requests.entries.list()]
    assert [list(each) for each in found] == [KEYS] * 4
    assert sorted(rows(bus), key=lambda each: str(each["id"])) == sorted(
        found, key=lambda each: str(each["id"])
    )


def test_a_prompt_that_is_a_blob_is_whole_by_the_library(requests: Requests, bus: Bus) -> None:
    """U-32: what is not in the file is NULL in the view, which fails over nothing."""
    ask(requests, prompt="x" * 50_000)
    enter(bus, Draft("task.request", "no object", from_agent="other"))
    engine_of(bus).change(
        "INSERT INTO messages (id, ts_ms, from_agent, to_agent, type, payload)"
        " VALUES ('raw', 1, 'sql', 'tasks', 'task.request', '{no json')"
    )
    open_queue(bus, "requests").take_in([bus.log.newest_seq()])
    entries = requests.entries.list()
    assert [len(row(entry)["prompt"] or "") for entry in entries] == [0, 9, 50_000]
    assert [each["prompt"] for each in rows(bus)] == [None, "no object", None]


def test_u_33_only_what_is_claimed_can_end(requests: Requests) -> None:
    """U-33: pending → claimed → completed or failed, and nothing else."""
    id = ask(requests)
    for act in (requests.complete, requests.fail):
        with pytest.raises(NotClaimed, match=r"not in claimed state \(it is pending\)"):
            act(id)
    assert requests.claim("planner")
    assert requests.complete(id, {}).status == "completed"
    for act in (requests.complete, requests.fail):
        with pytest.raises(NotClaimed, match=r"it is completed"):
            act(id)
    with pytest.raises(NotClaimed, match="not found or not in claimed state"):
        requests.complete("there-is-none")


def test_only_the_holder_ends_a_request_where_it_says_who_it_is(requests: Requests) -> None:
    """U-33: another one that names itself is refused."""
    id = ask(requests)
    assert requests.claim("planner")
    with pytest.raises(NotClaimed, match="planner has it"):
        requests.complete(id, {}, agent="somebody")
    assert requests.complete(id, {}, agent="planner").status == "completed"


def test_u_34_place_and_estimate_come_with_the_id(requests: Requests) -> None:
    """U-34: an interactive one on top is first, at once."""
    for word in ("normal", "background"):
        ask(requests, word)
    told = requests.enqueue({"sessionId": "s1", "prompt": "now", "priority": "interactive"})
    assert (told["queuePosition"], told["etaMs"]) == (1, 0)
    for body in ({}, {"sessionId": "s1"}, {"prompt": "x"}, {"sessionId": " ", "prompt": "x"}):
        with pytest.raises(InvalidInput, match="sessionId and prompt are required"):
            requests.enqueue(body)
    assert len(requests.entries.list()) == 3


def test_u_35_estimates_by_tier_and_budgets_with_a_floor(requests: Requests) -> None:
    """U-35: three background requests: 0, 240,000, 480,000; a budget of 5 is raised to 1,000."""
    etas = [
        requests.enqueue({"sessionId": "s1", "prompt": "x", "priority": "background"})["etaMs"]
        for _ in range(3)
    ]
    assert etas == [0, 240_000, 480_000]
    ask(requests, "interactive", queueWaitBudgetMs=5)
    budgets = [row(entry)["queueWaitBudgetMs"] for entry in requests.entries.list()]
    assert budgets == [1_000, 240_000, 240_000, 240_000]
    for word, default in (("interactive", 20_000), ("normal", 90_000)):
        for given in (None, "x", -3, 0, True, float("inf"), float("nan")):
            found = requests.entries.get(ask(requests, word, queueWaitBudgetMs=given))
            assert found is not None
            assert row(found)["queueWaitBudgetMs"] == default


def test_u_36_each_request_is_claimed_once(requests: Requests, bus: Bus) -> None:
    """U-36: 10 agents claim 5 requests: five get one each, five nothing."""
    ids = {ask(requests) for _ in range(5)}
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda n: Requests(bus).claim(f"agent-{n}"), range(10)))
    assert [claimed is None for claimed in found].count(True) == 5
    assert {claimed[0]["id"] for claimed in found if claimed is not None} == ids


def test_u_37_results_and_failures_are_kept(requests: Requests, bus: Bus) -> None:
    """U-37: and both are answers to the sender of the request."""
    done, bad = ask(requests), ask(requests)
    requests.claim("planner")
    requests.claim("planner")
    found = row(requests.complete(done, {"jobs": ["a"]}))
    assert json.loads(found["result"]) == {"jobs": ["a"]}
    found = row(requests.fail(bad))
    assert (found["result"], json.loads(found["error"])) == (None, {"message": "Unknown error"})
    answers = list(bus.read(to_agent="pushpals"))
    assert [(each.type, each.in_reply_to) for each in answers] == [
        ("task.done", done),
        ("task.failed", bad),
    ]


def test_u_38_lists_counts_and_limits(requests: Requests) -> None:
    """U-38: limit 0, 9999 and a missing one are 1, 500 and 200; another status is refused."""
    assert [limit_of(text) for text in ("0", "9999", None, "-4", "x")] == [1, 500, 200, 1, 200]
    first = ask(requests)
    for word in ("interactive", "background", "background"):
        ask(requests, word)
    requests.claim("planner")
    by_status, by_priority = requests.entries.counts()
    assert by_status == {"pending": 3, "claimed": 1, "completed": 0, "failed": 0}
    assert by_priority == {"interactive": 1, "normal": 1, "background": 2}
    line = requests.entries.in_line()
    assert [(each["position"], each["etaMs"]) for each in line] == [
        (1, 0),
        (2, 240_000),
        (3, 480_000),
    ]
    assert line[0]["id"] == first
    assert [entry.status for entry in requests.entries.list("claimed")] == ["claimed"]
    assert len(requests.entries.list(limit=2)) == 2
    for _ in range(12):
        ask(requests)
    assert len(requests.entries.in_line()) == 10
    with pytest.raises(InvalidInput, match="Invalid status filter"):
        requests.entries.list("foo")


def test_u_39_a_wait_over_the_budget_is_told(requests: Requests, clock: Clock, told: Told) -> None:
    """U-39: the user hears of a late claim, and only of that."""
    ask(requests)
    requests.claim("planner")
    assert told.events == []
    ask(requests)
    clock.advance(91)
    claimed = requests.claim("planner")
    assert claimed is not None
    assert claimed[1] == 91_000
    ((session, type, payload),) = told.events
    assert (session, type) == ("s1", "assistant_message")
    assert "waited 91.0 s" in payload["text"]


def test_rules_that_a_person_has_set_stay_and_another_queue_is_named(bus: Bus) -> None:
    """U-30: `bus queue set` is a person's right; a queue of other types is none of ours."""
    open_queue(bus, "requests")
    change_policy(bus, "requests", ordering="fifo", max_attempts=9)
    assert open_queue(bus, "requests").info.policy.ordering == "fifo"
    Queue.create(bus, "jobs", "something.else")
    with pytest.raises(QueueMismatch, match=r"takes in something\.else, not task\.job"):
        open_queue(bus, "jobs")


def test_a_second_answer_is_logged(
    requests: Requests, bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    """Issue 32, 6: a planner answered by mail before it ended its claim."""
    id = ask(requests)
    claimed = requests.claim("planner")
    request = bus.get(id)
    assert claimed is not None
    assert request is not None
    bus.publish("task.done", 1, from_agent="planner", in_reply_to=id)
    with pytest.warns(AnsweredAgainWarning):
        requests.complete(id, {}, agent="planner")
    told = f"message {request.seq} has an answer of 'planner' already, {request.seq + 1}"
    assert caplog.messages == [f"request {id} was answered once more: {told}"]
