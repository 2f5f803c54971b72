"""The errors that only the doors know: who may not ask, and what stands against a request."""

from __future__ import annotations

from typing import Any

from ..schema import AckbusError, AckPastEnd, Refused


class Unauthorized(AckbusError):
    """Nobody is known by this token: there is none, or it is wrong or out of date."""


class Forbidden(AckbusError):
    """Whoever asks is known, and may not do this."""


class TooManyRequests(AckbusError):
    """Whoever asks does it more often than it may.

    Attributes:
        retry_after_s: after how many seconds it may again.
    """

    def __init__(self, text: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(text)


class AfterTheEnd(AckPastEnd):
    """What comes after a message was asked for that is not there yet: the log is another one."""

    def __init__(self, after: int, newest: int) -> None:
        super().__init__(f"there is no message {after} yet: the newest is {newest}")


class Held(Refused):
    """A lease is somebody's.

    Attributes:
        held: the lease, as it is listed.
    """

    def __init__(self, text: str, held: dict[str, Any]) -> None:
        self.held = held
        super().__init__(text)


class Reserved(Refused):
    """Files are reserved by others.

    Attributes:
        conflicts: what stands against the wish: paths, and the reservations that they meet.
    """

    def __init__(self, text: str, conflicts: list[dict[str, Any]]) -> None:
        self.conflicts = conflicts
        super().__init__(text)
