"""The doorbell: a publisher in one process wakes a waiter in another at once.

A publisher writes one byte over a small file after its commit; waiters watch that file through
inotify. It is only a hint: writers with their own SQL never ring it, so every wait is bounded and
is followed by another look at the log. Watching the write-ahead log instead would miss commits,
because the last thing that a commit changes is shared memory, which gives no event.
"""

from __future__ import annotations

import os
import sys
import time

from ..schema.directory.folder import Descriptor, locate
from ..schema.errors import InvalidInput
from ..schema.queries import engine_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from ..schema.engine import Engine
    from .local_bus import LocalBus

    T = TypeVar("T")

#: An event of inotify: watch, mask, cookie, length of the name. And its size.
_EVENT = "iIII"
_EVENT_BYTES = 16

#: How often a waiter without inotify asks SQLite whether anything was committed, in seconds.
FALLBACK_POLL_S = 0.005

#: The time limit of a wait that has none. Not from `math`: publishers load this module.
_NEVER_S = float("inf")

#: How long a waiter trusts the doorbell before it looks for itself, in seconds.
RECHECK_S = 2.0

#: Of a `Pace`: the first wait and the longest, in seconds, and the factor between two.
ACTIVE_S, IDLE_S, BACKOFF = 0.2, 2.0, 1.5


class Pace:
    """A growing wait: 0.2, 0.3, 0.45 … 2.0 s; back to 0.2 as soon as there is a message.

    Equal `active_s` and `idle_s` give a fixed pace.

    Args:
        active_s: the first wait, in seconds.
        idle_s: the longest: how late a message of a program that never rings may be seen.
        backoff: the factor between them.
    """

    def __init__(
        self, active_s: float = ACTIVE_S, idle_s: float = IDLE_S, backoff: float = BACKOFF
    ) -> None:
        if not 0 < active_s <= idle_s or backoff < 1:
            raise InvalidInput("a pace needs 0 < active_s <= idle_s and backoff >= 1")
        self._active_s, self._idle_s, self._backoff = active_s, idle_s, backoff
        self._next_s = active_s

    def next(self) -> float:
        """Return the next wait, in seconds, and lengthen the wait after it."""
        due = self._next_s
        self._next_s = min(due * self._backoff, self._idle_s)
        return due

    def reset(self) -> None:
        """Begin again with the shortest wait: there was a message."""
        self._next_s = self._active_s


class Doorbell:
    """The bell of one bus, for ringing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: Descriptor | None = None

    def ring(self) -> None:
        """Wake every waiter of the bus. Never raises: without the bell, waiters only wake later."""
        try:
            file = self._file
            if file is None:
                file = self._file = Descriptor(_open(self._path))
            os.pwrite(file.fd, b"!", 0)
        except OSError:
            return

    @property
    def was_rung(self) -> bool:
        """Whether it has rung since it was made: messages were stored, or work has moved."""
        return self._file is not None

    def close(self) -> None:
        """Close the file descriptor, as soon as no other thread is ringing."""
        self._file = None


class StopEvent:
    """Ends waits for the doorbell, from any thread or a signal handler. It stays set.

    Attributes:
        is_set: whether it was set.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._listeners: list[Listener] = []

    def set(self) -> None:
        """End the waits that are on, and all that begin later."""
        self.is_set = True
        self.wake()

    def wake(self) -> None:
        """End the pauses that are on: each wait looks again at once, and goes on."""
        for listener in tuple(self._listeners):
            listener.wake()


