"""Access to the API: every request but the open ones shows a token."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from ...bus.bus import Bus
from ..access.access import bearer
from ..access.errors import Unauthorized
from ..access.principals import Principal
from ..access.tokens import Tokens
from .in_force import Current

#: The one answer to all that is no good token: it tells nothing more.
_REFUSED = "show a valid token: Authorization: Bearer <token>"


class ServiceAccess:
    """Finds the principal of a request by a token of the configuration in force, or of the bus.

    Args:
        bus: of the service; its tokens are those of `bus token`.
        current: the configuration in force: a token that a reload removes is good no more.
    """

    def __init__(self, bus: Bus, current: Current) -> None:
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
