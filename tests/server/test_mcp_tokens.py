"""Tools and their results take no more of an agent's context than they did."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ackbus.server.mcp.tools.profiles import PROFILES

from .test_mcp_start import LISTING, lines_of, started

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "mcp_tokens.py"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The record that the benchmark writes."""
    out = tmp_path_factory.mktemp("bench") / "record.json"
    env = {key: value for key, value in os.environ.items() if not key.startswith("BUS_")}
    subprocess.run(
        [sys.executable, BENCH, "--smoke", "--out", out], env=env, check=True, capture_output=True
    )
    written: dict[str, Any] = json.loads(out.read_text())
    return written


def test_tools_and_results_take_no_more_tokens_than_before(record: dict[str, Any]) -> None:
    """And a fifth less where a program shows the model both forms."""
    targets = record["targets"]
    assert len(targets) == 8
    assert [each for each in targets if not each["reached"]] == []


@pytest.mark.parametrize("profile", PROFILES)
def test_list_is_counted_as_a_program_gets_it(
    profile: str,
    record: dict[str, Any],
    bus_dir: Path,
    bus_env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Issue 32, item 12: with each tool of the profile, and all that is sent of it."""
    monkeypatch.syspath_prepend(BENCH.parent)
    bench = importlib.import_module("mcp_tokens")
    with started(bus_dir, bus_env, "--profile", profile) as server:
        server.send(lines_of(*LISTING))
        sent = server.until("tools/list")[-1]["result"]["tools"]
    assert {each["name"] for each in sent} == set(PROFILES[profile])
    counted = record["results"]["estimated"][f"list of tools, {profile}"]["median"]
    assert counted == bench.estimated(bench.written(sent))
