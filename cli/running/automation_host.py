"""Running the service of automation in the foreground, until signals end it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import ExitStack
from functools import partial

from ...bus.bus import Bus
from ...schema.stop_limit import heed, obey
from ..extras import require
from ..show import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ...automation.config.load import Demands
    from ...automation.config.snapshot import Config
    from ...automation.config.sources import Origin
    from ...automation.log import ServiceLog
    from ...automation.regime import Loads
    from ...automation.service import Service
    from ...server.running import Listeners, ServedApp

# The doors of the service of automation: what it serves over HTTP, and where.


def doors_of(service: Service, loads: Loads, config: Config, stack: ExitStack) -> list[ServedApp]:
    """Return the doors that a configuration asks for; where it asks for none, no HTTP is loaded.

    Args:
        service: what they lead to.
        loads: the readings of its configuration.
        config: the one that the service begins with.
        stack: closes what they use, after them.

    Raises:
        AckbusError: the extra `server` is missing.
    """
    if not (wanted := _addresses(config)):
        return []
    require("server", "fastapi", "starlette", "uvicorn")
    from ...server.waiting import WRITE_TIMEOUT_S

    # Clients don't wait for other writers as long as the service does.
    directory = service.bus.layout.directory
    bus = stack.enter_context(Bus.open(directory, write_timeout_s=WRITE_TIMEOUT_S))
    doors: list[ServedApp] = []
    if "api" in wanted:
        doors.append(_api(bus, service, partial(_reload, service, loads, config), wanted["api"]))
    if "webhooks" in wanted:
        doors.append(_webhooks(bus, service, wanted["webhooks"]))
    return doors


def not_served(first: Config, now: Config) -> list[str]:
    """Return what a configuration asks for that waits for the next start, for people.

    Args:
        first: the configuration whose doors were opened.
        now: the one in force.
    """
    opened, wanted = _addresses(first), _addresses(now)
    told = []
    for name in ("api", "webhooks"):
        if name not in wanted and name in opened:
            told.append(f"{name} is off: its port closes at the next start")
        elif opened.get(name) != wanted.get(name):
            told.append(f"{name}.listen has changed: it counts from the next start on")
    return told


def _addresses(config: Config) -> dict[str, str]:
    found = {}
    if config.api is not None and config.api.enabled:
        found["api"] = config.api.listen
    if config.webhooks is not None:
        found["webhooks"] = config.webhooks.listen
    return found


def _reload(service: Service, loads: Loads, first: Config) -> list[str]:
    loads.reload(service)
    return not_served(first, service.snapshot.config)


def _api(bus: Bus, service: Service, reload: Callable[[], list[str]], listen: str) -> ServedApp:
    from ...server.automation.app import create_api, end_waiting
    from ...server.running import ServedApp

    app = create_api(bus, service, reload)
    return ServedApp("API", listen, app, on_stop=lambda: end_waiting(app))


def _webhooks(bus: Bus, service: Service, listen: str) -> ServedApp:
    from ...server.running import ServedApp
    from ...server.webhooks import webhook_app

    return ServedApp("webhooks", listen, webhook_app(bus, lambda: service.snapshot))


_log = logging.getLogger("ackbus.automation.service")


def serve(folder: Path, bus_directory: str, origin: Origin, demands: Demands) -> None:
    """Run the service of a folder of configuration on a bus; blocks until it is told to stop.

    The lock comes first: nothing of a live service is opened, upgraded or recovered by another.

    Raises:
        ConfigFaults: the configuration is refused.
        ServiceRuns: another service runs.
    """
    from ...automation.log import ServiceLog
    from ...automation.regime import Loads, examine_folder
    from ...automation.service import Service
    from ...automation.service_lock import Orders, ServiceLock, state_dir_of
    from ...bus.bus import Bus
    from ...schema.processes import raise_open_files
    from ...schema.sqlite.upgrade import upgrade

    orders = Orders()
    heed(lambda number, frame: orders.reload(), signal.SIGHUP)  # it would end one that begins
    raise_open_files()
    with ExitStack() as stack:
        lock = stack.enter_context(ServiceLock(state_dir_of(folder, origin)))
        lock.acquire()
        log = stack.enter_context(ServiceLog(sys.stderr if output.is_closed() else None))
        examine = partial(examine_folder, folder, os.environ, origin, demands)
        first = examine()
        if not os.path.exists(os.path.join(bus_directory, "bus.db")):
            Bus.init(bus_directory).close()
        lock.acquire_bus(bus_directory)
        upgrade(bus_directory)
        bus = stack.enter_context(Bus.open(bus_directory))
        loads = Loads(examine)
        taken = partial(_go_by, log, first.config)
        service = Service(bus, loads, orders=orders, on_taken=taken, on_reloaded=loads.end)
        obey(lambda number, frame: orders.stop(), signal.SIGINT, signal.SIGTERM)
        doors = doors_of(service, loads, first.config, stack)
        listeners = stack.enter_context(_listeners(doors)) if doors else None
        for fault in first.faults:
            output.note(f"left out: {fault}")
        works = f"the service of {folder} works on {bus_directory}"
        service.run(partial(_begin, works, listeners), first)


def _begin(works: str, listeners: Listeners | None) -> None:
    """Listen, and say that the service is ready, and where."""
    served = ""
    if listeners is not None:
        listeners.start()
        served = "".join(f", {name} at {url}" for name, url in listeners.urls.items())
    output.note(f"ready: {works}{served}")


def _go_by(log: ServiceLog, first: Config, now: Config) -> None:
    """Go by a configuration, as far as the service itself does not."""
    log.take(now.service, now.variables)
    for told in not_served(first, now):
        _log.warning("%s", told)


def _listeners(doors: list[ServedApp]) -> Listeners:
    from ...server.running import Listeners

    return Listeners(doors)
