"""The unit for systemd in the how-to, by systemd's own check and by the acts of its lines."""

import configparser
import re
import shutil
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from ackbus import Bus
from ackbus.automation.active_config import examine_folder
from ackbus.automation.service import STOP_S, Service
from ackbus.automation.service_lock import Notifier
from ackbus.subscribers.jobs.jobs import Jobs
from ackbus.workers.processes.own_child import GRACE_S

from ..conftest import wait_until
from ..programs import connect
from .conftest import Folder
from .running import OK, serving
from .service_process import BUS, ServiceProcess
from .test_service import configured, lines, submit

pytestmark = pytest.mark.slow

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "automate.md"


def unit() -> str:
    """The unit, as the how-to has it."""
    (found,) = re.findall(r"```ini\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    return str(found)


def setting(name: str) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit())
    return parser["Service"][name]


def seconds(name: str) -> int:
    return int(setting(name))


@pytest.mark.requirement("D-145")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_d_145_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "automation.service"
    path.write_text(unit().replace("/usr/local/bin/bus", BUS[0]))
    words = ["systemd-analyze", "verify", "--man=no", "--generators=no", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, path.name in done.stderr) == (0, False), done.stderr
    path.write_text(path.read_text().replace("WatchdogSec", "WatchdogSecs"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    assert "WatchdogSecs" in done.stderr


@pytest.mark.requirement("D-145")
def test_the_unit_starts_reloads_and_stops_the_service(folder: Folder, tmp_path: Path) -> None:
    """As systemd does it: the words of the unit, a socket for the notes, its signals."""
    configured(folder, tmp_path)
    assert setting("ExecStart").split()[1:-1] == ["automation", "start", "--config"]
    assert setting("User")
    assert (setting("Type"), setting("Restart")) == ("notify", "on-failure")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(30)
        watchdog_us = seconds("WatchdogSec") * 1_000_000
        notes = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": str(watchdog_us)}
        with ServiceProcess(folder.path, **notes) as service:

            def hear(wanted: str) -> None:
                while not told.recv(4096).decode().startswith(wanted):
                    pass

            hear("READY=1")
            reload = setting("ExecReload").replace("$MAINPID", str(service.process.pid))
            subprocess.run(reload.split(), check=True)
            hear("RELOADING=1")
            hear("READY=1")
            assert service.stop() == 0


@pytest.mark.requirement("D-145")
def test_only_a_refused_configuration_is_not_started_again(folder: Folder, tmp_path: Path) -> None:
    """All else may be over in a while: a full disk, a kill, another service, a taken address."""
    given_up = int(setting("RestartPreventExitStatus"))
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service:
        assert service.run("automation", "start").returncode == 1
        service.kill()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            listen = f"webhooks: {{listen: 127.0.0.1:{taken.getsockname()[1]}}}\n"
            config = folder.path / "config.yaml"
            config.write_text(config.read_text() + listen)
            refused = service.run("automation", "start")
            assert (refused.returncode, "can't listen on" in refused.stderr) == (1, True)
        folder.write(config="service: {max_workers: 0}\n")
        assert service.run("automation", "start").returncode == given_up == 78


def test_a_service_that_is_stopped_alone_lets_its_plugins_end(
    folder: Folder, tmp_path: Path
) -> None:
    """The reason for KillMode=mixed: systemd's default would end the plugins at once."""
    assert setting("KillMode") == "mixed"
    assert seconds("TimeoutStopSec") > 2 * STOP_S + GRACE_S
    configured(folder, tmp_path)
    with ServiceProcess(folder.path).ready() as service, service.open() as bus:
        held = submit(bus, "held")
        wait_until(lambda: lines(tmp_path / "held") == 1)
        service.process.send_signal(signal.SIGTERM)
        (tmp_path / "held.go").touch()
        assert service.process.wait(seconds("TimeoutStopSec")) == 0
        (job,) = Jobs.of(bus).of_message(held.seq)
        assert job.state == "succeeded"


def test_a_service_that_can_not_write_yet_still_lives(
    bus: Bus, folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another program holds the bus: to start the service again would not help."""
    schedules = "schedules: [{every: 1s}]"
    folder.write(
        config=f"plugin_roots: [plugins]\nplugins: {{echo: {{enabled: true, {schedules}}}}}\n"
    )
    folder.plugin("echo", run=OK)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told,
        Bus.open(bus.layout.directory, write_timeout_s=0.2) as own,
    ):
        told.bind(str(tmp_path / "notify"))
        told.settimeout(30)
        notes = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        service = Service(own, lambda: examine_folder(folder.path, {}), notifier=Notifier(notes))
        with serving(bus, service), closing(connect(Path(bus.layout.directory))) as other:
            other.set_busy_timeout(30_000)  # the service writes now and then
            other.execute("BEGIN IMMEDIATE")
            failed = [0]  # how often it could not go on, when it was heard of
            while failed[-1] < 4 or len(failed) < 6:
                assert told.recv(4096).startswith((b"WATCHDOG=1", b"READY=1"))
                failed.append(caplog.text.count("the service can't go on yet"))
            assert len(set(failed)) > 3  # it was heard of between the failures too
            other.execute("ROLLBACK")
