"""A configuration that is taken again: whole or not at all, and told to all that go by it."""

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackbus import Bus, Queue
from ackbus.automation.active_config import ConfigLoader, ConfigSnapshot, examine_folder
from ackbus.automation.service import Service
from ackbus.automation.service_lock import Notifier
from ackbus.schema.errors import Refused
from ackbus.schema.queries import file_of

from ..conftest import wait_until
from .conftest import Folder
from .running import OK, Running, serving
from .service_process import ServiceProcess

CONFIG = """
    plugin_roots: [plugins]
    service: {max_workers: 2}
    plugins:
      echo:
        enabled: true
        retry: {max_attempts: 4}
        schedules: [{every: 1h}]
"""

OTHER = CONFIG.replace("max_attempts: 4", "max_attempts: 2").replace("every: 1h", "every: 2h")
THIRD = "      third: {enabled: true}\n"


class Told:
    """The messages to a service manager, in order."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(30)
        self.notifier = Notifier({"NOTIFY_SOCKET": str(path)})

    def next(self) -> str:
        return self._socket.recv(4096).decode().partition("\n")[0]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    told = Told(tmp_path / "notify")
    yield told
    told.close()


@pytest.fixture
def configured(folder: Folder) -> Folder:
    folder.write(config=CONFIG)
    for name in ("echo", "third"):
        folder.plugin(name, run=OK)
    return folder


@contextmanager
def served(bus: Bus, folder: Folder, told: Told) -> Iterator[Running]:
    """Runs a service that waits for other writers only for a moment."""
    with Bus.open(bus.layout.directory, write_timeout_s=0.1) as own:
        load = lambda: examine_folder(folder.path, {})  # noqa: E731
        with serving(bus, Service(own, load, notifier=told.notifier)) as run:
            assert told.next() == "READY=1"
            yield run


def stored(bus: Bus) -> tuple[object, ...]:
    """The parts of a configuration that are in the tables."""
    file = file_of(bus)
    return (
        file.rows("SELECT name, max_attempts FROM queues ORDER BY name"),
        file.rows("SELECT plugin, schedule_id, config_hash FROM schedules"),
        file.rows("SELECT config_hash FROM automation_service"),
    )


@pytest.mark.requirement("D-134", "R-14")
def test_reload_that_fails_half_way_changes_nothing(
    bus: Bus, configured: Folder, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue of the last plugin is another one; those before it have other rules by then."""
    Queue.create(bus, "plugin.third", "something.else")
    with served(bus, configured, told) as run:
        before = stored(bus)
        configured.write(config=OTHER + THIRD)
        run.service.reload()
        assert [told.next(), told.next()] == ["RELOADING=1", "READY=1"]
        assert "the configuration is refused: queue 'plugin.third'" in caplog.text
        assert stored(bus) == before
        assert run.ended(run.submit("echo")).max_attempts == 4

        configured.write(config=OTHER)
        run.service.reload()
        assert [told.next(), told.next()] == ["RELOADING=1", "READY=1"]
        assert run.ended(run.submit("echo")).max_attempts == 2
        assert stored(bus)[1:] != before[1:]