class Listener:
    """A waiter for new messages: `wait_for`, or a look at the log, `wait`, another look.

    Listening begins when it is made, so that no message is missed between the look and the wait.
    One thread may wait; `wake` may be called from any.

    Args:
        path: of the bell.
        engine: of the bus.
        stop: ends its waits.
        use_inotify: False asks SQLite instead.
    """

    def __init__(
        self, path: str, engine: Engine, stop: StopEvent | None = None, *, use_inotify: bool = True
    ) -> None:
        self._path = path
        self._engine = engine
        self._wake_reader, writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(writer, False)
        self._wake_writer: Descriptor | None = Descriptor(writer)
        self._watch = _watch(path) if use_inotify else None
        self._version = None if self._watch else engine.version()
        self._stop = stop or StopEvent()
        self._stop._listeners.append(self)

    def wait_for(
        self,
        look: Callable[[], T],
        is_there: Callable[[T], object] = bool,
        *,
        timeout_s: float | None = None,
        recheck_s: float | Callable[[], float] = RECHECK_S,
    ) -> T:
        """Look now, at each ring, and now and then, until something is there; return that.

        When the time is over, or the wait is stopped, what the last look returned is returned.

        Args:
            look: looks at the bus; the first time always, and never after a stop.
            is_there: whether what it returned ends the wait.
            timeout_s: how long to wait, in seconds; None: as long as it takes.
            recheck_s: the longest pause between two looks, in seconds; or what returns the next.

        Raises:
            BusMoved: the directory of the bus is no longer there.
        """
        deadline = time.monotonic() + (_NEVER_S if timeout_s is None else timeout_s)
        outcome = look()
        while not (is_there(outcome) or self._stop.is_set):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            self.wait(min(left_s, recheck_s() if callable(recheck_s) else recheck_s))
            if not self._stop.is_set:
                outcome = look()
        return outcome

    def pause(self, seconds: float) -> None:
        """Wait so long, whatever rings, unless it is stopped."""
        self.wait_for(lambda: None, timeout_s=seconds)

    def wait(self, timeout_s: float) -> bool:
        """Block until the bell rings, `wake` is called, or the time is over.

        Returns:
            False when the time ran out.

        Raises:
            BusMoved: the directory of the bus is no longer there.
        """
        if self._watch is None:
            return self._wait_by_asking(timeout_s)
        rung = self._watch.wait(timeout_s, self._wake_reader)
        if self._watch.is_over:
            self._listen_again()
        return rung

    def wake(self) -> None:
        """End the current wait, or else the next wait, at once."""
        writer = self._wake_writer
        if writer is None:
            return  # closed: no thread waits
        try:
            os.write(writer.fd, b"!")
        except OSError:
            return  # the pipe is full: it is awake already; or it was closed meanwhile

    def close(self) -> None:
        """Stop listening; more than once does nothing."""
        reader, self._wake_reader, self._wake_writer = self._wake_reader, -1, None
        if reader >= 0:
            self._stop._listeners.remove(self)
            os.close(reader)
            if self._watch is not None:
                self._watch.close()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _listen_again(self) -> None:
        """Watch the bell again: the file was removed, and with it the watch."""
        if self._watch is not None:
            self._watch.close()
        self._engine.require_place()
        self._watch = _watch(self._path)
        if self._watch is None:
            self._version = self._engine.version()

    def _wait_by_asking(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while True:
            version = self._engine.version()
            if version != self._version or _drain(self._wake_reader):
                self._version = version
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(FALLBACK_POLL_S, left_s))


class _Watch:
    """An inotify watch on the bell's file."""

    def __init__(self, path: str) -> None:
        import inotify_simple  # slow to load, and only waiters need it

        self._flags = inotify_simple.flags
        self._inotify = inotify_simple.INotify(nonblocking=True)
        #: Whether the file was removed, and with it the watch: nothing rings any more.
        self.is_over = False
        try:
            bell = Descriptor(_open(path))
            # Not by its name, which may be another file's by now, or a link's.
            self._inotify.add_watch(f"/proc/self/fd/{bell.fd}", self._flags.MODIFY)
        except OSError:
            self._inotify.close()
            raise

    def wait(self, timeout_s: float, wake_fd: int) -> bool:
        import select

        poll = select.poll()
        poll.register(self._inotify.fd, select.POLLIN)
        poll.register(wake_fd, select.POLLIN)
        ready = poll.poll(max(0, timeout_s) * 1000)
        for fd, _ in ready:
            if fd == wake_fd:
                _drain(wake_fd)
            else:
                self.is_over = self._is_ignored()
        return bool(ready)

    def _is_ignored(self) -> bool:
        """Take the events off the queue; return whether the system has removed the watch.

        By hand, since it stands between a message and its handler: events are of 16 bytes, a
        watched file's have no name, and the second number is the mask.
        """
        import struct  # as inotify itself: only waiters need it

        events = os.read(self._inotify.fd, 256 * _EVENT_BYTES)
        return any(
            mask & self._flags.IGNORED for _, mask, _, _ in struct.iter_unpack(_EVENT, events)
        )

    def close(self) -> None:
        self._inotify.close()


def listen(bus: LocalBus, stop: StopEvent | None = None) -> Listener:
    """Return a listener of a bus, for a waiting loop; close it, or use it in a `with`."""
    return Listener(bus.layout.doorbell, engine_of(bus), stop)


def wait_for(
    bus: LocalBus,
    look: Callable[[], T],
    is_there: Callable[[T], object] = bool,
    *,
    timeout_s: float | None = None,
    recheck_s: float | Callable[[], float] = RECHECK_S,
    stop: StopEvent | None = None,
) -> T:
    """Wait as `Listener.wait_for` does, listening from before the first look on."""
    with listen(bus, stop) as listener:
        return listener.wait_for(look, is_there, timeout_s=timeout_s, recheck_s=recheck_s)


def ring(bus: LocalBus) -> None:
    """Wake every waiter of a bus, after the commit where a transaction is open. Never raises."""
    engine_of(bus).after_commit(bus._doorbell.ring)


def _open(path: str) -> int:
    """Open the bell for writing, made where it is missing."""
    folder, name = locate(path)
    return folder.change(name)


def _watch(path: str) -> _Watch | None:
    """Return a watch, or None where there is no inotify, or no instance of it left."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return _Watch(path)
    except OSError:
        return None


def _drain(fd: int) -> bool:
    """Empty a wake pipe; return whether there was anything in it."""
    try:
        return bool(os.read(fd, 4096))
    except BlockingIOError:
        return False
