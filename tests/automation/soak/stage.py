"""The stage of the soak: a real service, senders that ask it for jobs, and harm done to it."""

import os
import random
import re
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx

from ackbus import Bus, Draft
from ackbus.automation.service_lock import LOCK
from ackbus.schema.directory.layout import Layout
from ackbus.schema.errors import AckbusError, BusBusy
from ackbus.schema.queries import file_of

from ...conftest import wait_until
from ...fault.conftest import SmallDisk
from ..service_process import ServiceProcess
from ..webhooks.senders import GITHUB_SECRET, github
from .configuration import Configuration

ADMIN = "the-key-of-admin"
ENVIRON = {"GITHUB": GITHUB_SECRET, "ADMIN": ADMIN}

#: How long a service is stopped: longer than its longest sleep.
FROZEN_S = 0.7


class Senders:
    """Threads that ask for jobs, and repeat what was not answered.

    Attributes:
        answered: the ids of jobs that were told for each delivery.
        called: the ids of jobs that the API told.
        calls: how many calls of the API there were.
        published: the ids of messages that agents have stored.
    """

    def __init__(self, service: ServiceProcess) -> None:
        self.answered: dict[str, list[str]] = defaultdict(list)
        self.called: list[str] = []
        self.calls = 0
        self.published: list[str] = []
        self._service = service
        self._is_over = threading.Event()
        acts = (self._deliver, self._call, self._publish)
        self._threads = [threading.Thread(target=self._repeat, args=(act,)) for act in acts]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Waits until each delivery is answered."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(100)
            assert not thread.is_alive()

    def pause(self, seconds: float) -> None:
        """Waits for a while; less when the senders are to end."""
        self._is_over.wait(seconds)

    def _repeat(self, act: Callable[[int], None]) -> None:
        number = 0
        while not self._is_over.is_set():
            act(number)
            number += 1
            self.pause(0.1)

    def _post(self, door: str, path: str, **request: object) -> str | None:
        """The id of the job that an answer tells; None where there is no such answer."""
        url = urls(self._service).get(door)
        if url is None:
            return None
        try:
            answer = httpx.post(url + path, timeout=60, **request)  # type: ignore[arg-type]
        except httpx.TransportError:
            return None
        assert answer.status_code == 202 or answer.status_code >= 500, answer.text
        return str(answer.json()["job_id"]) if answer.status_code == 202 else None

    def _deliver(self, number: int) -> None:
        """Delivers until it is answered; each third is delivered once more, though it was."""
        delivery = f"d-{number}"
        path, headers, body = github(delivery)
        wanted = 2 if number % 3 == 0 else 1

        def is_answered() -> bool:
            job_id = self._post("webhooks", path, content=body, headers=headers)
            self.answered[delivery] += [job_id] if job_id is not None else []
            return len(self.answered[delivery]) >= wanted

        wait_until(is_answered)

    def _call(self, _: int) -> None:
        self.calls += 1
        headers = {"Authorization": f"Bearer {ADMIN}"}
        job_id = self._post("API", "/plugin/called/poll", headers=headers)
        if job_id is not None:
            self.called.append(job_id)

    def _publish(self, number: int) -> None:
        """Publishes mail between agents, and what looks like an event of a plugin."""
        with suppress(AckbusError), self._service.open() as bus:
            if number % 5 == 0:
                forged = {"event_type": "made"}
                draft = Draft("plugin.event", from_agent="source", headers=forged)
                (sent,) = bus.log.append([draft])  # nobody is warned that nothing comes of it
            else:
                bus.heartbeats.beat("bob")
                sent = bus.publish("note", number, from_agent="ann", to_agent="bob")
            self.published.append(sent.id)


def urls(service: ServiceProcess) -> dict[str, str]:
    """The addresses that a service has told, by door."""
    return dict(re.findall(r", (API|webhooks) at (http://[\w.:]+)", service.told.read_text()))


