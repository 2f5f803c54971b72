"""The doors of the service of automation: what it serves over HTTP, and where."""

from __future__ import annotations

from ..extras import require

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.config.snapshot import Config
    from ...automation.loads import Loads
    from ...automation.service import Service
    from ...server.listeners import Door


def doors_of(service: Service, loads: Loads, config: Config) -> list[Door]:
    """Return the doors that a configuration asks for; where it asks for none, no HTTP is loaded.

    Raises:
        AckbusError: the extra `server` is missing.
    """
    doors: list[Door] = []
    if config.api is not None and config.api.enabled:
        doors.append(_api(service, loads, config.api.listen))
    if config.webhooks is not None:
        doors.append(_webhooks(service, config.webhooks.listen))
    return doors


def _api(service: Service, loads: Loads, listen: str) -> Door:
    require("server", "fastapi", "uvicorn")
    from ...server.automation.app import create_api, end_waiting
    from ...server.listeners import Door

    app = create_api(service.bus, service, lambda: loads.reload(service))
    return Door("API", listen, app, on_stop=lambda: end_waiting(app))


def _webhooks(service: Service, listen: str) -> Door:
    require("server", "starlette", "uvicorn")
    from ...server.listeners import Door
    from ...server.webhooks.receiver import webhook_app

    return Door("webhooks", listen, webhook_app(service.bus, lambda: service.snapshot))
