"""Alarms: the plugin of `on_failure` is told what went wrong, and nothing gets worse by it."""

from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.automation.active_config import examine_folder
from ackbus.automation.config.values import ConfigFaults, Fault
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.automation.records.breakers import Breakers
from ackbus.subscribers.queues.queue_set import QueueSet

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, Running, running

FAILING = "#!/bin/sh\nexit 1\n"

CONFIG = """
plugin_roots: [plugins]
service: {max_workers: 3, on_failure: hear}
plugins:
  bad: {enabled: true, retry: {max_attempts: 1}}
  hear: {enabled: true, retry: {max_attempts: 1}, parallelism: 1}
"""


@pytest.fixture
def configured(folder: Folder) -> Folder:
    folder.write(config=CONFIG)
    folder.plugin("bad", run=FAILING)
    folder.plugin("hear", run=OK)
    return folder


def heard(service: Running, plugin: str = "hear") -> list[str]:
    """The ids of the jobs in which a plugin hears of something."""
    return [message.id for message in service.bus.read(type=f"plugin.{plugin}.handle")]


def test_dead_job_is_told_to_the_plugin_that_is_named(bus: Bus, configured: Folder) -> None:
    with running(bus, configured.path) as service:
        job_id = service.submit("bad")
        assert service.ended(job_id).state == "dead"
        (told,) = heard(service)
        assert service.ended(told).state == "succeeded"
        message = bus.get(told)
    assert message is not None
    assert message.headers["event"]["type"] == "ductile.job.dead"  # type: ignore[index]
    assert message.payload["job_id"] == job_id  # type: ignore[index]


@pytest.mark.parametrize("target", ["broken", "asleep"])
def test_job_ends_although_nobody_is_there_to_be_told(
    bus: Bus, configured: Folder, target: str
) -> None:
    """A plugin that is left out, and one that is disabled: a dead job must give its worker free."""
    configured.plugin("broken", manifest="name: broken\n")
    config = CONFIG.replace("on_failure: hear", f"on_failure: {target}")
    configured.write(config=config + "  asleep: {enabled: false}\n  broken: {}\n")
    with running(bus, configured.path) as service:
        assert service.ended(service.submit("bad")).state == "dead"
        wait_until(lambda: service.service._dispatcher.running == [])
        assert not service.service._dispatcher.has_unwritten


def test_job_ends_although_the_queue_of_alarms_is_full(
    bus: Bus, configured: Folder, tmp_path: Path
) -> None:
    wait = f"echo begun >> {tmp_path}/ran\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.02; done\n"
    configured.plugin("hear", run=OK.replace("cat >", f"{wait}cat >"))
    with running(bus, configured.path) as service:
        held = [service.submit("hear") for _ in range(2)]
        wait_until((tmp_path / "ran").exists)
        Queue.open(bus, "plugin.hear").jobs.limit(1)
        assert service.ended(service.submit("bad")).state == "dead"
        assert heard(service) == []
        (tmp_path / "go").touch()
        for job_id in held:
            service.ended(job_id)


@pytest.mark.slow
def test_service_begins_although_nobody_hears_of_what_its_predecessor_left(
    bus: Bus, configured: Folder
) -> None:
    with running(bus, configured.path):
        pass
    (configured.path / "plugins/hear/run.sh").chmod(0o644)  # it is left out from now on
    done = Submission(bus).submit(JobRequest(plugin="bad", command="poll", submitted_by="cli"))
    QueueSet(bus, ["plugin.bad"]).claim("dead", group="automation", limit=1)
    with running(bus, configured.path) as service:
        assert service.ended(done.job_id).state == "dead"


@pytest.mark.slow
def test_service_begins_although_what_follows_from_a_lost_job_has_no_room(
    bus: Bus, configured: Folder
) -> None:
    """Neither its alarm nor its hook: their queue is full, and nobody empties it before."""
    with running(bus, configured.path):
        pass
    hook = "pipelines: [{name: hooked, on-hook: job.failed, steps: [{uses: hear}]}]\n"
    configured.write(config=CONFIG.replace("bad: {", "bad: {notify_on_complete: true, ") + hook)
    submission = Submission(bus)
    lost = submission.submit(JobRequest(plugin="bad", command="poll", submitted_by="scheduler"))
    QueueSet(bus, ["plugin.bad"]).claim("dead", group="automation", limit=1)
    waits = submission.submit(JobRequest(plugin="hear", command="poll", submitted_by="cli"))
    Queue.open(bus, "plugin.hear").jobs.limit(1)
    with running(bus, configured.path) as service:
        assert service.job(lost.job_id).state == "dead"
        assert service.ended(waits.job_id).state == "succeeded"
        assert heard(service) == []
        breakers = Breakers.of(bus)
        assert breakers.get("bad", "poll").failure_count == 1


def test_plugins_that_hear_of_each_other_come_to_an_end(bus: Bus, configured: Folder) -> None:
    """No alarm tells of a job that an alarm has begun."""
    each = "  {}: {{enabled: true, retry: {{max_attempts: 1}}, on_failure: {}}}\n"
    config = CONFIG.partition("plugins:")[0] + "plugins:\n"
    configured.write(config=config + each.format("bad", "hear") + each.format("hear", "bad"))
    configured.plugin("hear", run=FAILING)
    with running(bus, configured.path) as service:
        service.ended(service.submit("bad"))
        (told,) = heard(service)
        assert service.ended(told).state == "dead"
        assert heard(service, "bad") == []  # it would be stored with that end


def refused(folder: Folder) -> tuple[Fault, ...]:
    with pytest.raises(ConfigFaults) as error:
        examine_folder(folder.path, {})
    return error.value.faults


def test_service_that_names_a_plugin_which_is_not_there_is_a_fault(configured: Folder) -> None:
    configured.write(config=CONFIG.replace("on_failure: hear", "on_failure: hera"))
    (fault,) = refused(configured)
    assert (fault.path, fault.line) == ("service.on_failure", 2)
    assert fault.message == "there is no plugin 'hera'; did you mean 'hear'?"
    configured.write(config=CONFIG.replace("on_failure: hear", "on_failure: hear.pol"))
    (fault,) = refused(configured)
    assert fault.message == "the plugin 'hear' has no command 'pol'; did you mean 'poll'?"
