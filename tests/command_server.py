"""Runs commands in forks of a process that has loaded `bus`: no interpreter starts for each.

Most tests of the command line ask what a command prints and stores. Starting Python and loading
the command took half of the time of all tests. A fork runs the same `main` as a process of its
own, with its own arguments, directory, environment and standard streams. A test of what depends on
the start itself (signals, terminals, the parent, what is loaded) starts the installed command.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any, NoReturn

#: The installed command.
BUS = Path(sysconfig.get_path("scripts"), "bus")

#: What commands print is for a plain terminal, whoever runs the tests.
PLAIN = {"COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}

_NUMBER = struct.Struct("!i")


class CommandServer:
    """The process that forks, as tests see it. Any number of threads may run commands.

    Args:
        env: what it starts with. What Python reads of the environment at its start (encodings) is
            the same for all its commands.
        doors: load what servers load, too, which takes a second more.
    """

    def __init__(self, env: Mapping[str, str], *, doors: bool = False) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            argv = [sys.executable, "-P", __file__, str(theirs.fileno()), *(["doors"] * doors)]
            self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env=env)

    def run(
        self,
        args: Sequence[bytes],
        streams: tuple[int, int, int],
        *,
        cwd: Path,
        env: Mapping[str, str],
        timeout_s: float,
    ) -> int:
        """Runs `bus` with these arguments, and returns its exit code as `subprocess` does.

        Raises:
            TimeoutExpired: it did not end in time, and was killed.
        """
        with self.start(args, streams, cwd=cwd, env=env) as command:
            return command.wait(timeout_s)

    def start(
        self,
        args: Sequence[bytes],
        streams: tuple[int, int, int],
        *,
        cwd: Path,
        env: Mapping[str, str],
        new_session: bool = False,
    ) -> "Command":
        """Starts `bus` with these arguments and copies of these descriptors."""
        words = [str(BUS), *map(os.fsdecode, args)]
        request = json.dumps(
            {"argv": words, "cwd": str(cwd), "env": dict(env), "new_session": new_session}
        ).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._socket, [b"!"], [theirs.fileno()])
        socket.send_fds(ours, [_NUMBER.pack(len(request))], streams)
        ours.sendall(request)
        return Command(words, _number(ours), ours)

    def start_into(
        self,
        out: IO[bytes],
        args: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        err: IO[bytes] | None = None,
        new_session: bool = False,
    ) -> "Command":
        """Starts `bus` without input, and with files for what it prints."""
        with open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), out.fileno(), (err or out).fileno())
            words = [os.fsencode(arg) for arg in args]
            return self.start(words, streams, cwd=cwd, env=env, new_session=new_session)

    def completed(
        self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Runs `bus` without input, and returns what it printed as `subprocess.run` does."""
        with TemporaryFile() as out, TemporaryFile() as err:
            with self.start_into(out, args, cwd=cwd, env=env, err=err) as command:
                code = command.wait(timeout_s)
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(args, code, out.read().decode(), err.read().decode())

    def close(self) -> None:
        """Ends the process."""
        self._socket.close()
        self._process.wait()


class Command:
    """A command that runs in a fork. What still runs at the end of a `with` block is killed."""

    def __init__(self, words: list[str], pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self._words = words
        self._connection = connection
        self._code: int | None = None

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._connection.close()

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the command has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks the command to end, by SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the command by SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Returns the exit code as `subprocess` does; None while the command runs."""
        if self._code is None and select.select([self._connection], [], [], 0)[0]:
            self._receive_code()
        return self._code

    def wait(self, timeout_s: float | None = None) -> int:
        """Returns the exit code as `subprocess` does, once there is one.

        Raises:
            TimeoutExpired: there was none in time.
        """
        if self._code is None:
            ready, _, _ = select.select([self._connection], [], [], timeout_s)
            if not ready:
                raise subprocess.TimeoutExpired(self._words, timeout_s or 0)
            self._receive_code()
        assert self._code is not None
        return self._code

    def _receive_code(self) -> None:
        self._code = _number(self._connection)
        self._connection.close()


def _number(connection: socket.socket) -> int:
    return int(_NUMBER.unpack(_received(connection, _NUMBER.size))[0])


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError("the other side has ended")
        data += more
    return data


@functools.cache
def shared_server() -> CommandServer:
    """The process in whose forks commands run, with plain output."""
    server = CommandServer(dict(os.environ) | PLAIN)
    atexit.register(server.close)
    return server


@functools.cache
def door_server() -> CommandServer:
    """The process in whose forks servers and services run: each would load for a second."""
    server = CommandServer(os.environ, doors=True)
    atexit.register(server.close)
    return server


# The process that forks ----------------------------------------------------------------------


def _serve(control: socket.socket) -> None:
    """Forks the commands that come, and tells their process ids and exit codes, until tests end."""
    woken, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a default action would wake nobody
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            woken.recv(4096)
            _tell_ends(running)
        if control not in ready:
            continue
        sign, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not sign:
            return
        connection = socket.socket(fileno=fds[0])
        head, streams, _, _ = socket.recv_fds(connection, _NUMBER.size, 3)
        request = json.loads(_received(connection, *_NUMBER.unpack(head)))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (control, woken, waker, connection, *running.values()):
                each.close()
            _become(request, streams)
        for stream in streams:
            os.close(stream)
        connection.sendall(_NUMBER.pack(pid))
        running[pid] = connection


def _tell_ends(running: dict[int, socket.socket]) -> None:
    """Tells the exit codes of the commands that have ended, and forgets them."""
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            continue
        with running.pop(pid) as connection, contextlib.suppress(OSError):  # its test has given up
            connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))


def _become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """Turns a fork into the command, and ends as the installed script does."""
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        old = getattr(sys, name)
        new = os.fdopen(number, mode, encoding=old.encoding, errors=old.errors, closefd=False)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if request["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    from ackbus.cli import main

    try:
        sys.exit(main())
    except SystemExit as end:
        _end(end)


def _end(end: SystemExit) -> NoReturn:
    """Ends the process as the interpreter does, but frees no module: that is most of its work.

    What is no ordinary end (a text for the user, output that can't be written) is left to the
    interpreter.
    """
    if not isinstance(end.code, int | None):
        raise end
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        raise end from None
    os._exit(end.code or 0)


def _load(*, doors: bool) -> None:
    """Loads what commands load, and makes the parsers of all of them."""
    left_out = ("torture",) if doors else ("torture", "mcp", "server")
    package = importlib.import_module("ackbus")
    for found in pkgutil.walk_packages(package.__path__, "ackbus."):
        if not any(word in found.name for word in left_out):
            importlib.import_module(found.name)
    from ackbus.cli import app

    dict(app.program().commands)
    if doors:
        _make_doors()
    gc.freeze()  # a collection in a fork would copy every page


def _make_doors() -> None:
    """Has the libraries of servers load what they load at their first start: two thirds of one."""
    import anyio
    import uvicorn

    from ackbus import Bus
    from ackbus.server.access.access import BusAccess
    from ackbus.server.running import create_app

    with TemporaryDirectory() as folder, Bus.init(f"{folder}/bus") as bus:
        uvicorn.Config(create_app(bus, BusAccess(bus)), log_config=None).load()
    anyio.run(anyio.sleep, 0)


if __name__ == "__main__":
    _load(doors="doors" in sys.argv)
    _serve(socket.socket(fileno=int(sys.argv[1])))
