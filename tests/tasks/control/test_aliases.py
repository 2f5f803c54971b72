"""The words of other systems: one table, which the views of the file agree with."""

import pytest

from ackbus import Bus
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.jobs import STATES as STATES_OF_JOBS
from ackbus.tasks.control.entries import STATES, priority_of, states_of, status_of, worker_status
from ackbus.tasks.steps.messages import QUEUES

from .conftest import Requests

VIEWS = {name: f"pushpals_{name}" for name in QUEUES}


@pytest.mark.parametrize("view", STATES)
def test_x_15_every_state_has_a_word_in_every_view(view: str) -> None:
    """X-15: and each word leads back to states."""
    assert set(STATES[view]) == set(STATES_OF_JOBS)
    for state in STATES_OF_JOBS:
        assert state in states_of(view, status_of(view, state))
    assert states_of(view, "foo") == ()


def test_x_15_words_of_the_documents() -> None:
    """X-15, U-33, U-53, U-56: completed, processed and success are one state."""
    words = [STATES[view]["succeeded"] for view in STATES]
    assert words == ["completed", "completed", "processed", "success", "succeeded"]
    assert STATES["merge queue"]["cancelled"] == "skipped"
    assert {status_of("jobs", state) for state in ("failed", "timed_out", "dead")} == {"failed"}


@pytest.mark.parametrize("name", VIEWS)
def test_x_15_the_views_say_the_same(bus: Bus, requests: Requests, name: str) -> None:
    """X-15: each state is put into the table, and read by the view."""
    from ackbus.tasks.control.entries import Entries

    entries = Entries(bus, name)
    entry, _ = entries.add({"sessionId": "s1"})
    engine = engine_of(bus)
    for state in sorted(STATES_OF_JOBS, key="succeeded".__eq__):
        ended = None if state in ("queued", "running") else 1
        engine.change(
            "UPDATE jobs SET state = ?, ended_at_ms = ? WHERE seq = ?",
            (state, ended, entry.message.seq),
        )
        found = engine.value(f"SELECT status FROM {VIEWS[name]}")
        assert found == STATES[name][state], state


def test_x_15_words_for_workers_and_priorities() -> None:
    """X-11, U-31: busy is working; what is unknown is idle, or normal."""
    assert [worker_status(word) for word in ("working", "blocked", "idle", "error", "stopped")] == [
        *("busy", "busy", "idle", "error", "offline")
    ]
    assert worker_status("dancing") == worker_status(None) == "idle"
    assert [priority_of(word) for word in ("interactive", "normal", "background", "x", None)] == [
        *(0, 1, 2, 1, 1)
    ]
