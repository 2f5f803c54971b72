"""State and facts of plugins, kept as their jobs end."""

import json

import pytest

from ackbus import Bus
from ackbus.automation.records.facts import MAX_STATE_BYTES, Facts
from ackbus.schema.queries import engine_of, file_of

from ..conftest import Folder
from ..running import response, running

CONFIG = """
    plugin_roots: [plugins]
    plugins:
      echo: {enabled: true, retry: {max_attempts: 1}}
"""

RULE = """fact_outputs:
  - when: {command: poll}
    from: state_updates
    fact_type: echo.snapshot
"""


def plugin(folder: Folder, program: str, *, rule: bool) -> None:
    path = folder.write(config=CONFIG).plugin("echo", run=program)
    if rule:
        manifest = path / "manifest.yaml"
        text = manifest.read_text().replace("handle:", "health: {type: read}\n  handle:")
        manifest.write_text(text + RULE)


def counting() -> str:
    """The program of a plugin whose snapshot counts what it was told, and one key by command."""
    return """#!/bin/sh
request=$(cat)
n=$(printf %s "$request" | sed -n 's/.*"n":\\([0-9]*\\).*/\\1/p')
command=$(printf %s "$request" | sed 's/.*"command":"\\([a-z]*\\)".*/\\1/')
n=$(( ${n:-0} + 1 ))
updates="{\\"n\\":$n,\\"$command\\":{\\"at\\":$n}}"
echo "{\\"status\\":\\"ok\\",\\"result\\":\\"\\",\\"state_updates\\":$updates}"
"""


@pytest.mark.requirement("D-82", "D-83", "D-84", "D-147", "X-25")
def test_d_83_a_rule_makes_facts_of_updates_and_the_newest_is_the_state(
    bus: Bus, folder: Folder
) -> None:
    plugin(folder, counting(), rule=True)
    with running(bus, folder.path) as service:
        ids = [service.submit("echo") for _ in range(2)]
        for job_id in ids:
            service.ended(job_id)
        service.ended(service.submit("echo", "health"))
    facts = Facts(engine_of(bus))
    newest, first = facts.newest("echo", 10)
    assert (newest.seq > first.seq, newest.fact_type) == (True, "echo.snapshot")
    assert [(each.job_id, each.command) for each in (first, newest)] == [
        (job_id, "poll") for job_id in ids
    ]
    assert json.loads(newest.fact_json) == {"n": 2, "poll": {"at": 2}}
    assert facts.state("echo") == json.loads(newest.fact_json)  # the whole snapshot, and no more


@pytest.mark.requirement("Q-21")
def test_q_21_a_view_that_merges_leaves_the_keys_of_other_commands(
    bus: Bus, folder: Folder
) -> None:
    """A second kind of view: facts are the snapshots as they came, the state has all their keys."""
    plugin(folder, counting(), rule=True)
    manifest = folder.path / "plugins" / "echo" / "manifest.yaml"
    rules = RULE.replace("fact_type:", "compatibility_view: merge_object\n    fact_type:")
    other = rules.partition("\n")[2].replace("poll", "health")
    manifest.write_text(manifest.read_text().replace(RULE, rules + other))
    with running(bus, folder.path) as service:
        for command in ("poll", "health"):
            service.ended(service.submit("echo", command))
    facts = Facts(engine_of(bus))
    assert [json.loads(fact.fact_json) for fact in facts.newest("echo", 2)] == [
        {"n": 2, "health": {"at": 2}},
        {"n": 1, "poll": {"at": 1}},
    ]
    assert facts.state("echo") == {"n": 2, "poll": {"at": 1}, "health": {"at": 2}}


@pytest.mark.requirement("D-85", "R-11")
def test_d_85_without_a_rule_keys_are_set_and_there_is_no_fact(bus: Bus, folder: Folder) -> None:
    plugin(folder, counting(), rule=False)
    with running(bus, folder.path) as service:
        for command in ("poll", "handle", "poll"):
            service.ended(service.submit("echo", command))
    facts = Facts(engine_of(bus))
    assert facts.newest("echo", 10) == []
    assert facts.state("echo") == {"n": 3, "poll": {"at": 3}, "handle": {"at": 2}}


@pytest.mark.parametrize("rule", [True, False])
def test_d_86_state_of_over_a_megabyte_fails_the_job_and_changes_nothing(
    bus: Bus, folder: Folder, rule: bool
) -> None:
    state = {"x": "y" * (MAX_STATE_BYTES - len('{"x":""}') + 1)}
    plugin(folder, response(state_updates=state, events=[{"type": "e"}]), rule=rule)
    with running(bus, folder.path) as service:
        job = service.ended(service.submit("echo"))
    assert job.state == "dead"
    assert f"would be {MAX_STATE_BYTES + 1} bytes of JSON" in str(job.error)
    assert Facts(engine_of(bus)).state("echo") == {}
    assert list(bus.read(type="plugin.event")) == []


def test_d_87_tokens_that_a_plugin_refreshes_come_back_to_it_and_are_in_no_message(
    bus: Bus, folder: Folder
) -> None:
    program = """#!/bin/sh
token=$(cat | sed -n 's/.*"access_token":"\\([a-z-]*\\)".*/\\1/p')
updates='{"access_token":"secret-token"}'
echo "{\\"status\\":\\"ok\\",\\"result\\":\\"had ${#token}\\",\\"state_updates\\":$updates}"
"""
    plugin(folder, program, rule=False)
    with running(bus, folder.path) as service:
        for _ in range(2):
            job_id = service.submit("echo")
            service.ended(job_id)
        (claim,) = service.claims(job_id)
    assert claim.result == f"had {len('secret-token')}"
    assert "secret-token" not in "".join(message.to_json().decode() for message in bus.read())


def test_facts_are_only_appended_and_the_newest_stays(bus: Bus) -> None:
    facts = Facts(engine_of(bus))
    for number in range(3):
        facts.record("echo", "echo.snapshot", {"n": number}, "j", "poll")
    facts.record("other", "other.snapshot", {}, "j", "poll")
    assert facts.prune("9999-12-31T23:59:59.999Z", 100) == 2
    assert [fact.fact_json for fact in facts.newest("echo", 9)] == ['{"n":2}']
    assert len(facts.newest("other", 9)) == 1
    assert file_of(bus).value("SELECT count(*) FROM plugin_facts") == 2
