"""The loop of the view: it looks at each new message, each second, and at a resize."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from ...bus.doorbell import StopEvent, wait_for
from ...bus.local_bus import LocalBus
from ...schema.message.times import format_ts
from ..show.board import cut, line, row_counts, table_part
from ..show.output import Output
from ..show.terminal import message_line
from .snapshot import AGENT_HEADINGS, QUEUE_HEADINGS, BusSnapshot, Watcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..show.text import Parts

# Single keys, as they are pressed, while a picture fills the terminal.


@contextmanager
def keys(pressed: Callable[[str], None]) -> Iterator[None]:
    """Call `pressed` for each key, in a thread; the terminal is as it was at the end.

    Does nothing where standard input is no terminal.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    until, end = os.pipe()
    reader = threading.Thread(target=_read, args=(descriptor, until, pressed), daemon=True)
    try:
        tty.setcbreak(descriptor)  # Ctrl-C and Ctrl-Z keep their meaning
        reader.start()
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        os.close(end)  # ends the reader, so that it takes no key from the next program
        reader.join()
        os.close(until)


def _read(descriptor: int, until: int, pressed: Callable[[str], None]) -> None:
    while True:
        ready, _, _ = select.select([descriptor, until], [], [])
        if until in ready:
            return
        try:
            key = os.read(descriptor, 1)
        except OSError:
            key = b""
        if not key:  # the terminal has gone
            pressed("q")
            return
        pressed(key.decode(errors="replace"))


# A snapshot of a bus on a terminal: three parts, which share its lines.

#: The lines that are always there: the first, the last, and an empty one above each part.
_FRAME_LINES = 5

#: The characters of a timestamp that are its date, and those after it that are hours to seconds.
_DATE, _CLOCK = len("2026-01-10"), len("14:00:00")


def picture(snapshot: BusSnapshot, height: int) -> RenderableType:
    """Return the picture for a terminal of so many lines; never more lines than it has."""
    agents = [agent.row() for agent in snapshot.agents]
    queues = snapshot.queue_rows()
    rows = row_counts(height - _FRAME_LINES, [len(agents), len(queues)])
    parts: list[RenderableType] = [line(snapshot.headline(), "bold")]
    parts += table_part("agents", "latest", AGENT_HEADINGS, agents, rows[0])
    parts += table_part("queues", "first", QUEUE_HEADINGS, queues, rows[1])
    used = 3 + sum(2 + count if count else 1 for count in rows)
    room = max(0, height - used)
    newest = snapshot.messages[-room:] if room else []
    today = format_ts(snapshot.at_ms)[:_DATE]
    parts += [Text(""), *(cut(message_line(_shortened(shown, today))) for _, shown in newest)]
    parts += [line("q ends", "dim")]
    return Group(*parts[: max(1, height)])


def _shortened(parts: Parts, today: str) -> Parts:
    """Shorten the time of a message: to the time of a message of today, else to the date."""
    seq, ts, route, type, payload = parts
    shown = ts[_DATE + 1 :][:_CLOCK] if ts.startswith(today) else ts[:_DATE]
    return seq, shown, route, type, payload


class Recorded(Protocol):
    """A state of the bus that can be shown."""

    def record(self) -> Mapping[str, object]:
        """Return it as JSON shows it."""


Shown = TypeVar("Shown", bound=Recorded)

#: How long a picture stays at least, and at most, in seconds.
_LEAST_S, _MOST_S = 0.2, 1.0


def show_once(output: Output, bus: LocalBus) -> None:
    """Print the present state of the bus, in plain lines or as one JSON object."""
    snapshot = Watcher(bus).look()
    if output.is_json:
        output.json_line(snapshot.record())
        return
    output.line(snapshot.headline())
    if snapshot.agents:
        output.line("")
        output.table(AGENT_HEADINGS, [agent.row() for agent in snapshot.agents])
    if snapshot.queues:
        output.line("")
        output.table(QUEUE_HEADINGS, snapshot.queue_rows())
    if snapshot.messages:
        output.line("")
        output.messages((message for message, _ in snapshot.messages[-10:]), bus.blobs)


def watch(output: Output, bus: LocalBus) -> None:
    """Show the bus until a key, Ctrl-C or SIGTERM ends it; after Ctrl-Z it goes on with `fg`."""

    def draw(snapshot: BusSnapshot, height: int) -> RenderableType:

        return picture(snapshot, height)

    keep_showing(output, bus, Watcher(bus).look, draw)


def keep_showing(
    output: Output,
    bus: LocalBus,
    look: Callable[[], Shown],
    picture: Callable[[Shown, int], RenderableType],
) -> None:
    """Show something of a bus, as `watch` shows the bus.

    Args:
        bus: an open bus.
        look: returns its present state.
        picture: makes the picture for a terminal of so many lines.
    """
    while _show_until_left(output, bus, look, picture):
        os.kill(os.getpid(), signal.SIGSTOP)  # the terminal is restored by now


def _show_until_left(
    output: Output,
    bus: LocalBus,
    look: Callable[[], Shown],
    picture: Callable[[Shown, int], RenderableType],
) -> bool:
    """Show the bus until it is ended or suspended; return whether it is suspended."""
    ended, suspended, stop = threading.Event(), threading.Event(), StopEvent()

    def end(*_: object) -> None:
        ended.set()
        stop.set()

    def suspend(*_: object) -> None:
        suspended.set()
        end()

    def pressed(key: str) -> None:
        if key in "qQ":
            end()

    handlers = {signal.SIGTERM: end, signal.SIGWINCH: lambda *_: stop.wake()}
    if not output.is_json:
        handlers[signal.SIGTSTP] = suspend
    with _drawing(output, picture) as draw, _signals(handlers), _keys(output, pressed):

        def show() -> None:
            draw(look())
            ended.wait(_LEAST_S)  # many messages are one picture

        wait_for(bus, show, recheck_s=_MOST_S - _LEAST_S, stop=stop)
    return suspended.is_set()


@contextmanager
def _drawing(
    output: Output,
    picture: Callable[[Shown, int], RenderableType],
) -> Iterator[Callable[[Shown], None]]:
    if output.is_json:
        yield partial(_print_json, output)
        return
    from ..show.board import full_screen  # rich is slow to load

    with full_screen(picture) as draw:
        yield draw


def _print_json(output: Output, shown: Recorded) -> None:
    output.json_line(shown.record())
    output.flush()  # the reader waits for the next line


@contextmanager
def _keys(output: Output, pressed: Callable[[str], None]) -> Iterator[None]:
    if output.is_json:
        yield
        return

    with keys(pressed):
        yield


@contextmanager
def _signals(handlers: Mapping[signal.Signals, Callable[..., None]]) -> Iterator[None]:
    """Handle signals: the default action of some would not restore the terminal."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
