"""Runs many command lines, each with its output on a terminal of its own, quickly.

Each is a fork of one process that has loaded what commands load: a hundred take seconds. Reads a
JSON array of command lines on stdin and prints one of `[exit code, what the terminal was sent]`.
"""

import gc
import importlib
import json
import os
import pkgutil
import pty
import signal
import sys

import rich.console
import rich.progress
import rich.table  # noqa: F401

import ackbus.cli

#: Seconds after which a command that has not ended is killed.
MAX_S = 20


def run(arguments: list[str]) -> tuple[int, str]:
    """Runs one command line in a fork, and returns its exit code and what it sent."""
    pid, terminal = pty.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.alarm(MAX_S)
        sys.argv = ["bus", *arguments]
        code = 70
        try:
            code = ackbus.cli.main()
        finally:
            os._exit(code)
    sent = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other end is closed: the command has ended
            break
        sent += data
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), sent.decode(errors="surrogateescape")


def load() -> None:
    """Loads the commands, but for what looks at the terminal when it is loaded."""
    left_out = ("torture", "mcp", "server", "terminal", ".top")
    for found in pkgutil.walk_packages(importlib.import_module("ackbus").__path__, "ackbus."):
        if not any(word in found.name for word in left_out):
            importlib.import_module(found.name)
    gc.freeze()  # a collection in a fork would copy every page


if __name__ == "__main__":
    load()
    print(json.dumps([run(line) for line in json.load(sys.stdin)]))
