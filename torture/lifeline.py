"""The lifeline of an agent's process: a pipe by which its parent tells it to end.

A byte asks the agent to end in good order. The end of the pipe, which the kernel brings about
when the parent is gone, ends it at once.
"""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_STDIN = 0

#: The exit code of a process that lost its parent: that of an interrupted one.
INTERRUPTED = 130


class Lifeline:
    """Listens to the parent in a thread of its own."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._then: list[Callable[[], object]] = []
        threading.Thread(target=self._listen, name="lifeline", daemon=True).start()

    @property
    def ending(self) -> bool:
        """Whether the agent is to come to an end."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than until the agent is to end."""
        self._asked.wait(seconds)

    def call_at_end(self, act: Callable[[], object]) -> None:
        """Do something as soon as the agent is to end, for one that waits in its own way."""
        self._then.append(act)
        if self.ending:
            act()

    def _listen(self) -> None:
        while os.read(_STDIN, 1):
            self._asked.set()
            for act in self._then:
                act()
        os._exit(INTERRUPTED)
