"""The log of jobs: each attempt that has ended is in it once, with what it printed."""

from pathlib import Path

from ackbus import Bus, Queue
from ackbus.automation.records.facts import JobLog
from ackbus.automation.status import status_of
from ackbus.schema.queries import engine_of

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK, Running, running

CONFIG = """
plugin_roots: [plugins]
service: {max_workers: 2}
plugins: {echo: {enabled: true, retry: {max_attempts: 2, backoff_base: 1ms}}}
"""


def retried(service: Running, job_id: str) -> None:
    Queue.open(service.bus, "plugin.echo").jobs.retry(service.job(job_id).seq)


def test_attempts_after_a_retry_by_hand_are_logged_too(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    """They begin with attempt 1 again, as attempts of the same job."""
    folder.write(config=CONFIG)
    folder.plugin("echo", run=OK.replace("cat >", f"[ -e {tmp_path}/good ] || exit 3\ncat >"))
    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        assert service.ended(job_id).state == "dead"
        (tmp_path / "good").touch()
        retried(service, job_id)
        assert service.ended(job_id).state == "succeeded"
        log = service.log(job_id)
        last = status_of(bus)["last_runs"][0]
    assert [(entry.status, entry.attempt) for entry in log] == [
        ("failed", 1),
        ("failed", 2),
        ("succeeded", 1),
    ]
    assert (last["job_id"], last["status"]) == (job_id, "succeeded")


def test_live_output_of_a_job_is_not_that_of_its_cancelled_attempt(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    """The program of a cancelled attempt may be at work while the next one runs."""
    folder.write(config=CONFIG)
    stubborn = f"""#!/bin/sh
trap '' TERM
echo $$ >> {tmp_path}/ran
echo run $(wc -l < {tmp_path}/ran) >&2
while [ ! -e {tmp_path}/go ]; do sleep 0.02; done
{OK.partition(chr(10))[2]}"""
    folder.plugin("echo", run=stubborn)
    log = JobLog(engine_of(bus))

    def printed(number: int) -> str:
        claims = service.claims(job_id)
        token = claims[number].token if len(claims) > number else 0
        return "".join(text for _, text in log.output(token))

    with running(bus, folder.path) as service:
        job_id = service.submit("echo")
        wait_until(lambda: printed(0) == "run 1\n")
        Queue.open(bus, "plugin.echo").jobs.cancel(service.job(job_id).seq)
        retried(service, job_id)
        wait_until(lambda: printed(1) == "run 2\n")
        (tmp_path / "go").touch()
        assert service.ended(job_id).state == "succeeded"
        wait_until(lambda: len(service.log(job_id)) == 2)
        assert {entry.stderr: entry.status for entry in service.log(job_id)} == {
            "run 1\n": "dead",
            "run 2\n": "succeeded",
        }
        assert printed(0) == printed(1) == ""


def test_live_output_that_nobody_can_end_goes_at_the_next_start(bus: Bus, folder: Folder) -> None:
    """Its job was cancelled while no service ran."""
    folder.write(config=CONFIG)
    folder.plugin("echo", run=OK)
    log = JobLog(engine_of(bus))
    log.add_output([(7, "stdout", "x")])
    with running(bus, folder.path):
        assert log.output(7) == []
