"""The configuration in force, as the API goes by it: its tokens, pipelines and router."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Protocol

from ...automation.config.snapshot import ApiConfig
from ...automation.plugins.discovery import Plugin
from ...automation.routes.index import Index
from ...automation.routes.router import Router
from ...automation.snapshots import Snapshot
from ...bus.bus import Bus
from ...schema.errors import NotFound
from .tokens import ConfigTokens

_log = logging.getLogger("ackbus.automation.api")


class RunningService(Protocol):
    """The service, as far as the API knows it."""

    @property
    def snapshot(self) -> Snapshot:
        """The configuration in force."""


class InForce:
    """A configuration in force, and what is made of it. Any thread may use it.

    Args:
        bus: whose events its pipelines begin with.
        snapshot: the configuration.
    """

    def __init__(self, bus: Bus, snapshot: Snapshot) -> None:
        self._bus = bus
        self.snapshot = snapshot
        self.config = snapshot.config
        self.plugins = snapshot.plugins
        self.tokens = ConfigTokens(snapshot.config.tokens)

    @property
    def door(self) -> tuple[bool, str]:
        """Whether and where its API is to be served."""
        api = self.config.api or ApiConfig()
        return api.enabled, api.listen

    def plugin(self, name: str) -> Plugin:
        """Return a plugin that runs.

        Raises:
            NotFound: there is none of this name.
        """
        found = self.plugins.get(name)
        if found is None:
            raise NotFound(f"there is no plugin {name[:100]!a}")
        return found

    @cached_property
    def index(self) -> Index:
        """Its routes and pipelines."""
        return Index(self.config)

    @cached_property
    def router(self) -> Router:
        """The router that begins its pipelines."""
        return Router(self._bus, self.config, self.plugins)


class Current:
    """Follows a service from one configuration to the next.

    Args:
        bus: of the service.
        service: the service.
    """

    def __init__(self, bus: Bus, service: RunningService) -> None:
        self._bus = bus
        self.service = service
        self._held: InForce | None = None

    def get(self) -> InForce:
        """Return the configuration that is in force now."""
        snapshot, held = self.service.snapshot, self._held
        if held is None or held.snapshot is not snapshot:
            self._held = InForce(self._bus, snapshot)
            if held is not None and held.door != self._held.door:
                _log.warning("api.enabled and api.listen count from the next start on")
            return self._held
        return held