def test_reading_that_fails_in_an_unforeseen_way_changes_nothing(
    bus: Bus, configured: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = []

    def read() -> ConfigSnapshot:
        if failures:
            raise failures.pop()
        return examine_folder(configured.path, {})

    loader = ConfigLoader(read)
    with Bus.open(bus.layout.directory) as own:
        service = Service(own, loader, on_reloaded=loader.end)
        with serving(bus, service) as run:
            failures.append(ValueError("nobody foresaw this"))
            with pytest.raises(Refused, match="nobody foresaw this"):
                loader.reload(service)
            assert "Traceback" in caplog.text
            assert run.ended(run.submit("echo")).state == "succeeded"
            loader.reload(service)


@pytest.mark.requirement("D-134")
def test_reload_that_can_not_be_stored_yet_is_repeated(
    bus: Bus, configured: Folder, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    with served(bus, configured, told) as run:
        configured.write(config=OTHER + THIRD)
        with bus.transaction():
            run.service.reload()
            assert [told.next(), told.next()] == ["RELOADING=1", "READY=1"]
            assert "the configuration can't be taken yet" in caplog.text
        wait_until(lambda: "the configuration was taken" in caplog.text)
        assert run.ended(run.submit("echo")).max_attempts == 2
        assert run.ended(run.submit("third")).state == "succeeded"


def test_folder_that_is_gone_at_a_reload_changes_nothing(
    bus: Bus, configured: Folder, told: Told, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with served(bus, configured, told) as run:
        configured.path.rename(tmp_path / "elsewhere")
        run.service.reload()
        assert [told.next(), told.next()] == ["RELOADING=1", "READY=1"]
        assert "the configuration is refused: " in caplog.text
        (tmp_path / "elsewhere").rename(configured.path)
        assert run.ended(run.submit("echo")).state == "succeeded"


def test_plugin_whose_queue_is_full_is_set_up_later(
    bus: Bus, configured: Folder, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """Its job `init` has no room: that refuses no configuration."""
    with served(bus, configured, told) as run:
        assert run.ended(run.submit("echo")).state == "succeeded"
        Queue.open(bus, "plugin.echo").jobs.limit(1)
        file_of(bus).rows("UPDATE queues SET paused_at_ms = 1 WHERE name = 'plugin.echo'")
        waits = run.submit("echo")
        manifest = configured.path / "plugins/echo/manifest.yaml"
        manifest.write_text(manifest.read_text().replace("poll:", "init: {type: read}\n  poll:"))
        configured.write(config=OTHER)
        run.service.reload()
        wait_until(lambda: "the configuration was taken" in caplog.text)
        assert "init can't be submitted" in caplog.text
        file_of(bus).rows("UPDATE queues SET paused_at_ms = NULL WHERE name = 'plugin.echo'")
        assert run.ended(waits).state == "succeeded"


def test_configuration_is_read_once_to_begin_with(bus: Bus, configured: Folder) -> None:
    first = examine_folder(configured.path, {})

    def again() -> ConfigSnapshot:
        raise AssertionError("it was read again")

    with Bus.open(bus.layout.directory) as own:
        service = Service(own, again)
        run, service.run = service.run, lambda ready: run(ready, first)  # type: ignore[method-assign, assignment, misc]
        with serving(bus, service) as running:
            assert running.ended(running.submit("echo")).state == "succeeded"


@pytest.mark.slow
@pytest.mark.requirement("D-137")
def test_log_tells_each_warning_once_and_follows_a_reload(configured: Folder) -> None:
    quiet = CONFIG.replace("max_workers: 2", "max_workers: 2, log_level: error")
    configured.write(config=quiet.replace("log_level: error", "log_level: info"))
    with ServiceProcess(configured.path).ready() as service:
        unsealed = [text for text in service.messages() if "the files here are not sealed" in text]
        assert len(unsealed) == 1
        configured.write(config=quiet)
        assert service.run("automation", "reload").returncode == 0
        size = len(service.log.read_text())
        text = quiet.replace("log_level: error", "log_level: info, log_format: text")
        configured.write(config=text)
        assert service.run("automation", "reload").returncode == 0
        wait_until(lambda: "the configuration was taken" in service.log.read_text()[size:])
        assert service.stop() == 0
        lines = service.log.read_text()[size:].splitlines()
    assert lines
    assert not any(line.startswith("{") for line in lines)


@pytest.mark.slow
@pytest.mark.requirement("D-134")
def test_sighup_does_not_end_a_service_that_begins(configured: Folder) -> None:
    with ServiceProcess(configured.path) as service:
        lock = configured.path / "data" / "ductile.lock"
        wait_until(lambda: lock.exists() and lock.read_text())
        service.process.send_signal(signal.SIGHUP)
        service.ready()
        wait_until(lambda: any("was taken" in text for text in service.messages()))
        assert service.stop() == 0


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ackbus.automation")
