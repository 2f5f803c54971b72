"""Stand-ins for the programs of agents: processes that start hooks, commands and the MCP server."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUS = str(Path(sysconfig.get_path("scripts"), "bus"))

_PROGRAM = """
import json, subprocess, sys
server = None
for line in sys.stdin:
    asked = json.loads(line)
    if "serve" in asked:
        server = subprocess.Popen(
            asked["serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        print("{}", flush=True)
    elif "tell" in asked:
        server.stdin.write(json.dumps(asked["tell"]) + "\\n")
        server.stdin.flush()
        print("{}" if "id" not in asked["tell"] else server.stdout.readline().strip(), flush=True)
    else:
        done = subprocess.run(asked["run"], input=asked["stdin"], capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


class AgentProgram:
    """A running program of an agent; its hooks, commands and its MCP server are its children."""

    def __init__(self, process: "subprocess.Popen[str]", agent: str) -> None:
        self.process, self._agent = process, agent
        self._asked = 0

    def run(self, *words: str, stdin: str = "") -> str:
        """Runs a command in a shell, as hooks are run, and returns its output; it must not fail."""
        shell = ["/bin/sh", "-c", '"$@"; exit $?', "sh", BUS, *words]
        code, out, err = self._ask({"run": shell, "stdin": stdin})
        assert (code, err) == (0, ""), (code, out, err)
        return str(out)

    def hook(self, event: str, **told: Any) -> str:
        """Runs a hook of the program, and returns what the model is shown."""
        out = self.run("hook", event, "opencode", "--agent", self._agent, stdin=json.dumps(told))
        return str(json.loads(out)["text"]) if out else ""

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Calls a tool of the program's MCP server, and returns its structured result."""
        if not self._asked:
            self._ask({"serve": [BUS, "mcp", "--agent", self._agent, "--profile", "full"]})
            about = {"name": "stand-in", "version": "1"}
            begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
            self._request("initialize", begin)
            self._ask({"tell": {"jsonrpc": "2.0", "method": "notifications/initialized"}})
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        return {"refused": True} if result.get("isError") else dict(result["structuredContent"])

    def kill(self) -> None:
        """Kills the program at once; its server ends when it notices."""
        self.process.kill()
        self.process.wait()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._asked += 1
        told = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        answer = self._ask({"tell": told})
        assert "result" in answer, answer
        return dict(answer["result"])

    def _ask(self, what: object) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def agent_program(
    agent: str, folder: Path, env: Mapping[str, str] | None = None
) -> Iterator[AgentProgram]:
    """A program whose hooks and server were set up under a name; it is killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=env,
    ) as process:
        try:
            yield AgentProgram(process, agent)
        finally:
            process.kill()
