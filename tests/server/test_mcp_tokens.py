"""Tools and their results take no more of an agent's context than they did."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "mcp_tokens.py"


def test_tools_and_results_take_no_more_tokens_than_before(tmp_path: Path) -> None:
    """And a fifth less where a program shows the model both forms."""
    out = tmp_path / "record.json"
    env = {key: value for key, value in os.environ.items() if not key.startswith("BUS_")}
    subprocess.run(
        [sys.executable, BENCH, "--smoke", "--out", out], env=env, check=True, capture_output=True
    )
    targets = json.loads(out.read_text())["targets"]
    assert len(targets) == 8
    assert [each for each in targets if not each["reached"]] == []
