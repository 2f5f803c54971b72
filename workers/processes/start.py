"""The start of a command, which no signal handler can interrupt."""

from __future__ import annotations

import errno
import signal
import threading
from contextlib import suppress

from ...schema.processes import start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from .own_child import OwnChild


class NoSupervisor(OSError):
    """A supervisor can't be started, or does not answer; the command itself is not at fault.

    Its `strerror` is for people.
    """


class Birth:
    """Starts a command, and ends it if an exception leaves the `with` block.

    Signal handlers run in the main thread, between any two steps of Python. The exception of one,
    a Ctrl-C for instance, could come when the command is there and no variable holds it yet. So
    when the main thread wants a command, another thread starts it; and stays until the block ends,
    since the kernel takes it for the parent, with whom some commands ask to die.

    Args:
        make: starts the command.
    """

    def __init__(self, make: Callable[[], OwnChild]) -> None:
        self._make = make
        self._thread: Thread | None = None
        self._is_known = threading.Event()  # whether there is a command
        self._is_over = threading.Event()
        # The command, or why there is none. Appending to a list is one step.
        self._children: list[OwnChild] = []
        self._errors: list[OSError | ValueError] = []
        self._is_abandoned = False

    def child(self) -> OwnChild:
        """Start the command.

        Raises:
            OSError, ValueError: it can't be started.
        """
        if threading.current_thread() is threading.main_thread():
            self._in_another_thread()
        else:
            self._start()
        if self._errors:
            raise self._errors[0]
        return self._children[0]

    def __enter__(self) -> Birth:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._is_abandoned = kind is not None  # first: from here on the thread ends what it starts
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
        if self._is_abandoned:
            self._end_all()

    def _in_another_thread(self) -> None:
        try:
            self._thread = start_thread(self._be_parent, "parent of a command")
        except RuntimeError as error:
            raise BlockingIOError(errno.EAGAIN, str(error)) from error
        self._is_known.wait()

    def _be_parent(self) -> None:
        try:
            self._start()
        finally:
            self._is_known.set()
        self._is_over.wait()
        if self._is_abandoned:
            self._end_all()

    def _start(self) -> None:
        # A thread of the host leaves signals to others by blocking them. A command would inherit
        # that, and would not hear its SIGTERM.
        blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        try:
            self._children.append(self._make())
        except (OSError, ValueError) as error:
            self._errors.append(error)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _end_all(self) -> None:
        # An exception can cut in before the thread is known, and is not joined then: so either of
        # the two may be here. Removing from a list is one step: each command is ended once.
        with suppress(IndexError):
            while True:
                self._children.pop().end()
