"""A service that is killed while it takes webhooks: each delivery is one job all the same."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import apsw
import httpx
import pytest

from ackbus import Bus
from ackbus.automation.active_config import ConfigSnapshot, examine_folder
from ackbus.automation.jobs.submission import follow
from ackbus.automation.webhooks import Signed, WebhookDeliveries
from ackbus.schema.queries import file_of

from ...conftest import wait_until
from ...sizes import size
from ..conftest import Folder
from ..running import OK
from ..service_process import ServiceProcess
from .receiving import receiving
from .senders import ENVIRON, Request, config, github, standard

pytestmark = pytest.mark.slow

#: A service that is killed when it has committed, as the first byte of the answer is to be sent.
DYING = """
import os, signal, sys
from pathlib import Path
from starlette.applications import Starlette
from starlette.routing import Mount
from ackbus import Bus
from ackbus.automation.service import Service
from ackbus.automation.active_config import examine_folder
from ackbus.server.running import Listeners, ServedApp
from ackbus.server.webhooks import BODY_S, Receiver

class Dying(Receiver):
    async def __call__(self, scope, receive, send):
        async def sent(message):
            if message.get("status") == 202:
                os.kill(os.getpid(), signal.SIGKILL)
            await send(message)
        await super().__call__(scope, receive, sent)

with Bus.open(sys.argv[1]) as bus:
    service = Service(bus, lambda: examine_folder(Path(sys.argv[2]), os.environ))
    app = Starlette(routes=[Mount("", app=Dying(bus, lambda: service.snapshot, BODY_S))])
    with Listeners([ServedApp("webhooks", "127.0.0.1:0", app)]) as listeners:
        def ready():
            listeners.start()
            print(listeners.urls["webhooks"], flush=True)
        service.run(ready)
"""


@pytest.mark.slow
def test_a_kill_between_commit_and_answer_leaves_one_job(
    bus: Bus, folder: Folder, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    folder.write(config=config())
    folder.plugin("echo", run=OK.replace("cat >", f"echo $BUS_JOB_ID >> {ran}\ncat >"))
    folder.lock()
    victim = [sys.executable, "-c", DYING, bus.layout.directory, str(folder.path)]
    with subprocess.Popen(victim, stdout=subprocess.PIPE, env=ENVIRON, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        path, headers, body = github("d-1")
        with pytest.raises(httpx.TransportError):
            httpx.post(url + path, headers=headers, content=body, timeout=60)
        assert process.wait(60) == -9
    (stored,) = bus.read(type="plugin.echo.handle")
    with receiving(bus, folder.path) as receiver:
        assert receiver.take(github("d-1")) == stored.id
        assert receiver.served.ended(stored.id).state == "succeeded"
        assert receiver.take(github("d-1")) == stored.id
        assert receiver.jobs() == [stored.id]
    assert set(ran.read_text().split()) == {stored.id}


MORE = """
        - path: /event
          event_type: code.push
          secret_ref: github
          signature_header: X-Hub-Signature-256
          delivery_id: header:X-GitHub-Delivery
    pipelines:
      - {name: left, on: code.push, steps: [{id: one, uses: echo, baggage: {ref: payload.ref}}]}
      - {name: right, on: code.push, steps: [{id: one, uses: echo}]}