class Stage:
    """A service of its own, and what is done to it.

    Args:
        configuration: of the service.
        disk: of the bus.
        chance: decides what is done, and when.
    """

    def __init__(
        self, configuration: Configuration, disk: SmallDisk, chance: random.Random
    ) -> None:
        configuration.write()
        self.configuration, self.disk, self.chance = configuration, disk, chance
        self.service = ServiceProcess(configuration.folder.path, **ENVIRON).ready()
        self.senders = Senders(self.service)
        self.done: Counter[str] = Counter()
        self.acts: tuple[Callable[[], None], ...] = (
            *(self.kill, self.reload_bad, self.fill, self.replace, self.stop),
            *(self.freeze, self.reload, self.kill_when_full),
        )

    def harm(self, act: Callable[[], None]) -> None:
        """Does one thing to the service, and notes it."""
        act()
        self.done[act.__name__] += 1

    # Death --------------------------------------------------------------------------------------

    def kill(self) -> None:
        self.service.kill()
        self.revive()

    def stop(self) -> None:
        """Stops it by the command, as operators do; plugins may need a while."""
        stopped = self.service.run("automation", "stop")
        assert stopped.returncode == 0, stopped.stderr
        assert self.service.process.wait(60) == 0
        self.revive()

    def revive(self) -> None:
        """Starts the service until it is ready, as a service manager does."""
        wait_until(self._is_revived)

    def _is_revived(self) -> bool:
        process = self.service.start_again().process
        wait_until(lambda: "ready" in self._told() or process.poll() is not None)
        return process.poll() is None

    def _told(self) -> str:
        return self.service.told.read_text()

    # Two services -------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stops the process for a while; a second service is refused meanwhile."""
        process = self.service.process
        process.send_signal(signal.SIGSTOP)
        second = self.service.run("automation", "start")
        assert (second.returncode, second.stdout) == (1, ""), second
        self.senders.pause(FROZEN_S)
        process.send_signal(signal.SIGCONT)

    def replace(self) -> None:
        """Starts a second service while the first is stopped, and somebody has removed its locks.

        The first changes nothing when it goes on, and ends.
        """
        first = self.service.process
        wait_until(self._is_stopped_between_writes)
        layout = Layout(str(self.service.bus_dir))
        for path in (self.service.bus_dir.parent / LOCK, Path(layout.automation_lock)):
            path.unlink()
        self.revive()
        first.send_signal(signal.SIGCONT)
        assert first.wait(60) != 0

    def _is_stopped_between_writes(self) -> bool:
        """Stops the process; one that holds a lock of writers, ours or SQLite's, goes on."""
        process = self.service.process
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: _states_of(process.pid) == {"T"})
        with Bus.open(self.service.bus_dir, write_timeout_s=1) as bus:
            try:
                with bus.transaction():
                    return True
            except BusBusy:
                process.send_signal(signal.SIGCONT)
                return False

    # The configuration --------------------------------------------------------------------------

    def reload(self) -> None:
        self.configuration.write()
        self._reload("the configuration was taken")

    def reload_bad(self) -> None:
        self.configuration.spoil()
        self._reload("the configuration is refused")
        self.configuration.write()

    def _reload(self, said: str) -> None:
        begin = self.service.log.stat().st_size
        self.service.process.send_signal(signal.SIGHUP)

        def is_said() -> bool:
            with self.service.log.open("rb") as log:
                log.seek(begin)
                return said.encode() in log.read()

        wait_until(is_said)

    # The disk -----------------------------------------------------------------------------------

    def fill(self) -> None:
        self.disk.fill()
        self.senders.pause(self.chance.uniform(0.3, 1.5))
        self.disk.make_room()

    def kill_when_full(self) -> None:
        """Kills it on a full disk; the next one may not even begin before there is room."""
        self.disk.fill()
        self.service.kill()
        process = self.service.start_again().process
        wait_until(lambda: "ready" in self._told() or process.poll() is not None)
        self.disk.make_room()
        if process.poll() is not None:
            self.revive()

    # The end ------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Ends senders and schedules, lets all jobs end, and stops the service."""
        self.senders.end()
        self.configuration.write(has_schedules=False)
        self._reload("the configuration was taken")
        with self.service.open() as bus:
            wait_until(lambda: is_quiet(bus), 300)
        assert self.service.stop() == 0

    def close(self) -> None:
        """Ends what a failed run has left."""
        self.senders._is_over.set()
        self.disk.make_room()
        with suppress(ProcessLookupError):
            os.kill(self.service.process.pid, signal.SIGCONT)
        self.service.__exit__()


def is_quiet(bus: Bus) -> bool:
    """Whether no job waits or runs."""
    live = "SELECT count(*) FROM job_queue WHERE status IN ('queued', 'running')"
    return file_of(bus).rows(live)[0][0] == 0


def _states_of(pid: int) -> set[str]:
    """The states of the threads of a process: T where one is stopped, and takes no more locks."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return {each.read_text().rpartition(")")[2].split()[0] for each in threads}
