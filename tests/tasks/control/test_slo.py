"""Service levels from stored times, and the words that mean that time ran out."""

import pytest

from ackbus import Bus
from ackbus.tasks.control.jobs import JobQueue
from ackbus.tasks.control.requests import Requests
from ackbus.tasks.control.status import WorkerTable, is_timeout, summary, system_status

from ...subscribers.conftest import Clock
from .conftest import add, ask, taken

NONE = {"p50": None, "p95": None, "avg": None, "sampleSize": 0}


def test_u_73_without_an_end_there_is_no_rate(requests: Requests) -> None:
    """U-73: null, and not 0."""
    ask(requests)
    found = summary(requests.entries.queue)
    assert found == {
        "windowHours": 24,
        "terminal": 0,
        "completed": 0,
        "failed": 0,
        "successRate": None,
        "durationMs": NONE,
        "queueWaitMs": NONE,
    }


def test_u_73_a_known_set_of_jobs_gives_known_numbers(jobs: JobQueue, clock: Clock) -> None:
    """U-72, U-73: 20 jobs that waited 1 to 20 s and ran 10, 20, … 200 ms; two ran out of time."""
    for number in range(1, 21):
        id = add(jobs)
        clock.advance(number)
        assert taken(jobs, "w1") == id
        clock.advance(number / 100)
        if number <= 2:
            jobs.fail(id, "The runtime timed out after 120000ms", "deadline exceeded")
        elif number == 3:
            jobs.fail(id, "no")
        else:
            jobs.complete(id, {})
    found = summary(jobs.entries.queue, of_jobs=True)
    assert found == {
        "windowHours": 24,
        "terminal": 20,
        "completed": 17,
        "failed": 3,
        "timeoutFailures": 2,
        "successRate": 0.85,
        "timeoutRate": 0.1,
        "durationMs": {"p50": 100, "p95": 190, "avg": 105, "sampleSize": 20},
        "queueWaitMs": {"p50": 10_000, "p95": 19_000, "avg": 10_500, "sampleSize": 20},
    }


def test_u_73_rates_have_four_digits(jobs: JobQueue) -> None:
    """U-73: two of three."""
    for number in range(3):
        id = add(jobs)
        taken(jobs, "w1")
        jobs.complete(id, {}) if number else jobs.fail(id)
    assert summary(jobs.entries.queue)["successRate"] == 0.6667


def test_u_72_what_is_older_than_the_window_does_not_count(jobs: JobQueue, clock: Clock) -> None:
    """U-72: the times that are stored decide; a window has 1 to 720 hours."""
    for hours in (100, 30, 2):
        id = add(jobs)
        taken(jobs, "w1")
        jobs.complete(id, {})
        clock.advance(hours * 3_600)
    queue = jobs.entries.queue
    found = {hours: summary(queue, hours) for hours in (-5, 1, 24, 32, 132, 9_999)}
    assert {hours: each["terminal"] for hours, each in found.items()} == {
        -5: 0,
        1: 0,
        24: 1,
        32: 2,
        132: 3,
        9_999: 3,
    }
    assert (found[-5]["windowHours"], found[9_999]["windowHours"]) == (1, 720)


@pytest.mark.parametrize(
    "text",
    [
        *["Timeout after 5s", "it timed out", "context deadline exceeded"],
        *["a stale worker claim", "worker heartbeat stale", "killed by the WATCHDOG"],
    ],
)
def test_u_74_words_that_mean_a_timeout(text: str) -> None:
    """U-74: six of them."""
    assert is_timeout(text)


@pytest.mark.parametrize("text", [None, "", "timeout_policy.ts failed", "timeouts", "deadlines"])
def test_u_74_words_that_do_not(text: str | None) -> None:
    """U-74: the name of a file is none."""
    assert not is_timeout(text)


def test_u_75_every_number_of_the_status_is_that_of_a_seeded_bus(
    bus: Bus, requests: Requests, jobs: JobQueue, workers: WorkerTable, clock: Clock
) -> None:
    """U-75: workers, counts, priorities, what is next in line, and service levels."""
    for word in ("interactive", "normal", "normal"):
        ask(requests, word)
    requests.claim("planner")
    for word in ("background", "normal", "interactive"):
        add(jobs, word)
    busy = taken(jobs, "w1")
    assert busy
    workers.heartbeat({"workerId": "w2"})
    workers.heartbeat({"workerId": "w3", "status": "offline"})
    bad = taken(jobs, "w2")
    assert bad
    jobs.fail(bad, "timeout")
    found = system_status(bus)
    assert found["workers"] == {"total": 3, "online": 2, "busy": 1, "idle": 1}
    queues = found["queues"]
    assert queues["requests"] == {"pending": 2, "claimed": 1, "completed": 0, "failed": 0}
    assert queues["requestPriorities"] == {"interactive": 1, "normal": 2, "background": 0}
    assert [each["etaMs"] for each in queues["requestPendingSnapshot"]] == [0, 90_000]
    assert queues["jobs"] == {"pending": 1, "claimed": 1, "completed": 0, "failed": 1}
    assert queues["jobPriorities"] == {"interactive": 1, "normal": 0, "background": 1}
    assert [each["priority"] for each in queues["jobPendingSnapshot"]] == ["background"]
    assert queues["completions"] == {"pending": 0, "claimed": 0, "processed": 0, "failed": 0}
    assert found["slo"]["requests"]["terminal"] == 0
    levels = found["slo"]["jobs"]
    assert (levels["terminal"], levels["timeoutFailures"], levels["timeoutRate"]) == (1, 1, 1.0)
    jobs.complete(busy, {})
    clock.advance(20)
    assert system_status(bus)["workers"] == {"total": 3, "online": 0, "busy": 0, "idle": 0}
    assert system_status(bus, 30_000)["workers"]["online"] == 2
