"""Single keys, as they are pressed, while a picture fills the terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
        tty.setcbreak(descriptor)  # Ctrl-C and Ctrl-Z go on to be what they are
        reader.start()
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        os.close(end)  # the reader hears it, so that no key of what comes next is lost to it
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
