"""Orders to a service, which may come before it has begun and at any moment later."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Orders:
    """Orders that a service obeys between two steps.

    Orders may be given in any thread and in a signal handler, and are kept until they are obeyed.

    Attributes:
        is_stopping: whether it is to begin nothing more, and to end.
        is_in_a_hurry: whether it is to end what runs at once.
        is_to_reload: whether it is to take its configuration again.
    """

    def __init__(self) -> None:
        self.is_stopping = self.is_in_a_hurry = self.is_to_reload = False
        self._wake: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Order the end; the second time in a hurry."""
        self.is_in_a_hurry = self.is_stopping
        self.is_stopping = True
        self._wake()

    def reload(self) -> None:
        """Order that the configuration is taken again."""
        self.is_to_reload = True
        self._wake()

    def take_reload(self) -> bool:
        """Return whether the configuration is to be taken again; the order is obeyed by that."""
        is_to_reload, self.is_to_reload = self.is_to_reload, False
        return is_to_reload

    def on_order(self, wake: Callable[[], None]) -> None:
        """Have each later order call this, from the thread or the handler in which it comes."""
        self._wake = wake
