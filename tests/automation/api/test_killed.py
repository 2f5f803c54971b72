"""Triggers are stored before they are answered, and each runs once, whatever ends the service."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from ackbus import Bus
from ackbus.subscribers.jobs.jobs import Jobs

from ...conftest import wait_until
from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess
from .serving import API, api_of
from .test_listening import KEY, configured, free_address

pytestmark = pytest.mark.slow


def noting(path: Path) -> str:
    """The program of a plugin that notes the id of each job that it has done."""
    return OK + f'echo "$BUS_JOB_ID" >> {path}\n'


def test_what_was_answered_runs_once_after_a_kill(folder: Folder, tmp_path: Path) -> None:
    address, done = free_address(), tmp_path / "done"
    path = configured(folder, address)
    folder.plugin("echo", run=noting(done))
    answered = []
    with ServiceProcess(path, API_KEY=KEY).ready() as service:
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=f"http://{address}", headers=headers) as client:
            for _ in range(20):
                answer = client.post("/plugin/echo/poll")
                assert answer.status_code == 202
                answered.append(answer.json()["job_id"])
        service.kill()
        service.start_again().ready()
        with service.open() as bus:
            seqs = [message.seq for message in bus.read(type="plugin.echo.poll")]

            def are_over() -> bool:
                jobs = [Jobs.of(bus).of_message(seq) for seq in seqs]
                return all(job and job[0].ended_at_ms is not None for job in jobs)

            wait_until(are_over)
            assert [message.id for message in bus.read(type="plugin.echo.poll")] == answered
            states = {Jobs.of(bus).of_message(seq)[0].state for seq in seqs}
    assert states == {"succeeded"}
    # The one that ran when the service was killed may have noted itself, and runs again.
    noted = done.read_text().split()
    assert set(noted) == set(answered)
    assert len(noted) <= len(answered) + 1


def test_many_callers_at_once_have_a_job_each(bus: Bus, folder: Folder) -> None:
    folder.plugin("echo", run=OK)
    folder.write(
        api=API,
        config="""
        include: [api.yaml]
        plugin_roots: [plugins]
        plugins: {echo: {enabled: true}}
        """,
    )
    with api_of(bus, folder) as served, ThreadPoolExecutor(8) as pool:
        client = served.client()
        ids = list(pool.map(lambda _: trigger(client), range(64)))
        assert len(set(ids)) == 64
        assert served.client().get("/jobs?limit=1").json()["total"] == 64
    assert sorted(message.id for message in bus.read(type="plugin.echo.poll")) == sorted(ids)


def trigger(client: httpx.Client) -> str:
    answer = client.post("/plugin/echo/poll")
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["job_id"]
    return job_id
