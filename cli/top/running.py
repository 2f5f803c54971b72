"""When to look again: as soon as something comes, each second, and when the terminal changes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...bus import Bus
from .. import output
from .sight import AGENT_HEADINGS, QUEUE_HEADINGS, Sight, Watcher

#: How long a picture stays at least, and at most, in seconds.
_LEAST_S, _MOST_S = 0.2, 1.0


def show_once(bus: Bus, *, json: bool) -> None:
    """Print how the bus is now, in plain lines or as one JSON object."""
    sight = Watcher(bus).look()
    if json:
        output.json_line(sight.record())
        return
    output.line(sight.headline())
    if sight.agents:
        output.line("")
        output.table(AGENT_HEADINGS, [agent.row() for agent in sight.agents])
    if sight.queues:
        output.line("")
        output.table(QUEUE_HEADINGS, sight.queue_rows())
    if sight.messages:
        output.line("")
        output.messages((message for message, _ in sight.messages[-10:]), bus.blobs, json=False)


def watch(bus: Bus, *, json: bool) -> None:
    """Show the bus until a key, Ctrl-C or SIGTERM ends it."""
    with _drawing(json=json) as draw, bus.listen() as listener:
        stop = threading.Event()

        def end(*_: object) -> None:
            stop.set()
            listener.wake()

        def pressed(key: str) -> None:
            if key in "qQ":
                end()

        watcher = Watcher(bus)
        with _signals(end, listener.wake), _keys(pressed, json=json):
            while not stop.is_set():
                draw(watcher.look())
                stop.wait(_LEAST_S)  # many messages are one picture
                if not stop.is_set():
                    listener.wait(_MOST_S - _LEAST_S)


@contextmanager
def _drawing(*, json: bool) -> Iterator[Callable[[Sight], None]]:
    if json:
        yield _print_json
        return
    from .view import full_screen  # rich is slow to load

    with full_screen() as draw:
        yield draw


def _print_json(sight: Sight) -> None:
    output.json_line(sight.record())
    output.flush()  # whoever reads waits for the next line


@contextmanager
def _keys(pressed: Callable[[str], None], *, json: bool) -> Iterator[None]:
    if json:
        yield
        return
    from .keyboard import keys

    with keys(pressed):
        yield


@contextmanager
def _signals(end: Callable[..., None], wake: Callable[[], None]) -> Iterator[None]:
    """End well at SIGTERM, which would leave the terminal as it is; draw anew at another size."""
    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, end),
        signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: wake()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
