"""Events of sessions, as the control plane tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Tell(Protocol):
    """Stores an event of a session, in the caller's transaction."""

    def __call__(
        self, session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None, /
    ) -> None:
        """Store an event; a session that is not there is told nothing.

        Args:
            session: its id.
            type, payload: of the event.
            sender: who tells it.
            about: the id of the request, job or completion that it is about.
        """


def nobody(
    session: str, type: str, payload: Mapping[str, Any], sender: str, about: str | None
) -> None:
    """Tell nobody: for callers without sessions."""
