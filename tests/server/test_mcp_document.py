"""The page about the tools, against the tools."""

import json
import re
from pathlib import Path

from ackbus.server.mcp.session import DEFAULT_BYTES
from ackbus.server.mcp.tools.catalog import KINDS, tools_of
from ackbus.server.mcp.tools.common import HEAD_CHARS, MAX_COUNTED, MAX_WAIT_S, PAGE
from ackbus.server.mcp.tools.profiles import PROFILES

ROOT = Path(__file__).parents[2]

PAGE_TEXT = (ROOT / "docs/mcp.md").read_text("utf-8")


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_list_has_every_tool_with_all_that_it_takes_and_gives() -> None:
    rows = re.findall(r"^- (`bus_\w+`) .* Takes (.*)\. Gives (.*)\.$", PAGE_TEXT, re.MULTILINE)
    tools = tools_of("full")
    assert [name for name, *_ in rows] == [f"`{name}`" for name in tools]
    for name, (_, takes, gives) in zip(tools, rows, strict=True):
        schema = tools[name].input_schema
        assert names(takes) == list(schema["properties"]), name
        assert re.findall(r"\*\*`(\w+)`\*\*", takes) == schema.get("required", []), name
        spelled = tools[tools[name].gives_as or name]
        assert spelled.gives is tools[name].gives
        assert names(gives) == list(spelled.output_schema["properties"]), name


def test_the_first_tools_of_the_list_are_those_of_the_default_profile() -> None:
    assert "`default` has the first seven tools, `full` (`--profile full`) all fifteen" in PAGE_TEXT
    tools = list(tools_of("full"))
    assert len(tools) == 15
    assert set(tools[:7]) == set(PROFILES["default"])


def test_page_tells_the_bounds_and_the_resources() -> None:
    for text in (
        f"{PAGE} messages",
        f"{DEFAULT_BYTES:,} bytes",
        f"{HEAD_CHARS:,} characters",
        f"up to {MAX_WAIT_S} s",
        f"up to {MAX_COUNTED}",
        *(f"`{kind.template}`" for kind in KINDS),
    ):
        assert text in PAGE_TEXT


def test_page_tells_what_a_first_call_took_when_it_was_measured() -> None:
    """Issue 32, item 12: `bench/mcp_start.py` measures it, and the record has the day."""
    record = json.loads((ROOT / "bench/results/mcp_start.json").read_text("utf-8"))
    took_s = record["results"]["processor: bus mcp, and a first call"]["median_us"] / 1e6
    day = record["taken_at"][:10]
    assert f"took {took_s:.2f} s of a processor on {day}" in " ".join(PAGE_TEXT.split())
