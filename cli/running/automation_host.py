"""Running the service of automation in the foreground, until signals end it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import ExitStack
from functools import partial

from ...schema.stop_limit import heed, obey
from ..show import output
from .automation_doors import doors_of, not_served

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ...automation.config.demands import Demands
    from ...automation.config.origin import Origin
    from ...automation.config.snapshot import Config
    from ...automation.log import ServiceLog
    from ...server.listeners import Door, Listeners

_log = logging.getLogger("ackbus.automation.service")


def serve(folder: Path, bus_directory: str, origin: Origin, demands: Demands) -> None:
    """Run the service of a folder of configuration on a bus; blocks until it is told to stop.

    The lock comes first: nothing of a live service is opened, upgraded or recovered by another.

    Raises:
        ConfigFaults: the configuration is refused.
        ServiceRuns: another service runs.
    """
    from ...automation.loads import Loads
    from ...automation.log import ServiceLog
    from ...automation.orders import Orders
    from ...automation.places import state_dir_of
    from ...automation.service import Service
    from ...automation.service_lock import ServiceLock
    from ...automation.snapshots import examine_folder
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


def _listeners(doors: list[Door]) -> Listeners:
    from ...server.listeners import Listeners

    return Listeners(doors)
