"""A running command: feeding it, taking its output, and ending it when that is due."""

from __future__ import annotations

import math
import select
import signal
import time
from functools import partial

from .end_deadlines import DYING_S
from .pipes import Catch, Feed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .own_child import Child
    from .stop_switch import StopSwitch

    #: Takes the name of a stream and bytes of it; it must not block.
    Output = Callable[[str, bytes], None]

#: Seconds between looks at what no descriptor tells: they begin short, and double up to the most.
_FIRST_NAP_S = 0.001
_LONGEST_NAP_S = 0.02
#: The longest wait for descriptors: the handler of a signal that came just before it runs after it.
_LONGEST_WAIT_S = 1.0


class Running:
    """A command that runs, from its start until nothing of it is left.

    Args:
        child: the command.
        stdin: what it may read.
        max_stdout_bytes: how much it may print; None: as much as it likes, and nothing is kept.
        max_stderr_bytes: how much of its stderr is kept; None: nothing.
        stop: ends it early.
        output: takes what is kept of its output as it comes; None: nobody does.
    """

    def __init__(
        self,
        child: Child,
        stdin: bytes,
        max_stdout_bytes: int | None,
        max_stderr_bytes: int | None,
        stop: StopSwitch | None,
        output: Output | None = None,
    ) -> None:
        self._child = child
        tell_out = None if output is None else partial(output, "stdout")
        tell_err = None if output is None else partial(output, "stderr")
        self.stdout = Catch(child.pipes.stdout, max_stdout_bytes, tell_out)
        self.stderr = Catch(child.pipes.stderr, max_stderr_bytes, tell_err)
        self._feed = Feed(child.pipes.stdin, stdin)
        self._stop = stop
        self._poll = select.poll()
        self._served: dict[int, Feed | Catch] = {}
        self._has_exited = False
        self._kill_at = math.inf  # until it is told to end
        self.timed_out = False
        self.stopped = False
        self._nap_s = _FIRST_NAP_S

    def to_the_end(self, deadline: float, grace_s: float) -> None:
        """Serve the command until nothing of it is left, or what is can't be ended.

        Args:
            deadline: when its time is up, on the monotonic clock.
            grace_s: seconds between SIGTERM and SIGKILL.
        """
        self._begin_to_serve()
        now = time.monotonic()
        while self._is_left(now, grace_s) and now < self._kill_at + DYING_S:
            self._serve(self._wait_s(deadline - now))
            now = time.monotonic()
            self._end_if_due(now, deadline, grace_s)
        self.stdout.take_the_rest()
        self.stderr.take_the_rest()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        """Give all descriptors back."""
        for each in (self._feed, self.stdout, self.stderr):
            each.pipe.close()
        self._child.close()

    def _begin_to_serve(self) -> None:
        self._register(self.stdout, select.POLLIN)
        self._register(self.stderr, select.POLLIN)
        self._register(self._feed, select.POLLOUT)
        self._serve_pipe(self._feed.pipe.fileno())  # most bodies fit into the pipe at once
        if self._child.fd is not None:
            self._poll.register(self._child.fd, select.POLLIN)
        if self._stop is not None:
            self._poll.register(self._stop, select.POLLIN)

    def _register(self, end: Feed | Catch, event: int) -> None:
        self._served[end.pipe.fileno()] = end
        self._poll.register(end.pipe, event)

    def _is_left(self, now: float, grace_s: float) -> bool:
        """Whether there is more to serve. What a command left running is told to end."""
        is_left = self._child.is_left()
        if is_left and self._has_exited:
            self._tell_to_end(now + grace_s)
        return is_left

    def _wait_s(self, left_s: float) -> float:
        """Return the time to wait for the descriptors, in seconds."""
        if self._child.fd is not None and self._kill_at == math.inf:
            return min(left_s, _LONGEST_WAIT_S)
        # On some systems no descriptor tells that a command has exited; and none that its session
        # is gone, unless it has a supervisor.
        nap_s = self._nap_s
        self._nap_s = min(nap_s * 2, _LONGEST_NAP_S)
        return min(left_s, nap_s) if self._kill_at == math.inf else nap_s

    def _serve(self, wait_s: float) -> None:
        for fd, _ in self._poll.poll(max(0, math.ceil(wait_s * 1000))):
            if fd in self._served:
                self._serve_pipe(fd)
            elif fd != self._child.fd or not self._child.hear():
                self._poll.unregister(fd)  # of a switch that is thrown, to hear it once is enough

    def _serve_pipe(self, fd: int) -> None:
        end = self._served[fd]
        if end.serve():
            return
        self._poll.unregister(fd)
        end.pipe.close()
        del self._served[fd]
        self._nap_s = _FIRST_NAP_S  # a command that closes its pipes is about to exit

    def _end_if_due(self, now: float, deadline: float, grace_s: float) -> None:
        if not self._has_exited and self._child.has_exited():
            self._has_exited = True
            self._child.reap()
        elif self._kill_at == math.inf:
            self._end_early_if_due(now, deadline, grace_s)
        if self._stop is not None:
            self._kill_at = min(self._kill_at, self._stop.kill_at)
        if now >= self._kill_at:
            self._child.signal(signal.SIGKILL)

    def _end_early_if_due(self, now: float, deadline: float, grace_s: float) -> None:
        if self._stop is not None and self._stop.kill_at < math.inf:
            self.stopped = True
            self._tell_to_end(self._stop.kill_at)
        elif now >= deadline:
            self.timed_out = True
            self._tell_to_end(now + grace_s)
        elif self.stdout.is_over:
            self._tell_to_end(now + grace_s)

    def _tell_to_end(self, kill_at: float) -> None:
        if self._kill_at == math.inf:
            self._kill_at = kill_at
            self._nap_s = _FIRST_NAP_S
            self._child.signal(signal.SIGTERM)
