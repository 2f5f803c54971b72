"""A service that is short of descriptors, or that others try to make so."""

import logging
import os
import resource
import socket
from contextlib import ExitStack

import httpx
import pytest

from ackbus import Bus
from ackbus.automation.jobs.submission import JobRequest, Submission
from ackbus.subscribers.jobs.jobs import Jobs

from ..conftest import wait_until
from .api.test_listening import free_address
from .conftest import Folder
from .running import OK, running
from .service_process import BUS, ServiceProcess

CONFIG = """
    plugin_roots: [plugins]
    plugins: {{echo: {{enabled: true}}}}
    webhooks:
      listen: {address}
      endpoints:
        - {{path: /hook, plugin: echo, secret_ref: hook, signature_header: X-Signature}}
    tokens: [{{name: hook, key: "${{HOOK}}"}}]
"""


class Limited(ServiceProcess):
    """A service that may open 1,024 files, and no more."""

    program = ("sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", *BUS)


def succeeds(service: ServiceProcess) -> bool:
    """Whether a job that is submitted now succeeds."""
    with service.open() as bus:
        done = Submission(bus).submit(JobRequest(plugin="echo", command="poll", submitted_by="cli"))
        message = bus.get(done.job_id)
        assert message is not None
        jobs = Jobs.of(bus)
        wait_until(lambda: jobs.of_message(message.seq)[0].ended_at_ms is not None)
        return jobs.of_message(message.seq)[0].state == "succeeded"


@pytest.mark.slow
def test_idle_connections_leave_descriptors_for_jobs(folder: Folder) -> None:
    """Those beyond a third of the descriptors are dropped, and the log says nothing of them."""
    address = free_address()
    folder.plugin("echo", run=OK)
    folder.write(config=CONFIG.format(address=address))
    host, port = address.split(":")
    with Limited(folder.path, HOOK="a secret").ready() as service, ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
        assert succeeds(service)
        stack.close()
        wait_until(lambda: is_answered(address))
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text() + service.told.read_text()


def is_answered(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/healthz").status_code == 200
    except httpx.TransportError:
        return False


class Modest(ServiceProcess):
    """A service that begins with 256 open files, and may have 2,000."""

    program = ("sh", "-c", 'ulimit -Sn 256 && ulimit -Hn 2000 && exec "$@"', "sh", *BUS)


@pytest.mark.slow
def test_service_has_all_descriptors_that_it_may_have(folder: Folder) -> None:
    folder.plugin("echo", run=OK)
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    with Modest(folder.path).ready() as service:
        limit = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
        assert limit == (2000, 2000)


def test_job_that_finds_no_descriptor_begins_later(
    bus: Bus, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.plugin("echo", run=OK)
    folder.write(config="plugin_roots: [plugins]\nplugins: {echo: {enabled: true}}\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with running(bus, folder.path) as service, caplog.at_level(logging.WARNING):
        service.ended(service.submit("echo"))  # all connections and the supervisor are there
        fillers = [os.dup(0) for _ in range(30)]  # no free number is below the highest one
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 1, hard))
            job_id = service.submit("echo")
            wait_until(lambda: "poll can't begin yet: [Errno 24]" in caplog.text)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in fillers:
                os.close(each)
        assert service.ended(job_id).state == "succeeded"
