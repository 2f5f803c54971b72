"""The errors of the server itself: authentication, rates, and conflicts of requests."""

from __future__ import annotations

from typing import Any

from ...schema.errors import AckbusError, AckPastEnd, Refused


class Unauthorized(AckbusError):
    """The request shows no token, or an unknown or expired one."""


class Forbidden(AckbusError):
    """The principal is known, but lacks the right to do this."""


class TooManyRequests(AckbusError):
    """The principal exceeds its rate of requests.

    Attributes:
        retry_after_s: the seconds until its next request is allowed.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class AfterTheEnd(AckPastEnd):
    """The cursor is beyond the end of the log."""

    def __init__(self, after: int, newest: int) -> None:
        super().__init__(f"there is no message {after} yet: the newest is {newest}")


class Held(Refused):
    """A lease is held by another holder.

    Attributes:
        held: the lease, as it is listed.
    """

    def __init__(self, text: str, held: dict[str, Any]) -> None:
        self.held = held
        super().__init__(text)


class Reserved(Refused):
    """Files are reserved by others.

    Attributes:
        conflicts: the paths, and the reservations of others that they meet.
    """

    def __init__(self, text: str, conflicts: list[dict[str, Any]]) -> None:
        self.conflicts = conflicts
        super().__init__(text)