"""


def deliver(bus: Bus, snapshot: ConfigSnapshot, delivery: str) -> str | None:
    """Takes a delivery of a body that is so long that it is a blob, without its signature."""
    assert snapshot.config.webhooks is not None
    endpoint = snapshot.config.webhooks.endpoints[-1]
    body = json.dumps({"ref": "main", "text": delivery * 3000}).encode()
    deliveries = WebhookDeliveries(bus, snapshot.config, snapshot.plugins)
    return deliveries.take(endpoint, {"x-github-delivery": delivery}, body, Signed("")).job_id


def is_killed(bus_dir: Path, snapshot: ConfigSnapshot, delivery: str, at: int) -> bool:
    """Whether a child that takes a delivery is killed before statement `at`."""

    def take_and_die() -> None:
        seen = 0

        def count(_: apsw.Cursor, __: str, ___: object) -> bool:
            nonlocal seen
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        with Bus.open(bus_dir) as bus:
            file_of(bus).connection.exec_trace = count
            deliver(bus, snapshot, delivery)

    child = os.fork()
    if child == 0:
        try:
            take_and_die()
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def test_a_delivery_is_stored_whole_or_not_wherever_the_service_is_killed(
    bus_dir: Path, bus: Bus, folder: Folder
) -> None:
    folder.write(config=config(MORE))
    folder.plugin("echo")
    folder.lock()
    snapshot = examine_folder(folder.path, ENVIRON)
    follow(bus, snapshot.plugins["echo"], snapshot.config.service)
    bus.close()
    at, died, count = 1, True, 0
    while died:
        died = is_killed(bus_dir, snapshot, f"d-{at}", at)
        with Bus.open(bus_dir) as opened:
            events = len(list(opened.read(type="plugin.event")))
            jobs = [message.id for message in opened.read(type="plugin.echo.handle")]
            assert events in ((count, count + 1) if died else (count + 1,)), at
            assert len(jobs) == 2 * events, at
            first = deliver(opened, snapshot, f"d-{at}")
            assert deliver(opened, snapshot, f"d-{at}") == first
            found = [message.id for message in opened.read(type="plugin.echo.handle")]
            assert first == found[2 * count]
            assert found[: len(jobs)] == jobs
            count += 1
            assert len(set(found)) == len(found) == 2 * count
        at += 1
    assert at > 30  # the statements of one delivery, with its event and two jobs


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def repeated(url: str, request: Request) -> str:
    """Sends a delivery until it is taken, as its sender would, and returns the id of the job."""
    path, headers, body = request
    found: list[str] = []

    def is_taken() -> bool:
        try:
            answer = httpx.post(url + path, content=body, headers=headers, timeout=60)
        except httpx.TransportError:
            return False
        assert answer.status_code == 202, answer.text
        found.append(answer.json()["job_id"])
        return True

    wait_until(is_taken)
    return found[0]


def kill_again_and_again(service: ServiceProcess, kills: int, is_over: threading.Event) -> None:
    """Kills the service when some more messages are stored, mostly in the middle of a request."""
    chance = random.Random(11)
    with service.open() as bus:
        for _ in range(kills):
            wanted = bus.log.newest_seq() + chance.randrange(1, 6)
            wait_until(lambda n=wanted: bus.log.newest_seq() >= n or is_over.is_set())  # type: ignore[misc]
            service.kill()
            service.start_again().ready()


@pytest.mark.slow
@pytest.mark.requirement("D-01")
def test_each_delivery_is_one_job_through_random_kills(folder: Folder, tmp_path: Path) -> None:
    count, kills = size(sample=8, whole=300), size(sample=2, whole=60)
    ran, port = tmp_path / "ran", free_port()
    folder.write(config=config().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
    folder.plugin("echo", run=OK.replace("cat >", f"echo $BUS_JOB_ID >> {ran}\ncat >"))
    folder.lock()
    url, is_over = f"http://127.0.0.1:{port}", threading.Event()
    with ServiceProcess(folder.path, **ENVIRON).ready() as service, service.open() as bus:
        killer = threading.Thread(target=kill_again_and_again, args=(service, kills, is_over))
        killer.start()
        requests = [github(f"d-{number}") for number in range(count)]
        requests += [standard(f"msg_{number}", at=time.time()) for number in range(count)]
        found = [repeated(url, request) for request in requests]
        is_over.set()
        killer.join(100)
        assert [repeated(url, request) for request in requests] == found
        jobs = [message.id for message in bus.read(type="plugin.echo.handle")]
        assert jobs == found
        assert len(set(jobs)) == 2 * count
        wait_until(lambda: ran.exists() and set(ran.read_text().split()) == set(jobs))
        assert service.stop() == 0
    told = service.log.read_text() + service.told.read_text()
    for secret in ENVIRON.values():
        assert secret not in told
