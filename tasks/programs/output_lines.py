"""The output of a program as numbered lines, handed on while it runs."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: For how long an exact repeat of the line before it is dropped, in seconds.
REPEATS_S = 1.0

#: A longer line is cut into several, in characters.
MAX_LINE_CHARS = 16_384

#: How many of the last lines are kept for whoever asks why a program failed.
_KEPT_LINES = 20

STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line that a program printed.

    Attributes:
        stream: `stdout` or `stderr`.
        seq: its number in that stream, from 1.
        text: the line, without its end.
    """

    stream: str
    seq: int
    text: str


class OutputLines:
    """Makes lines of what a program prints, and drops exact repeats within a second.

    Args:
        take: called with each line; it must not block.
        clock: returns the time in seconds, on a clock that nobody sets.
    """

    def __init__(self, take: Callable[[OutputLine], None], clock: Callable[[], float]) -> None:
        self._take = take
        self._clock = clock
        self._streams = {name: _Stream() for name in STREAMS}
        self._last: deque[str] = deque(maxlen=_KEPT_LINES)

    def add(self, stream: str, data: bytes) -> None:
        """Take in bytes of a stream, as they come."""
        self._cut(stream, self._streams[stream].decoder.decode(data))

    def end(self) -> None:
        """Hand on what stands in the streams without an end of its line."""
        for name, stream in self._streams.items():
            self._cut(name, stream.decoder.decode(b"", final=True))
            if stream.rest:
                self._line(name, stream.rest)
                stream.rest = ""

    def last(self) -> str:
        """Return the last line with anything in it; "" without one."""
        return next((text.strip() for text in reversed(self._last) if text.strip()), "")

    def tail(self) -> str:
        """Return the last lines, both streams as they came."""
        return "\n".join(self._last)

    def _cut(self, name: str, text: str) -> None:
        stream = self._streams[name]
        *lines, rest = (stream.rest + text).replace("\r\n", "\n").split("\n")
        for line in lines:
            self._line(name, line)
        while len(rest) > MAX_LINE_CHARS:
            self._hand_on(name, rest[:MAX_LINE_CHARS])
            rest = rest[MAX_LINE_CHARS:]
        stream.rest = rest

    def _line(self, name: str, text: str) -> None:
        stream, now = self._streams[name], self._clock()
        if text == stream.text and now < stream.at + REPEATS_S:
            return
        stream.text, stream.at = text, now
        for start in range(0, max(1, len(text)), MAX_LINE_CHARS):
            self._hand_on(name, text[start : start + MAX_LINE_CHARS])

    def _hand_on(self, name: str, text: str) -> None:
        self._streams[name].seq += 1
        self._last.append(text)
        self._take(OutputLine(name, self._streams[name].seq, text))


class _Stream:
    """A stream: the line that is not whole yet, and the last one that was handed on."""

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.rest = ""
        self.text: str | None = None
        self.at = 0.0
        self.seq = 0
