"""Amendments of protocol 2: each has its own switch, which is off unless it is set."""

import pytest

from ackbus import Bus
from ackbus.automation.records.facts import Facts, LogEntry
from ackbus.schema.queries import engine_of
from ackbus.subscribers.jobs.jobs import Job

from ..conftest import Folder
from ..running import response, running

SWITCHES = ["protocol_echo", "exit_75_retries", "state_replace", "submitted_by_retry"]

#: Each switch alone; and none.
EACH = [None, *SWITCHES]


def configured(folder: Folder, switch: str | None, program: str) -> None:
    amendments = f"{{{switch}: true}}" if switch else "{}"
    folder.write(
        config=f"""
        plugin_roots: [plugins]
        service: {{amendments: {amendments}}}
        plugins:
          echo: {{enabled: true, retry: {{max_attempts: 2, backoff_base: 1ms}}}}
        """
    ).plugin("echo", run=program)


def ended(bus: Bus, folder: Folder, switch: str | None, program: str) -> tuple[Job, list[LogEntry]]:
    configured(folder, switch, program)
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        return service.ended(job_id), service.log(job_id)


@pytest.mark.requirement("R-29")
@pytest.mark.parametrize("switch", EACH)
def test_r_29_a_response_must_repeat_the_protocol_where_it_is_switched_on(
    bus: Bus, folder: Folder, switch: str | None
) -> None:
    job, _ = ended(bus, folder, switch, response())
    if switch == "protocol_echo":
        assert (job.state, job.attempt) == ("dead", 1)
        assert "protocol error: the response does not repeat protocol: 2" in str(job.error)
    else:
        assert job.state == "succeeded"


@pytest.mark.parametrize("switch", [None, "protocol_echo"])
def test_r_29_a_response_may_repeat_the_protocol(
    bus: Bus, folder: Folder, switch: str | None
) -> None:
    assert ended(bus, folder, switch, response(protocol=2))[0].state == "succeeded"


@pytest.mark.parametrize("switch", EACH)
def test_r_29_exit_75_outweighs_what_the_response_says_where_it_is_switched_on(
    bus: Bus, folder: Folder, switch: str | None
) -> None:
    said = '{"status": "error", "error": "busy", "retry": false, "protocol": 2}'
    program = f"#!/bin/sh\ncat > /dev/null\necho '{said}'\nexit 75\n"
    job, _ = ended(bus, folder, switch, program)
    assert (job.state, job.error) == ("dead", "busy")
    assert job.attempt == (2 if switch == "exit_75_retries" else 1)


@pytest.mark.parametrize("switch", EACH)
def test_r_29_updates_are_the_whole_state_where_it_is_switched_on_and_said(
    bus: Bus, folder: Folder, switch: str | None
) -> None:
    facts = Facts(engine_of(bus))
    facts.merge("echo", {"old": 1, "both": 1})
    updates = {"both": 2, "new": 2}
    program = response(state_updates=updates, state_replace=True, protocol=2)
    assert ended(bus, folder, switch, program)[0].state == "succeeded"
    kept = {} if switch == "state_replace" else {"old": 1}
    assert facts.state("echo") == kept | updates


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ({"state_replace": False, "state_updates": {"b": 1}}, {"a": 1, "b": 1}),
        ({"state_updates": {"b": 1}}, {"a": 1, "b": 1}),
        ({"state_replace": True, "state_updates": {}}, {}),
        ({"state_replace": True}, {}),
        ({"state_replace": "yes", "state_updates": {"b": 1}}, {"a": 1}),
    ],
)
def test_r_29_a_state_is_replaced_only_by_one_that_says_so(
    bus: Bus, folder: Folder, said: dict[str, object], state: dict[str, int]
) -> None:
    facts = Facts(engine_of(bus))
    facts.merge("echo", {"a": 1})
    job, _ = ended(bus, folder, "state_replace", response(**said))
    assert facts.state("echo") == state
    assert (job.state == "dead") == (said.get("state_replace") == "yes")


@pytest.mark.parametrize("switch", EACH)
def test_r_29_attempts_after_the_first_are_submitted_by_retry_where_it_is_switched_on(
    bus: Bus, folder: Folder, switch: str | None
) -> None:
    _, log = ended(bus, folder, switch, response(status="error", error="no", protocol=2))
    first, second = sorted((entry.attempt, entry.submitted_by) for entry in log)
    assert first == (1, "cli")
    assert second == (2, "retry" if switch == "submitted_by_retry" else "cli")
