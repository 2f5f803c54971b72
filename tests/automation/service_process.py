"""The service as a process of its own, as operators start it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ackbus import Bus

from ..command_server import Command, door_server
from ..conftest import wait_until

BUS = (str(Path(sys.executable).with_name("bus")),)


class ServiceProcess:
    """`bus automation start` over a folder of configuration; its bus is its own.

    Args:
        folder: the folder.
        options: more of the command line.
        environ: more variables.
    """

    #: The command line of `bus`. Another one than the installed one is started as such.
    program: tuple[str, ...] = BUS

    def __init__(self, folder: Path, *options: str, **environ: str) -> None:
        self.folder = folder
        self._options = options
        self.log = folder.parent / "service.log"
        self.told = folder.parent / "service.err"
        hidden = ("BUS_DIR", "BUS_CONFIG", "NOTIFY_SOCKET")
        self._env = {k: v for k, v in os.environ.items() if k not in hidden} | environ
        self.process = self._start()

    def _start(self) -> Command | subprocess.Popen[bytes]:
        words = ["automation", "start", "--config", str(self.folder), *self._options]
        with self.log.open("ab") as log, self.told.open("wb") as told:
            if self.program is not BUS:
                command = [*self.program, *words]
                return subprocess.Popen(command, stdout=log, stderr=told, env=self._env)
            server, cwd = door_server(), Path.cwd()
            return server.start_into(log, words, cwd=cwd, env=self._env, err=told)

    @property
    def bus_dir(self) -> Path:
        return self.folder / "data" / ".worker-state"

    def ready(self) -> "ServiceProcess":
        """Waits until it says that it is ready."""
        wait_until(lambda: "ready" in self.told.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.told.read_text()
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def start_again(self) -> "ServiceProcess":
        self.process = self._start()
        return self

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of its log, each of which is a JSON object."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines()]

    def open(self) -> Bus:
        return Bus.open(self.bus_dir)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the bus for this configuration."""
        return self.command(*words, "--config", str(self.folder))

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the bus."""
        return door_server().completed(words, cwd=Path.cwd(), env=self._env, timeout_s=250)

    def __enter__(self) -> "ServiceProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
