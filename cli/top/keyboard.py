"""Single keys, as they are pressed, while a picture fills the terminal."""

from __future__ import annotations

import os
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
    reader = threading.Thread(target=_read, args=(descriptor, pressed), daemon=True)
    try:
        tty.setcbreak(descriptor)  # Ctrl-C goes on to be one
        reader.start()
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read(descriptor: int, pressed: Callable[[str], None]) -> None:
    try:
        while key := os.read(descriptor, 1):
            pressed(key.decode(errors="replace"))
    except OSError:  # the terminal has gone
        pressed("q")
