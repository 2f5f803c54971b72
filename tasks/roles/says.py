"""The words of a role about what it is at, told by its heart."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...bus.presence.heartbeat_thread import Heart


class Says:
    """Tells what a role is at, where that has changed.

    Args:
        heart: of the role.
    """

    def __init__(self, heart: Heart) -> None:
        self._heart = heart
        self._told: tuple[str, str | None] = ("", None)

    def __call__(self, status: str, what: str | None = None) -> None:
        """Tell a status, and on what the role is."""
        plain = None if what is None else "".join(c if c.isprintable() else " " for c in what)
        told = (status, None if plain is None else plain[:500])
        if told != self._told:
            self._told = told
            self._heart.update(status, task=told[1])
