"""Plugins that come with the package, run as the service runs them."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ackbus
from ackbus.workers.json_contract import parse_response

SHIPPED = Path(ackbus.__file__).parent / "automation/shipped"

#: What a test's plugin gets of this process: no proxies stand between it and the test's server.
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


class Asked:
    """A run of a plugin: its exit code, its response, what it printed to stderr."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.stderr = done.stderr.decode()
        self.response: dict[str, Any] = parse_response(done.stdout) if done.stdout else {}

    @property
    def events(self) -> list[dict[str, Any]]:
        return list(self.response.get("events", ()))

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [each["payload"] for each in self.events]


class Plugin:
    """A plugin with a configuration, and the state that the service would keep."""

    def __init__(self, name: str, config: Mapping[str, Any], **environ: str) -> None:
        self.folder = SHIPPED / name
        (self._program,) = self.folder.glob("run.*")
        self.config = dict(config)
        self.state: dict[str, Any] = {}
        self.environ = ENVIRON | environ

    def ask(self, command: str, **fields: Any) -> Asked:
        """Runs a command, and keeps the state that it reports."""
        request = {
            "protocol": 2,
            "job_id": "job-1",
            "command": command,
            "config": self.config,
            "state": self.state,
            "context": {},
            "deadline_at": "2026-01-01T00:00:00Z",
        }
        done = subprocess.run(
            [self._program],
            input=json.dumps(request | fields, ensure_ascii=False).encode(),
            capture_output=True,
            cwd=self.folder,
            env=self.environ,
            timeout=60,
            check=False,
        )
        asked = Asked(done)
        if asked.response.get("status") == "ok":
            self.state.update(asked.response.get("state_updates") or {})
        return asked

    def poll(self) -> Asked:
        asked = self.ask("poll")
        assert (asked.code, asked.response["status"]) == (0, "ok"), (asked.response, asked.stderr)
        return asked

    def refused(self, command: str = "poll", **fields: Any) -> str:
        """Returns the error for which no attempt follows, of a configuration that is wrong."""
        asked = self.ask(command, **fields)
        assert (asked.code, asked.response["retry"]) == (78, False), asked.response
        return str(asked.response["error"])

    def fails(self, command: str = "poll", **fields: Any) -> tuple[str, bool]:
        """Returns the error of a run, and whether another attempt is wanted."""
        asked = self.ask(command, **fields)
        assert (asked.code, asked.response["status"]) == (0, "error"), asked.response
        return asked.response["error"], asked.response["retry"]
