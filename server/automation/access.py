"""Access to the API of the automation, and what its operations share."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, Path, Request
from pydantic import Field
from starlette.requests import HTTPConnection

from ...automation.active_config import ConfigSnapshot
from ...automation.config.models import ApiConfig, TokenConfig
from ...automation.plugins.discovery import Plugin
from ...automation.routes.router import Index, Router
from ...bus.local_bus import LocalBus
from ...schema.errors import NotFound
from ...schema.message.names import did_you_mean
from ..access.access import GuardedRouter, bearer
from ..access.table import AUTOMATION
from ..access.tokens import Principal, Scope, Tokens, Unauthorized
from ..api.common import new_router
from ..problems import documented
from ..records import RequestBody

# Tokens of a configuration, and the principals that show them.

#: The scope of a configuration that has all others in it.
_ALL = "*"


class ConfigTokens:
    """The tokens of a configuration. Those without scopes are secrets of webhooks, and no tokens.

    Args:
        tokens: of a configuration; where several have one key, it has the scopes of all.
    """

    def __init__(self, tokens: Iterable[TokenConfig]) -> None:
        names: dict[str, str] = {}
        scopes: dict[str, set[Scope]] = defaultdict(set)
        for token in tokens:
            key = token.key.reveal()
            if key and token.scopes:
                names.setdefault(key, token.name)
                scopes[key] |= {Scope.ADMIN if s == _ALL else Scope(s) for s in token.scopes}
        self._principals = [
            (_digest(key.encode(errors="surrogateescape")), Principal(name, frozenset(scopes[key])))
            for key, name in names.items()
        ]

    def holder(self, token: bytes) -> Principal | None:
        """Return the principal that shows a token, None where the token is unknown.

        It takes as long for every text: all tokens are compared, each in constant time.
        """
        digest, shown = _digest(token), None
        for known_digest, principal in self._principals:
            if hmac.compare_digest(digest, known_digest):
                shown = principal
        return shown


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


# The configuration in force as the API uses it: its tokens, pipelines and router.

_log = logging.getLogger("ackbus.automation.api")


class RunningService(Protocol):
    """The service, as far as the API knows it."""

    @property
    def snapshot(self) -> ConfigSnapshot:
        """The configuration in force."""


class ServedConfig:
    """A configuration in force, with its index and router. Any thread may use it.

    Args:
        bus: the bus whose events begin its pipelines.
        snapshot: the configuration.
    """

    def __init__(self, bus: LocalBus, snapshot: ConfigSnapshot) -> None:
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
        plugin = self.plugins.get(name)
        if plugin is None:
            raise NotFound(f"there is no plugin {name[:100]!a}{did_you_mean(name, self.plugins)}")
        return plugin

    @cached_property
    def index(self) -> Index:
        """Its routes and pipelines."""
        return Index(self.config)

    @cached_property
    def router(self) -> Router:
        """The router that begins its pipelines."""
        return Router(self._bus, self.config, self.plugins)


class ConfigFollower:
    """Holds what the API derives from a service's configuration, and renews it after a reload.

    Args:
        bus: of the service.
        service: the service.
    """

    def __init__(self, bus: LocalBus, service: RunningService) -> None:
        self._bus = bus
        self.service = service
        self._held: ServedConfig | None = None

    def get(self) -> ServedConfig:
        """Return the configuration that is in force now."""
        snapshot, before = self.service.snapshot, self._held
        if before is None or before.snapshot is not snapshot:
            self._held = ServedConfig(self._bus, snapshot)
            if before is not None and before.door != self._held.door:
                _log.warning("api.enabled and api.listen count from the next start on")
            return self._held
        return before


#: The only answer to an invalid token, whatever is wrong with it.
_REFUSED = "show a valid token: Authorization: Bearer <token>"


class ServiceAccess:
    """Finds the principal of a request by a token of the configuration in force, or of the bus.

    Args:
        bus: of the service; its tokens are those of `bus token`.
        current: the configuration in force: a token that a reload removes is good no more.
    """

    def __init__(self, bus: LocalBus, current: ConfigFollower) -> None:
        self._tokens = Tokens.of(bus)
        self._current = current

    def principal(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request.

        Raises:
            Unauthorized: it shows no valid token.
        """
        return self.holder(connection)

    def holder(self, connection: HTTPConnection) -> Principal:
        """Return the principal of a request's token.

        Raises:
            Unauthorized: it shows no valid token.
        """
        token = bearer(connection)
        if token is None:
            raise Unauthorized(_REFUSED)
        # Headers are decoded as Latin-1, whatever bytes came.
        return self._current.get().tokens.holder(token.encode("latin-1")) or self._of_bus(token)

    def _of_bus(self, token: str) -> Principal:
        try:
            return self._tokens.holder(token)
        except Unauthorized as error:
            raise Unauthorized(_REFUSED) from error


# Parameters, dependencies and records that the operations of the API share.

PluginName = Annotated[str, Path(min_length=1, max_length=128, description="A plugin.")]


def guarded_router(tag: str) -> APIRouter:
    """Return a router for operations that need a token."""
    return new_router(tag, "", AUTOMATION)


def open_router(tag: str) -> APIRouter:
    """Return a router for operations that need none."""
    return GuardedRouter(AUTOMATION, tags=[tag])


async def in_force(request: Request) -> ServedConfig:
    """Return the configuration in force: one for the whole request."""
    current: ConfigFollower = request.app.state.current
    return current.get()


TheConfig = Annotated[ServedConfig, Depends(in_force)]


class PayloadBody(RequestBody):
    """The body of a trigger."""

    payload: dict[str, Any] | None = Field(None, description="What is handed over; none is {}.")


def problems(*more: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that a guarded operation documents: the common ones, and these."""
    return documented(400, 401, 403, 503, *more)
