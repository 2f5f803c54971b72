"""The doors of the service of automation: what it serves over HTTP, and where."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...automation.config.snapshot import Config
    from ...automation.service import Service
    from ...server.listeners import Door


def doors_of(service: Service, config: Config) -> list[Door]:
    """Return the doors that a configuration asks for; where it asks for none, no HTTP is loaded.

    Raises:
        AckbusError: the extra `server` is missing.
    """
    return []
