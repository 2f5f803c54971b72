"""The doors of the service of automation: what it serves over HTTP, and where."""

from __future__ import annotations

from functools import partial

from ...bus.bus import Bus
from ..extras import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from ...automation.config.snapshot import Config
    from ...automation.loads import Loads
    from ...automation.service import Service
    from ...server.listeners import Door


def doors_of(service: Service, loads: Loads, config: Config, stack: ExitStack) -> list[Door]:
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
    from ...server.threads import WRITE_TIMEOUT_S

    # Clients don't wait for other writers as long as the service does.
    directory = service.bus.layout.directory
    bus = stack.enter_context(Bus.open(directory, write_timeout_s=WRITE_TIMEOUT_S))
    doors: list[Door] = []
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


def _api(bus: Bus, service: Service, reload: Callable[[], list[str]], listen: str) -> Door:
    from ...server.automation.app import create_api, end_waiting
    from ...server.listeners import Door

    app = create_api(bus, service, reload)
    return Door("API", listen, app, on_stop=lambda: end_waiting(app))


def _webhooks(bus: Bus, service: Service, listen: str) -> Door:
    from ...server.listeners import Door
    from ...server.webhooks.receiver import webhook_app

    return Door("webhooks", listen, webhook_app(bus, lambda: service.snapshot))
