"""Live output: what running plugins print is stored in chunks, by a thread of its own.

The threads that read the pipes must not wait for the bus: a deadline would be late.
"""

from __future__ import annotations

import codecs
import logging
import threading
import time
from functools import partial

from ...schema.errors import AckbusError
from ...schema.processes import start_thread
from ...schema.queries import engine_of
from ..records.job_log import JobLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Thread

    from ...bus.bus import Bus

#: Seconds between two writes: what a plugin prints shows up that much later. What ends sooner is
#: only in the log of jobs.
_PAUSE_S = 0.5

#: How much of one attempt's output is shown live, in bytes: the log of jobs has all of it.
_MAX_BYTES = 1024 * 1024

_log = logging.getLogger("ackbus.automation.output")


class _Attempt:
    """An attempt that prints."""

    def __init__(self) -> None:
        self.chunks: list[tuple[str, bytes]] = []  # appending is one step
        self.left_bytes = _MAX_BYTES
        self.since = time.monotonic()
        decoder = codecs.getincrementaldecoder("utf-8")
        self.decoders = {name: decoder(errors="replace") for name in ("stdout", "stderr")}


class LiveOutput:
    """Takes the output of running jobs, and stores it in short transactions."""

    def __init__(self, bus: Bus) -> None:
        self._engine = engine_of(bus)
        self._log = JobLog(self._engine)
        self._running: dict[int, _Attempt] = {}
        self._wanted = threading.Event()
        self._over = threading.Event()
        self._thread: Thread | None = None

    def begin(self, token: int) -> Callable[[str, bytes], None]:
        """Begin with the attempt of a claim; return what takes the name of a stream and bytes."""
        running = self._running[token] = _Attempt()
        return partial(self._take, running)

    def end(self, token: int) -> None:
        """Store no more of an attempt, whose end is about to be stored."""
        self._running.pop(token, None)

    def close(self) -> None:
        """End the thread."""
        self._over.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _take(self, attempt: _Attempt, stream: str, data: bytes) -> None:
        kept = data[: attempt.left_bytes]
        if kept:
            attempt.left_bytes -= len(kept)
            attempt.chunks.append((stream, kept))
            self._wanted.set()

    def start(self) -> None:
        """Start the thread."""
        self._thread = start_thread(self._run, "live output")

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._wanted.wait()
                self._wanted.clear()
                self._over.wait(_PAUSE_S)
                try:
                    self._write()
                except AckbusError as error:  # the end of the job has all of it
                    _log.warning("live output was not stored: %s", error)
        finally:
            self._engine.close_thread()

    def _write(self) -> None:
        due = time.monotonic() - _PAUSE_S
        printed = [
            token for token, one in list(self._running.items()) if one.chunks and one.since <= due
        ]
        if any(one.chunks for one in list(self._running.values()) if one.since > due):
            self._wanted.set()
        if not printed:
            return
        with self._engine.write():
            # Under the write lock: an end that is stored later deletes what is stored here.
            self._log.add_output(
                (token, stream, text)
                for token in printed
                if (attempt := self._running.get(token)) is not None
                for stream, text in _texts(attempt)
            )


def _texts(attempt: _Attempt) -> list[tuple[str, str]]:
    """Take what has come, joined where one stream printed on."""
    chunks, attempt.chunks = attempt.chunks, []
    joined: list[tuple[str, bytearray]] = []
    for stream, data in chunks:
        if joined and joined[-1][0] == stream:
            joined[-1][1].extend(data)
        else:
            joined.append((stream, bytearray(data)))
    texts = [(stream, attempt.decoders[stream].decode(bytes(data))) for stream, data in joined]
    return [(stream, text) for stream, text in texts if text]
