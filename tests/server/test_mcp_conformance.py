"""MCP's own conformance suite against `bus serve`: `make nightly` gets it from npm."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import Serve

#: The folder of npm's modules that has the suite, and a Node that is new enough where npm had one.
FOLDER = os.environ.get("ACKBUS_CONFORMANCE", "")

#: What the suite asks for, and the server has not.
LACKING = Path(__file__).with_name("conformance.yaml")

#: The oldest version of Node that the suite runs on.
_OLDEST = 22


def node() -> str | None:
    """The path of a Node that is new enough, or None."""
    path = shutil.which("node", path=f"{FOLDER}/.bin{os.pathsep}{os.environ['PATH']}")
    if path is None:
        return None
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"v(\d+)", said)
    return path if found and int(found[1]) >= _OLDEST else None


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_server_passes_the_conformance_suite(serve: Serve) -> None:
    """Issue 32, item 12."""
    suite = Path(FOLDER, "@modelcontextprotocol", "conformance", "dist", "index.js")
    runner = node()
    if not FOLDER or not suite.exists() or runner is None:
        pytest.skip(f"no suite, or no Node {_OLDEST} to run it: see `make nightly`")
    done = subprocess.run(
        [
            runner,
            str(suite),
            "server",
            "--url",
            f"{serve().base_url}/mcp",
            "--suite",
            "all",
            "--expected-failures",
            str(LACKING),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    for scenario in ("server-initialize", "ping", "tools-list", "resources-list"):
        assert f"✓ {scenario}: 1 passed, 0 failed" in done.stdout
