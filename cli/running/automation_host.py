"""Running the service of automation in the foreground, until signals end it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import ExitStack
from functools import partial

from ...bus.local_bus import LocalBus
from ...schema.stop_limit import heed, obey
from ..extras import require
from ..show.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...automation.active_config import ConfigLoader
    from ...automation.config.load import Demands
    from ...automation.config.models import Config
    from ...automation.config.sources import Origin
    from ...automation.log import ServiceLog
    from ...automation.service import Service
    from ...server.running import Listeners, ServedApp

# The doors of the service of automation: what it serves over HTTP, and where.


def doors_of(
    service: Service, loader: ConfigLoader, config: Config, stack: ExitStack
) -> list[ServedApp]:
    """Return the doors that a configuration asks for; where it asks for none, no HTTP is loaded.

    Args:
        service: the service behind them.
        loader: reads its configuration.
        config: the one that the service begins with.
        stack: closes their resources after them.

    Raises:
        AckbusError: the extra `server` is missing.
    """
    if not (addresses := _addresses(config)):
        return []
    require("server", "fastapi", "starlette", "uvicorn")
    from ...server.waiting import WRITE_TIMEOUT_S

    # Clients don't wait for other writers as long as the service does.
    directory = service.bus.layout.directory
    bus = stack.enter_context(LocalBus.open(directory, write_timeout_s=WRITE_TIMEOUT_S))
    doors: list[ServedApp] = []
    if "api" in addresses:
        doors.append(
            _api(bus, service, partial(_reload, service, loader, config), addresses["api"])
        )
    if "webhooks" in addresses:
        doors.append(_webhooks(bus, service, addresses["webhooks"]))
    return doors


def not_served(first: Config, now: Config) -> list[str]:
    """Return a line for each setting that takes effect only at the next start.

    Args:
        first: the configuration whose doors were opened.
        now: the one in force.
    """
    opened, current = _addresses(first), _addresses(now)
    notices = []
    for name in ("api", "webhooks"):
        if name not in current and name in opened:
            notices.append(f"{name} is off: its port closes at the next start")
        elif opened.get(name) != current.get(name):
            notices.append(f"{name}.listen has changed: it counts from the next start on")
    return notices


def _addresses(config: Config) -> dict[str, str]:
    addresses = {}
    if config.api is not None and config.api.enabled:
        addresses["api"] = config.api.listen
    if config.webhooks is not None:
        addresses["webhooks"] = config.webhooks.listen
    return addresses


def _reload(service: Service, loader: ConfigLoader, first: Config) -> list[str]:
    loader.reload(service)
    return not_served(first, service.snapshot.config)


def _api(
    bus: LocalBus, service: Service, reload: Callable[[], list[str]], listen: str
) -> ServedApp:
    from ...server.automation.app import create_api, end_waiting
    from ...server.running import ServedApp

    app = create_api(bus, service, reload)
    return ServedApp("API", listen, app, on_stop=lambda: end_waiting(app))


def _webhooks(bus: LocalBus, service: Service, listen: str) -> ServedApp:
    from ...server.running import ServedApp
    from ...server.webhooks import webhook_app

    return ServedApp("webhooks", listen, webhook_app(bus, lambda: service.snapshot))


_log = logging.getLogger("ackbus.automation.service")


def serve(
    output: Output, folder: Path, bus_directory: str, origin: Origin, demands: Demands
) -> None:
    """Run the service of a folder of configuration on a bus; blocks until it is told to stop.

    The lock comes first: a second service opens, upgrades and recovers nothing of a live one.

    Raises:
        ConfigFaults: the configuration is refused.
        ServiceRuns: another service runs.
    """
    from ...automation.active_config import ConfigLoader, examine_folder
    from ...automation.log import ServiceLog
    from ...automation.service import Service
    from ...automation.service_lock import ServiceControl, ServiceLock, state_dir_of
    from ...bus.local_bus import LocalBus
    from ...schema.processes import raise_open_files
    from ...schema.sqlite.upgrade import upgrade

    control = ServiceControl()
    heed(
        lambda number, frame: control.reload(), signal.SIGHUP
    )  # it would end a service that still begins
    raise_open_files()
    with ExitStack() as stack:
        lock = stack.enter_context(ServiceLock(state_dir_of(folder, origin)))
        lock.acquire()
        log = stack.enter_context(ServiceLog(sys.stderr if output.is_closed() else None))
        examine = partial(examine_folder, folder, os.environ, origin, demands)
        first = examine()
        if not os.path.exists(os.path.join(bus_directory, "bus.db")):
            LocalBus.init(bus_directory).close()
        lock.acquire_bus(bus_directory)
        upgrade(bus_directory)
        bus = stack.enter_context(LocalBus.open(bus_directory))
        loader = ConfigLoader(examine)
        taken = partial(_apply_logging, log, first.config)
        service = Service(bus, loader, control=control, on_taken=taken, on_reloaded=loader.end)
        obey(lambda number, frame: control.stop(), signal.SIGINT, signal.SIGTERM)
        doors = doors_of(service, loader, first.config, stack)
        listeners = stack.enter_context(_listeners(doors)) if doors else None
        for fault in first.faults:
            output.note(f"left out: {fault}")
        works = f"the service of {folder} works on {bus_directory}"
        service.run(partial(_begin, output, works, listeners), first)


def _begin(output: Output, works: str, listeners: Listeners | None) -> None:
    """Listen, and say that the service is ready, and where."""
    served = ""
    if listeners is not None:
        listeners.start()
        served = "".join(f", {name} at {url}" for name, url in listeners.urls.items())
    output.note(f"ready: {works}{served}")


def _apply_logging(log: ServiceLog, first: Config, now: Config) -> None:
    """Apply the settings of logging, and warn of settings that wait for the next start."""
    log.use_config(now.service, now.variables)
    for notice in not_served(first, now):
        _log.warning("%s", notice)


def _listeners(doors: list[ServedApp]) -> Listeners:
    from ...server.running import Listeners

    return Listeners(doors)
