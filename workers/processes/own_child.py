"""A command that is a child of the host itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

from ...schema.children import EndUnknown, ReapedChild
from .end_deadlines import DYING_S
from .pipes import Pipes
from .process_session import ProcessSession
from .supervisor import limiter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    from .supervisor import Limits

    class Child(Protocol):
        """A running command, a child of this process or of a supervisor."""

        pipes: Pipes
        fd: int | None

        @property
        def returncode(self) -> int | None:
            """Its exit status, or minus the number of the signal that ended it; None until then."""

        def hear(self) -> bool:
            """Take in what the descriptor `fd` tells; return whether it has more to tell later."""

        def has_exited(self) -> bool:
            """Whether the command itself has ended; its `returncode` may follow with `reap`."""

        def reap(self) -> None:
            """Take note of how a command that has exited did so."""

        def is_left(self) -> bool:
            """Whether the command, or something that it started, is there and can be ended."""

        def signal(self, number: int) -> None:
            """Send a signal to the command and what it started."""

        def close(self) -> None:
            """Give back what is held for it besides its pipes."""


class OwnChild:
    """A command that this process starts and reaps. What is in its session counts as its own.

    Attributes:
        pipes: what it reads and prints.
        fd: readable when it has exited; None where the system has no such thing.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        captures: bool,
        limits: Limits = (),
    ) -> None:
        self.pipes = Pipes(captures=captures)
        stdin, stdout, stderr = self.pipes.theirs
        try:
            self._process = ReapedChild(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=limiter(limits),
            )
        except (subprocess.SubprocessError, EndUnknown) as error:
            self.pipes.close()
            raise ValueError(str(error)) from error
        except BaseException:
            self.pipes.close()
            raise
        finally:
            self.pipes.close_theirs()
        self.fd = _exit_descriptor(self._process.pid)
        self._is_dead = False
        self._session = ProcessSession(self._process)

    @property
    def returncode(self) -> int | None:
        """Its exit status; None as long as it is not reaped."""
        return self._process.returncode

    def hear(self) -> bool:
        """Take note that it has exited."""
        self._is_dead = True
        return False

    def has_exited(self) -> bool:
        """Whether it has exited."""
        return self._process.poll() is not None if self.fd is None else self._is_dead

    def reap(self) -> None:
        """Reap it, so that its number is free."""
        self._process.wait()

    def is_left(self) -> bool:
        """Whether it is not reaped, or its session has members that can be ended."""
        return self._session.is_left()

    def signal(self, number: int) -> None:
        """Send a signal to its session."""
        self._session.signal(number)

    def close(self) -> None:
        """Close the descriptor."""
        fd, self.fd = self.fd, None
        if fd is not None:
            os.close(fd)

    def end(self) -> None:
        """Kill its session at once, and reap it."""
        self.pipes.close()
        self.signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired, EndUnknown):
            self._process.wait(DYING_S)
        self.close()


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that is readable when a child has exited; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # an old kernel, a sandbox, too many open files
        return None
